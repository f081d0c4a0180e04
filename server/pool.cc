// SPDX-License-Identifier: Apache-2.0
#include "server/pool.h"

#include <spdlog/spdlog.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/base/size.h"

namespace brickfs {
namespace {

constexpr uint32_t kCushionFrames = 512;
constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

std::byte* map_memory(void* where, uint64_t bytes, int flags) {
  void* const memory = mmap(where, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// Null unless the machine has as many huge pages free and sets them aside for us.
std::byte* map_reserved_huge_pages(uint64_t bytes) {
  return map_memory(nullptr, bytes, (kPrivate & ~MAP_NORESERVE) | MAP_HUGETLB | (21 << MAP_HUGE_SHIFT));
}

// Begins on a block's boundary, so that the kernel can give each frame one (transparent) huge page.
std::byte* map_normal_pages(uint64_t bytes) {
  std::byte* const memory = map_memory(nullptr, bytes + kBlockBytes, kPrivate);
  if (memory == nullptr) return nullptr;
  const uint64_t before = -reinterpret_cast<uintptr_t>(memory) % kBlockBytes;
  if (before > 0) munmap(memory, before);
  munmap(memory + before + bytes, kBlockBytes - before);
  madvise(memory + before, bytes, MADV_HUGEPAGE);  // a wish
  return memory + before;
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::open(uint32_t frames) {
  if (frames == 0) return Error(EINVAL, "a pool needs memory for one block at least");
  const uint64_t bytes = frames * kBlockBytes;
  std::byte* memory = map_reserved_huge_pages(bytes);
  if (memory == nullptr) {
    memory = map_normal_pages(bytes);
    if (memory == nullptr) return errno_error("mapping the pool");
    spdlog::info("too few huge pages are free for {} of memory: normal pages are used", format_size(bytes));
  }
  madvise(memory, bytes, MADV_DONTFORK);
  return std::unique_ptr<Pool>(new Pool(memory, frames));
}

Pool::Pool(std::byte* memory, uint32_t frames) : memory_(memory), used_(frames, 0), warm_(frames, 0) {
  free_.add(0, frames);
}

Pool::~Pool() { munmap(memory_, used_.size() * kBlockBytes); }

std::optional<uint32_t> Pool::take(uint32_t wanted) {
  const auto frame = free_.take(wanted);
  if (!frame) return frame;
  if (used_[*frame] != 0 || warm_[*frame] != 0) populated_free_.fetch_sub(1, std::memory_order_relaxed);
  warm_[*frame] = 0;
  last_taken_ = *frame;
  return frame;
}

void Pool::give_back(uint32_t frame) {
  if (used_[frame] != 0) populated_free_.fetch_add(1, std::memory_order_relaxed);
  free_.add(frame);
}

uint32_t Pool::cushion() const { return std::min(frames() / 4, kCushionFrames); }

std::optional<uint32_t> Pool::cold_frame(uint32_t most) const {
  if (populated_free_.load(std::memory_order_relaxed) >= std::min(most, cushion())) return std::nullopt;
  const auto cold_from = [&](uint32_t from) {
    auto frame = free_.next(from);
    while (frame && (used_[*frame] != 0 || warm_[*frame] != 0)) frame = free_.next(*frame + 1);
    return frame;
  };
  const auto frame = cold_from(last_taken_);  // neighbours are handed out next
  return frame ? frame : cold_from(0);
}

// All at once: a fault for each page costs as much as the write that meets it. Where it fails, faults do it.
void Pool::populate(uint32_t frame) const { madvise(bytes(frame).data(), kBlockBytes, MADV_POPULATE_WRITE); }

void Pool::note_populated(uint32_t frame) {
  if (free_.next(frame) != frame || used_[frame] != 0 || warm_[frame] != 0) return;
  warm_[frame] = 1;
  populated_free_.fetch_add(1, std::memory_order_relaxed);
}

void Pool::clear(uint32_t frame) {
  if (used_[frame] != 0) {
    std::memset(bytes(frame).data(), 0, kBlockBytes);
    return;
  }
  populate(frame);
  used_[frame] = 1;
}

void Pool::discard(uint32_t frame) {
  if (keeps_memory_.load(std::memory_order_relaxed)) return;
  if (used_[frame] == 0 || populated_free_.load(std::memory_order_relaxed) < cushion()) return;
  if (madvise(bytes(frame).data(), kBlockBytes, MADV_DONTNEED) == 0) used_[frame] = 0;
}

}  // namespace brickfs
