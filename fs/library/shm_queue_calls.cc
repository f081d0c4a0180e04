// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fs/library/shm_queue.h"

using brickfs::Error;
using brickfs::MutexLock;
using brickfs::Result;
using brickfs::Status;
using brickfs::shm_queue::Client;
using brickfs::shm_queue::kMostTransferBytes;
using brickfs::shm_queue::Operation;
using namespace brickfs::library;

Result<uint32_t> brickfs_ring::file_of(int descriptor) {
  MutexLock lock(mutex);
  const auto found = files.find(descriptor);
  if (found == files.end()) return Error(EBADF, "not a file of the ring");
  return found->second;
}

bool brickfs_ring::holds(const void* data, size_t length) const {
  const std::span<std::byte> buffer = client->buffer();
  const auto at = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(buffer.data());
  return at <= buffer.size() && length <= buffer.size() - at;
}

Result<Client::Request> brickfs_ring::request_for(Operation operation, int descriptor, const void* data, size_t length,
                                                  uint64_t offset) {
  Client::Request request{
      .operation = operation, .descriptor = descriptor, .file = TRY(file_of(descriptor)), .offset = offset};
  if (operation == Operation::kFsync) return request;
  if (!holds(data, length)) return Error(EINVAL, "not in the ring's buffer");
  if (length > kMostTransferBytes || offset > INT64_MAX) return Error(EINVAL, "a length or an offset");
  request.buffer_offset = static_cast<const std::byte*>(data) - client->buffer().data();
  request.length = static_cast<uint32_t>(length);
  return request;
}

namespace {

int64_t move(brickfs_ring* ring, Operation operation, int descriptor, const void* data, size_t length,
             uint64_t offset) {
  return guarded([&]() -> int64_t {
    if (ring == nullptr || (data == nullptr && length > 0)) return -EFAULT;
    if (length > 0 && !ring->holds(data, length)) return -EINVAL;
    const auto* bytes = length > 0 ? static_cast<const std::byte*>(data) : ring->client->buffer().data();
    uint64_t done = 0;
    do {
      const size_t part = std::min<size_t>(length - done, kMostTransferBytes);
      const auto request = ring->request_for(operation, descriptor, bytes, part, offset + done);
      const auto moved = request.ok() ? ring->client->run(*request) : request.error();
      if (!moved.ok()) return done > 0 ? static_cast<int64_t>(done) : code_of(moved.error());
      done += *moved;
      bytes += *moved;
      if (*moved < part) break;
    } while (done < length);
    return static_cast<int64_t>(done);
  });
}

}  // namespace

int brickfs_ring_open(int descriptor, size_t length, brickfs_ring** ring) {
  return guarded([&]() -> int {
    if (ring == nullptr) return -EFAULT;
    auto client = Client::open(descriptor, length);
    if (!client.ok()) return code_of(client.error());
    *ring = new brickfs_ring(std::move(*client));
    return 0;
  });
}

int brickfs_ring_close(brickfs_ring* ring) {
  return guarded([&]() -> int {
    if (ring == nullptr) return -EFAULT;
    if (!ring->children.none()) return -EBUSY;
    delete ring;
    return 0;
  });
}

void* brickfs_ring_buffer(const brickfs_ring* ring) {
  return ring != nullptr ? ring->client->buffer().data() : nullptr;
}

size_t brickfs_ring_buffer_length(const brickfs_ring* ring) {
  return ring != nullptr ? ring->client->buffer().size() : 0;
}

int brickfs_ring_add(brickfs_ring* ring, int descriptor) {
  return guarded([&]() -> int {
    if (ring == nullptr) return -EFAULT;
    if (ring->file_of(descriptor).ok()) return -EEXIST;
    const auto file = ring->client->add_file(descriptor);
    if (!file.ok()) return code_of(file.error());
    MutexLock lock(ring->mutex);
    if (ring->files.emplace(descriptor, *file).second) return 0;
    lock.unlock();
    ring->client->forget_file(*file);
    return -EEXIST;
  });
}

int brickfs_ring_remove(brickfs_ring* ring, int descriptor) {
  return guarded([&]() -> int {
    if (ring == nullptr) return -EFAULT;
    const auto file = ring->file_of(descriptor);
    if (!file.ok()) return code_of(file.error());
    {
      MutexLock lock(ring->mutex);
      if (ring->files.erase(descriptor) == 0) return -EBADF;
    }
    ring->client->forget_file(*file);
    return 0;
  });
}

int64_t brickfs_ring_pread(brickfs_ring* ring, int descriptor, void* data, size_t length, uint64_t offset) {
  return move(ring, Operation::kRead, descriptor, data, length, offset);
}

int64_t brickfs_ring_pwrite(brickfs_ring* ring, int descriptor, const void* data, size_t length, uint64_t offset) {
  return move(ring, Operation::kWrite, descriptor, data, length, offset);
}

int brickfs_ring_fsync(brickfs_ring* ring, int descriptor) {
  return guarded([&]() -> int {
    if (ring == nullptr) return -EFAULT;
    const auto request = ring->request_for(Operation::kFsync, descriptor, nullptr, 0, 0);
    const auto synced = request.ok() ? ring->client->run(*request) : request.error();
    return synced.ok() ? 0 : code_of(synced.error());
  });
}
