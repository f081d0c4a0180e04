// SPDX-License-Identifier: Apache-2.0
#include "server/pool.h"

#include <linux/memfd.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>

#include <cstring>

#include "transport/base/size.h"

namespace brickfs {
namespace {

constexpr uint32_t kPopulatedFreeFrames = 64;  // kept at hand; beyond that memory goes back to the system

struct Mapping {
  UniqueFd fd;
  std::byte* memory = nullptr;
};

Result<Mapping> map_memfd(uint64_t bytes, unsigned flags) {
  Mapping mapping;
  mapping.fd.reset(memfd_create("brick pool", MFD_CLOEXEC | flags));
  if (!mapping.fd.valid()) return errno_error("making the pool");
  if (ftruncate(mapping.fd.get(), static_cast<off_t>(bytes)) != 0) return errno_error("sizing the pool");
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mapping.fd.get(), 0);
  if (memory == MAP_FAILED) return errno_error("mapping the pool");
  mapping.memory = static_cast<std::byte*>(memory);
  return mapping;
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::open(uint32_t frames) {
  if (frames == 0) return Error(EINVAL, "a pool needs memory for one block at least");
  const uint64_t bytes = frames * kBlockBytes;
  auto mapping = map_memfd(bytes, MFD_HUGETLB | MFD_HUGE_2MB);  // mmap reserves the pages, or fails
  if (!mapping.ok()) {
    mapping = map_memfd(bytes, 0);
    if (!mapping.ok()) return mapping.error();
    madvise(mapping->memory, bytes, MADV_HUGEPAGE);  // a wish: not every kernel grants it to shared memory
    spdlog::info("too few huge pages are free for {} of memory: normal pages are used", format_size(bytes));
  }
  return std::unique_ptr<Pool>(new Pool(std::move(mapping->fd), mapping->memory, frames));
}

Pool::Pool(UniqueFd fd, std::byte* memory, uint32_t frames) : fd_(std::move(fd)), memory_(memory), used_(frames, 0) {
  free_.add(0, frames);
}

Pool::~Pool() { munmap(memory_, used_.size() * kBlockBytes); }

std::optional<uint32_t> Pool::take(uint32_t wanted) {
  const auto frame = free_.take(wanted);
  if (frame && used_[*frame] != 0) populated_free_.fetch_sub(1, std::memory_order_relaxed);
  return frame;
}

void Pool::give_back(uint32_t frame) {
  if (used_[frame] != 0) populated_free_.fetch_add(1, std::memory_order_relaxed);
  free_.add(frame);
}

void Pool::clear(uint32_t frame) {
  if (used_[frame] != 0) std::memset(bytes(frame).data(), 0, kBlockBytes);
  used_[frame] = 1;
}

void Pool::discard(uint32_t frame) {
  if (used_[frame] == 0 || populated_free_.load(std::memory_order_relaxed) < kPopulatedFreeFrames) return;
  if (madvise(bytes(frame).data(), kBlockBytes, MADV_REMOVE) == 0) used_[frame] = 0;
}

}  // namespace brickfs
