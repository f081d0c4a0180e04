// SPDX-License-Identifier: Apache-2.0
#include "server/store/pool.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "server/store/memory_room.h"
#include "transport/base/check.h"
#include "transport/base/log.h"
#include "transport/base/size.h"

namespace brickfs {
namespace {

constexpr int kNice = 10;             // of the thread: it works for later, who serves now goes first
constexpr uint32_t kShareOfRoom = 4;  // at most such a part of the machine's memory is made ready
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

Result<std::unique_ptr<Pool>> Pool::open(uint32_t frames, const FreeFrames::Upkeep& upkeep) {
  if (frames == 0) return Error(EINVAL, "a pool needs memory for one block at least");
  const uint64_t bytes = frames * kBlockBytes;
  FreeFrames::Upkeep kept = upkeep;
  std::byte* memory = map_reserved_huge_pages(bytes);
  const bool has_normal_pages = memory == nullptr;
  if (!has_normal_pages) {
    kept.cool = false;  // nobody else could have it
  } else {
    memory = map_normal_pages(bytes);
    if (memory == nullptr) return errno_error("mapping the pool");
    log::info("too few huge pages are free for {} of memory: normal pages are used", format_size(bytes));
  }
  madvise(memory, bytes, MADV_DONTFORK);
  return std::unique_ptr<Pool>(new Pool(MappedMemory({memory, bytes}), FreeFrames(frames, kept), has_normal_pages));
}

std::unique_ptr<Pool> Pool::over(MappedMemory memory, const std::vector<bool>& in_use, bool is_zero,
                                 const FreeFrames::Upkeep& upkeep) {
  CHECK(memory.bytes().size() == in_use.size() * kBlockBytes);
  FreeFrames::Upkeep kept = upkeep;
  kept.cool = false;
  madvise(memory.bytes().data(), memory.bytes().size(), MADV_DONTFORK);
  FreeFrames free(in_use, is_zero ? Content::kCold : Content::kUsed, kept);
  return std::unique_ptr<Pool>(new Pool(std::move(memory), std::move(free), false));
}

Pool::Pool(MappedMemory memory, FreeFrames free, bool has_normal_pages)
    : memory_(std::move(memory)),
      has_normal_pages_(has_normal_pages),
      content_(memory_.bytes().size() / kBlockBytes, Content::kUsed),
      free_(std::move(free)) {}

Pool::~Pool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

uint32_t Pool::free_frames() const {
  MutexLock lock(mutex_);
  return free_.count() + (busy_ ? 1 : 0);
}

std::optional<uint32_t> Pool::take(uint32_t wanted) {
  MutexLock lock(mutex_);
  while (free_.count() == 0 && busy_) done_.wait(lock);
  const auto frame = free_.take(wanted, FreeFrames::Clock::now());
  if (!frame) return std::nullopt;
  wake_if_needed();
  content_[frame->number] = frame->content;
  return frame->number;
}

void Pool::give_back(uint32_t frame) {
  MutexLock lock(mutex_);
  free_.add({frame, content_[frame]});
  wake_if_needed();
}

void Pool::clear(uint32_t frame) {
  make_zero({frame, content_[frame]});
  content_[frame] = Content::kUsed;
}

std::span<std::byte> Pool::keep_memory() {
  MutexLock lock(mutex_);
  free_.keep_all();
  while (busy_) done_.wait(lock);
  return memory_.bytes();
}

// Populated all at once: a fault for each page costs as much as the write that meets it. Where it fails, faults do it.
void Pool::make_zero(FreeFrames::Frame frame) const {
  if (frame.content == Content::kUsed) std::memset(bytes(frame.number).data(), 0, kBlockBytes);
  if (frame.content == Content::kCold) madvise(bytes(frame.number).data(), kBlockBytes, MADV_POPULATE_WRITE);
}

// --- the thread

void Pool::wake_if_needed() {
  if (!asleep_ || (will_look_ && !free_.runs_short())) return;
  asleep_ = false;
  changed_.notify_one();
}

void Pool::run() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
  MutexLock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const uint64_t room = memory_room_bytes() / kShareOfRoom / kBlockBytes;
    lock.lock();
    const auto chore =
        free_.next_chore(static_cast<uint32_t>(std::min<uint64_t>(room, frames())), FreeFrames::Clock::now());
    if (chore) {
      do_chore(*chore);
    } else {
      sleep(lock);
    }
  }
}

void Pool::do_chore(const FreeFrames::Chore& chore) {
  const auto [frame, becomes] = chore;
  busy_ = true;
  mutex_.unlock();
  Content content = becomes;
  if (becomes == Content::kReady) make_zero(frame);
  if (becomes == Content::kCold && madvise(bytes(frame.number).data(), kBlockBytes, MADV_DONTNEED) != 0)
    content = frame.content;
  mutex_.lock();
  busy_ = false;
  free_.add({frame.number, content});
  done_.notify_all();
}

void Pool::sleep(MutexLock& lock) {
  if (stopping_) return;
  const auto look = free_.next_look();
  asleep_ = true;
  will_look_ = look.has_value();
  if (look) {
    changed_.wait_until(lock, *look);
  } else {
    changed_.wait(lock);
  }
  asleep_ = false;
}

}  // namespace brickfs
