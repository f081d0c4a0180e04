// SPDX-License-Identifier: Apache-2.0
#include "fs/library/buffer.h"

#include <sys/mman.h>

#include <algorithm>

namespace brickfs::library {
namespace {

constexpr size_t kSliceBytes = 1 * kGiB;  // of one slice, which has 32 bits for its length
constexpr size_t kMostBytes = 1024 * kSliceBytes;
constexpr size_t kHugePage = 2 * kMiB;

std::byte* allocate_pages(size_t length) {
  void* const memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (length >= kHugePage) madvise(memory, length, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

}  // namespace

Result<brickfs_buffer*> make_buffer(void* memory, size_t length, Children& owner, const Register& register_memory) {
  if (length == 0 || length > static_cast<size_t>(INT64_MAX)) return Error(EINVAL, "length of a buffer");
  const bool ours = memory == nullptr;
  auto* const data = ours ? allocate_pages(length) : static_cast<std::byte*>(memory);
  if (data == nullptr) return Error(ENOMEM, "memory for a buffer");
  auto buffer = std::make_unique<brickfs_buffer>(data, length, ours, owner);
  buffer->registration = TRY(register_memory({data, length}));
  return buffer.release();
}

Status add_slices(Slices& slices, void* data, size_t length, const brickfs_buffer* buffer, const Children& owner) {
  if (length == 0) return {};
  if (data == nullptr) return Error(EFAULT, "no memory");
  if (length > kMostBytes) return Error(EINVAL, "too many bytes");
  auto* bytes = static_cast<std::byte*>(data);
  uint32_t key = 0;
  if (buffer != nullptr) {
    const auto offset = reinterpret_cast<uintptr_t>(bytes) - reinterpret_cast<uintptr_t>(buffer->data);
    if (&buffer->owner != &owner || offset > buffer->length || length > buffer->length - offset)
      return Error(EINVAL, "not within the buffer");
    key = buffer->registration.local_key();
  }
  for (; length > 0;) {
    const size_t part = std::min(length, kSliceBytes);
    slices.push_back({bytes, static_cast<uint32_t>(part), key});
    bytes += part;
    length -= part;
  }
  return {};
}

Status add_slices(Slices& slices, const brickfs_vector* vectors, unsigned count, const Children& owner) {
  if (count > BRICKFS_VECTORS_MAX) return Error(EINVAL, "too many vectors");
  if (vectors == nullptr && count > 0) return Error(EFAULT, "no vectors");
  size_t left = kMostBytes;
  for (unsigned i = 0; i < count; ++i) {
    if (vectors[i].length > left) return Error(EINVAL, "too many bytes");
    left -= vectors[i].length;
    TRY(add_slices(slices, vectors[i].data, vectors[i].length, vectors[i].buffer, owner));
  }
  return {};
}

uint64_t bytes_of(const Slices& slices) {
  uint64_t bytes = 0;
  for (const LocalSlice& slice : slices) bytes += slice.length_bytes;
  return bytes;
}

void BuffersInUse::add(const brickfs_request& request) {
  const auto use = [this](const brickfs_buffer* buffer) {
    if (buffer == nullptr) return;
    buffers_.push_back(buffer);
    buffer->under_way.fetch_add(1);
  };
  if (request.count == 0) use(request.buffer);
  for (uint32_t i = 0; i < request.count; ++i) use(request.vectors[i].buffer);
}

void BuffersInUse::clear() {
  for (const brickfs_buffer* const buffer : buffers_) buffer->under_way.fetch_sub(1);
  buffers_.clear();
}

}  // namespace brickfs::library

brickfs_buffer::~brickfs_buffer() {
  registration = brickfs::RegisteredMemory();
  if (ours) munmap(data, length);
  owner.remove();
}

void* brickfs_buffer_data(const brickfs_buffer* buffer) { return buffer != nullptr ? buffer->data : nullptr; }

size_t brickfs_buffer_length(const brickfs_buffer* buffer) { return buffer != nullptr ? buffer->length : 0; }

int brickfs_buffer_free(brickfs_buffer* buffer) {
  return brickfs::library::guarded([&] {
    if (buffer != nullptr && buffer->under_way.load() > 0) return -EBUSY;
    delete buffer;
    return 0;
  });
}
