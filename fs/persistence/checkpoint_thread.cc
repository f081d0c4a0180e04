// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/checkpoint_thread.h"

#include <algorithm>
#include <cstring>

#include "fs/persistence/checkpoint.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{250};
constexpr milliseconds kIdle{1'000};
constexpr milliseconds kFirstPause{250};  // after a failure; doubles with each
constexpr int kMostDoublings = 8;
constexpr int kHopelessFailures = 4;  // in a row: operations do not wait for a checkpoint any more

// With so many blocks free, and as many again for the checkpoints, the journal may grow further: no writer fills them
// before a checkpoint is done. Then its bound is about what a mount replays in a second; half of it more, until
// operations wait, is more than they write during a checkpoint.
constexpr uint64_t kPlentyBlocks = 1'024;
constexpr uint64_t kMostLooseBound = 64;
constexpr uint64_t kMostBound = 512;

}  // namespace

CheckpointThread::CheckpointThread(Parts parts, SuperblockSlots slots, Superblock current)
    : parts_(std::move(parts)),
      slots_(slots),
      current_(std::move(current)),
      stat_{.blocks = current_.checkpoint.blocks()} {}

CheckpointThread::~CheckpointThread() { stop(); }

void CheckpointThread::start() {
  parts_.space.set_metadata_bytes(current_.checkpoint.row_bytes);
  if (checkpoint_is_missing()) run_or_log();
  thread_ = Thread([this] { loop(); });
}

void CheckpointThread::stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  while (running_) changed_.wait(lock);
  Thread thread = std::move(thread_);
  lock.unlock();
  if (!thread.joinable()) return;
  thread.join();
  parts_.journal.set_chain_limit(UINT64_MAX);
}

void CheckpointThread::journal_grew() {
  MutexLock lock(mutex_);
  grew_ = true;
  changed_.notify_all();
}

// --- when

void CheckpointThread::loop() {
  limit_journal();
  while (wait_for_tick()) {
    if (is_due()) run_or_log();
    limit_journal();
  }
}

void CheckpointThread::limit_journal() {
  bool hopeless = false;
  {
    MutexLock lock(mutex_);
    hopeless = failures_ >= kHopelessFailures;
  }
  parts_.journal.set_chain_limit(hopeless ? UINT64_MAX : journal_bound().limit);
}

void CheckpointThread::run_or_log() {
  const Status status = run();
  if (status.ok() || status.error().is(ECANCELED) || !parts_.journal.error().ok()) return;
  log::error("cannot write a checkpoint ({}: {}): the journal grows on; it is tried again",
             std::strerror(status.error().code()), status.error().what());
}

bool CheckpointThread::checkpoint_is_missing() const {
  MutexLock lock(mutex_);
  return stat_.blocks == 0;
}

// False when the thread is to end. A volume whose journal is one block costs no wake-ups.
bool CheckpointThread::wait_for_tick() {
  const bool short_journal = parts_.journal.chain_blocks() <= 1;
  MutexLock lock(mutex_);
  const auto until = std::max(Clock::now() + kTick, not_before_);
  while (!stopping_) {
    const auto now = Clock::now();
    if (now >= not_before_ && (grew_ || (!short_journal && now >= until))) break;
    if (short_journal && !grew_) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, until);
    }
  }
  grew_ = false;
  return !stopping_;
}

bool CheckpointThread::is_due() {
  const auto now = Clock::now();
  const Lsn last = parts_.journal.last();
  if (last != seen_) {
    seen_ = last;
    changed_at_ = now;
  }
  const uint64_t blocks = parts_.journal.chain_blocks();
  return blocks > journal_bound().due || (blocks > 1 && now - changed_at_ >= kIdle);
}

CheckpointThread::JournalBound CheckpointThread::journal_bound() const {
  uint64_t checkpoint = 0;
  {
    MutexLock lock(mutex_);
    checkpoint = stat_.blocks;
  }
  const SpaceUsage usage = parts_.space.usage();
  const uint64_t free = usage.metadata_free_blocks;
  const uint64_t plenty = kPlentyBlocks + 2 * checkpoint;
  if (free <= plenty) return {divide_up(usage.journal_room_blocks, 2), usage.journal_room_blocks};
  const uint64_t most = std::clamp(checkpoint / 4, kMostLooseBound, kMostBound);
  const uint64_t due = std::clamp((free - plenty) / 8, divide_up(usage.journal_room_blocks, 2), most);
  return {due, std::max(due + divide_up(due, 2), usage.journal_room_blocks)};
}

// --- how

Status CheckpointThread::run() {
  {
    MutexLock lock(mutex_);
    while (running_) changed_.wait(lock);
    if (stopping_) return Error(ECANCELED, "checkpoints have stopped");
    running_ = true;
  }
  const Clock::time_point began = Clock::now();
  const uint64_t generation = current_.generation;
  const Status status = write_checkpoint();
  MutexLock lock(mutex_);
  running_ = false;
  stat_.blocks = current_.checkpoint.blocks();
  if (current_.generation != generation) {
    stat_.began = began;
    stat_.took = Clock::now() - began;
  }
  failures_ = status.ok() ? 0 : std::min(failures_ + 1, kMostDoublings + 1);
  not_before_ = status.ok() ? Clock::time_point{} : Clock::now() + kFirstPause * (1 << (failures_ - 1));
  changed_.notify_all();
  return status;
}

CheckpointStat CheckpointThread::stat() const {
  MutexLock lock(mutex_);
  return stat_;
}

Status CheckpointThread::write_checkpoint() {
  const bool is_journal_empty =
      next(parts_.journal.last()) == current_.replay_from && parts_.journal.chain_blocks() <= 1;
  if (is_journal_empty && parts_.read_times.empty()) return {};
  const Journal::Position position = TRY(parts_.journal.rotate());
  parts_.read_times.begin_scan();
  auto place = write_rows();
  const Status installed = place.ok() ? install(std::move(*place), position) : Status(place.error());
  parts_.read_times.end_scan(installed.ok());
  return installed;
}

Result<CheckpointPlace> CheckpointThread::write_rows() {
  CheckpointWriter writer(parts_.volume, parts_.space, current_.seed(), current_.generation + 1,
                          current_.checkpoint.blocks());
  TRY(writer.add_all(*parts_.scan()));
  return writer.finish();
}

// Makes the checkpoint the one in force.
Status CheckpointThread::install(CheckpointPlace place, const Journal::Position& position) {
  const std::vector<BlockRange> blocks = place.runs;
  Superblock superblock = current_;
  superblock.checkpoint = std::move(place);
  superblock.replay_from = position.next;
  superblock.journal_block = position.block;
  superblock.replay_through = parts_.journal.last();
  // The rows hold what was journalled until now, and the chunks were written before: durable, both, before they are
  // named.
  Status status = parts_.journal.sync();
  if (status.ok()) status = parts_.volume.commit();
  if (!status.ok()) {
    for (const BlockRange& run : blocks) static_cast<void>(parts_.space.free_metadata(run));
    return status;
  }
  superblock.next_ino = parts_.next_ino();
  status = slots_.write(superblock);
  if (!status.ok()) {
    // Either superblock may be found by the next mount: both checkpoints stay.
    garbage_.insert(garbage_.end(), blocks.begin(), blocks.end());
    return status;
  }
  garbage_.insert(garbage_.end(), current_.checkpoint.runs.begin(), current_.checkpoint.runs.end());
  current_ = std::move(superblock);
  parts_.space.set_metadata_bytes(current_.checkpoint.row_bytes);
  const Status dropped = parts_.journal.drop_before(position);
  const Status freed = free_garbage();
  return dropped.ok() ? freed : dropped;
}

// What cannot be freed now Space frees later.
Status CheckpointThread::free_garbage() {
  Status result;
  for (const BlockRange& run : garbage_) {
    const Status freed = parts_.space.free_metadata(run);
    if (!freed.ok()) result = freed;
  }
  garbage_.clear();
  return result;
}

}  // namespace brickfs
