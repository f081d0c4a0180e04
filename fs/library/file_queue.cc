// SPDX-License-Identifier: Apache-2.0
// Requests of files. Small reads, and writes over bytes that are there, are gathered and their bytes travel together
// (fs/operations/joint_transfer.h): no thread for a request, one round trip for all. By the thread that polls, or, with
// BRICKFS_QUEUE_BACKGROUND, by one of the file system's threads. Whatever else there is waits on such a thread of its
// own.
#include <fcntl.h>

#include <algorithm>
#include <array>

#include "fs/library/open_fs.h"
#include "fs/library/queue.h"
#include "fs/operations/joint_transfer.h"

namespace brickfs::library {
namespace {

constexpr uint64_t kSmallBytes = 64 * kKiB;  // of one request: larger ones gain nothing by company
constexpr size_t kTogether = 128;

class FileQueue final : public brickfs_queue {
 public:
  FileQueue(brickfs_fs& fs, unsigned most, bool background);
  ~FileQueue() override;
  Status start() { return done_.start(background_, depth); }

  void submit(const brickfs_request& request) override;
  void begin() override;
  int poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) override;
  int descriptor() const override { return background_ ? done_.descriptor() : -1; }

 private:
  struct Slot {
    uint32_t operation = 0;
    brickfs_file* file = nullptr;
    uint64_t offset = 0;
    uint64_t user_data = 0;
    uint64_t bytes = 0;
    Slices slices;
    BuffersInUse buffers;
  };

  Status prepare(const brickfs_request& request, Slot& slot);
  bool is_small(const Slot& slot) const;
  void run_alone(Slot* slot);
  int64_t serve(Slot& slot);
  void serve_by_worker();
  void serve_gathered();
  void serve_together(std::span<Slot* const> slots);
  bool begin_one(JointTransfer& joint, const Slot& slot);
  void finish(Slot* slot, int64_t result);
  void finish(std::span<Slot* const> slots, std::span<const brickfs_completion> completions);

  brickfs_fs& fs_;
  const bool background_;
  Completions done_;
  std::vector<Slot> slots_;
  Mutex mutex_;
  CondVar quiet_;
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_);
  std::vector<Slot*> gathered_ ABSL_GUARDED_BY(mutex_);
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;  // a worker serves what was gathered
};

FileQueue::FileQueue(brickfs_fs& fs, unsigned most, bool background)
    : brickfs_queue(fs.children, most), fs_(fs), background_(background), slots_(most) {
  for (Slot& slot : slots_) free_.push_back(&slot);
  gathered_.reserve(most);
}

FileQueue::~FileQueue() {
  if (!background_) serve_gathered();
  MutexLock lock(mutex_);
  while (free_.size() < slots_.size() || serving_) quiet_.wait(lock);
}

Status FileQueue::prepare(const brickfs_request& request, Slot& slot) {
  slot.slices.clear();
  if (request.descriptor != 0 || request.reserved != 0) return Error(EINVAL, "request");
  if (request.operation < BRICKFS_READ || request.operation > BRICKFS_FSYNC) return Error(EINVAL, "operation");
  if (request.file == nullptr) return Error(EFAULT, "no file");
  if (&request.file->fs != &fs_) return Error(EXDEV, "a file of another file system");
  TRY(fs_.gate());
  slot.operation = request.operation;
  slot.file = request.file;
  slot.offset = request.offset;
  slot.user_data = request.user_data;
  if (request.operation != BRICKFS_FSYNC) {
    TRY(request.count > 0 ? add_slices(slot.slices, request.vectors, request.count, fs_.children)
                          : add_slices(slot.slices, request.data, request.length, request.buffer, fs_.children));
  }
  slot.bytes = bytes_of(slot.slices);
  if (request.operation != BRICKFS_FSYNC) slot.buffers.add(request);
  return {};
}

// What a joint transfer can be asked for.
bool FileQueue::is_small(const Slot& slot) const {
  if (slot.slices.size() != 1 || slot.bytes > kSmallBytes || slot.offset > INT64_MAX) return false;
  if (slot.operation == BRICKFS_READ) return slot.file->reads();
  constexpr int kMore = O_APPEND | O_SYNC | O_DSYNC;
  return slot.file->writes() && (slot.file->flags & kMore) == 0;
}

void FileQueue::submit(const brickfs_request& request) {
  Slot* slot = nullptr;
  {
    MutexLock lock(mutex_);
    while (free_.empty()) quiet_.wait(lock);  // a completion comes a moment before its slot
    slot = free_.back();
    free_.pop_back();
  }
  const Status prepared = prepare(request, *slot);
  if (!prepared.ok()) {
    MutexLock lock(mutex_);
    done_.add({request.user_data, code_of(prepared)});
    free_.push_back(slot);
    return;
  }
  slot->file->under_way.fetch_add(1);
  if (!is_small(*slot)) return run_alone(slot);
  MutexLock lock(mutex_);
  gathered_.push_back(slot);
}

void FileQueue::begin() {
  if (background_) serve_by_worker();
}

void FileQueue::serve_by_worker() {
  {
    MutexLock lock(mutex_);
    if (serving_ || gathered_.empty()) return;
    serving_ = true;
  }
  const auto serve = [this] {
    for (;;) {
      serve_gathered();
      MutexLock lock(mutex_);
      if (!gathered_.empty()) continue;  // submitted a moment ago, by who has seen that this goes on
      serving_ = false;
      return quiet_.notify_all();
    }
  };
  if (!fs_.workers->run(serve)) serve();
}

void FileQueue::run_alone(Slot* slot) {
  if (!fs_.workers->run([this, slot] { finish(slot, serve(*slot)); })) finish(slot, -EAGAIN);
}

int64_t FileQueue::serve(Slot& slot) {
  return guarded([&]() -> int64_t {
    if (slot.operation == BRICKFS_FSYNC) return told(code_of(sync_file(*slot.file)));
    return told(count_of(slot.operation == BRICKFS_READ ? read_file(*slot.file, slot.offset, slot.slices)
                                                        : write_file(*slot.file, slot.offset, slot.slices)));
  });
}

void FileQueue::serve_gathered() {
  std::array<Slot*, kTogether> slots;
  for (;;) {
    size_t count = 0;
    {
      MutexLock lock(mutex_);
      count = std::min(gathered_.size(), kTogether);
      if (count == 0) return;
      std::copy_n(gathered_.begin(), count, slots.begin());
      gathered_.erase(gathered_.begin(), gathered_.begin() + static_cast<ptrdiff_t>(count));
    }
    if (count == 1) {
      finish(slots[0], serve(*slots[0]));
    } else {
      serve_together(std::span(slots).first(count));
    }
  }
}

bool FileQueue::begin_one(JointTransfer& joint, const Slot& slot) {
  return slot.operation == BRICKFS_READ
             ? joint.begin_read(slot.file->ino, slot.offset, slot.slices[0], slot.file->touch())
             : joint.begin_write(slot.file->ino, slot.offset, slot.slices[0], false);
}

// What has to wait goes to other threads before the bytes travel: it may wait for what is begun here.
void FileQueue::serve_together(std::span<Slot* const> slots) {
  std::array<Slot*, kTogether> begun;
  std::array<brickfs_completion, kTogether> completions;
  size_t count = 0;
  size_t next = 0;
  const int failed = guarded([&] {
    const auto joint = fs_.files().joint_transfer(context());
    for (; next < slots.size(); ++next) {
      if (begin_one(*joint, *slots[next])) {
        begun[count++] = slots[next];
      } else {
        run_alone(slots[next]);
      }
    }
    if (count == 0) return 0;
    const Status moved = joint->move();
    for (size_t i = 0; i < count; ++i)
      completions[i] = {begun[i]->user_data, told(moved.ok() ? count_of(joint->result(i)) : code_of(moved))};
    return 0;
  });
  if (failed != 0) {
    for (; next < slots.size(); ++next) begun[count++] = slots[next];
    for (size_t i = 0; i < count; ++i) completions[i] = {begun[i]->user_data, failed};
  }
  finish(std::span(begun).first(count), std::span(completions).first(count));
}

void FileQueue::finish(Slot* slot, int64_t result) {
  const brickfs_completion completion{slot->user_data, result};
  finish(std::span(&slot, 1), std::span(&completion, 1));
}

void FileQueue::finish(std::span<Slot* const> slots, std::span<const brickfs_completion> completions) {
  for (Slot* const slot : slots) {
    slot->buffers.clear();
    slot->file->under_way.fetch_sub(1);
  }
  MutexLock lock(mutex_);
  done_.add(completions);
  free_.insert(free_.end(), slots.begin(), slots.end());
  quiet_.notify_all();
}

int FileQueue::poll(std::span<brickfs_completion> out, unsigned least, int timeout_ms) {
  if (!background_) least > 0 ? serve_gathered() : serve_by_worker();
  // What another thread serves is not this one's to wait for longer than it may.
  Status waited;
  if (least > 0) waited = background_ ? done_.wait(least, timeout_ms) : done_.wait(least, -1, context().interruption);
  const size_t count = done_.take(out);
  return count > 0 || waited.ok() ? static_cast<int>(count) : told(code_of(waited));
}

}  // namespace

}  // namespace brickfs::library

int brickfs_fs_queue(brickfs_fs* fs, unsigned depth, unsigned flags, brickfs_queue** queue) {
  using namespace brickfs::library;
  return served(fs, [&] {
    return open_queue(true, depth, flags, queue,
                      [&](bool background) { return std::make_unique<FileQueue>(*fs, depth, background); });
  });
}
