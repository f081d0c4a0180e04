// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/journal.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "fs/persistence/journal_writer.h"
#include "transport/base/check.h"
#include "transport/base/log.h"
#include "transport/base/mutex.h"
#include "transport/base/short_wait.h"
#include "transport/base/thread.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// When to commit without being asked: so long after the last change, at the latest so long after the first one, and
// never more than a fifth of the time.
constexpr milliseconds kQuiet{30};
constexpr milliseconds kLatest{1'000};
constexpr int kRestPerCommit = 4;
constexpr milliseconds kRetry{100};
constexpr int kSpaceTries = 30;
// What is pending is at most such a part of the volume: it may have to fit into the reserve of a full one.
constexpr uint64_t kPendingShare = 512;
constexpr size_t kLeastPending = 256 * kKiB;

}  // namespace

class Journal::Impl {
 public:
  Impl(VolumeSet& volume, Space& space) : volume_(volume), writer_(volume, space) {}
  ~Impl();

  Status start(uint64_t seed, const JournalEnd& end, Hooks hooks);
  Status admit(const Interruption* by);
  bool admits() const { return open_ && volume_.final_error().ok(); }
  // `later`, if not null: owes it to the committer to wake it up.
  Lsn append(std::span<const std::byte> rows, WakeLater* later);
  void wake_committer();
  Status sync(const Interruption* by);
  Status await_written(const Interruption* by);
  Result<Position> rotate();
  Status stop();
  void want_commit();
  void set_chain_limit(uint64_t blocks);
  Status drop_before(const Position& position);
  uint64_t chain_blocks() const { return writer_.chain_blocks(); }
  Lsn last() const { return last_; }
  Lsn written() const { return written_; }
  Lsn durable() const { return durable_; }
  Status error() const;

 private:
  // What a round of the committer has to do.
  struct Work {
    uint64_t syncs = 0;  // every sync() up to this ticket waits for it
    bool asked = false;  // one of them not yet for an earlier one
    bool rotate = false;
    bool commit = false;
  };

  void run();
  std::optional<Work> wait_for_work();
  void tell_committer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void sleep_until_told(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool has_work() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_sync_asked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return syncs_asked_ > std::max(syncs_done_, syncs_failed_);
  }
  Clock::time_point commit_due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_commit_due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status write_taken();
  Status write_batch(std::span<const std::byte> payload, uint32_t transactions, Lsn first);
  Status advance();
  void note_chain();
  bool is_full() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool numbers_are_used_up() const;
  bool is_all_durable() const;
  void see_if_open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void wrote(size_t bytes, Lsn through);
  Status rotate_now();
  void commit(uint64_t syncs);
  template <typename Operation>
  Status keep_trying(const char* what, Operation operation);
  bool is_passing(Error error, int tries) const;
  void attempt_failed(Error error);
  void fail(Error error);
  void set_durable(Lsn lsn, uint64_t syncs);

  // Fixed by start().
  VolumeSet& volume_;
  Hooks hooks_;
  bool durable_brick_ = true;
  size_t pending_limit_ = limits::kJournalPendingBytes;

  // The committer's own.
  JournalWriter writer_;
  std::vector<std::byte> taken_;         // transactions being written
  ShortWait wait_{ShortWait::kForWork};  // for work
  uint64_t heard_ = 0;                   // told_, when it took work last
  Thread committer_;

  // Operations and the committer meet at the mutex thousands of times a second, so nobody takes it only to look: these
  // are changed under it, or told_ right after, and read without.
  std::atomic<uint64_t> told_{0};  // changes whenever there may be work
  std::atomic<bool> open_{true};   // admit() has nothing to wait for
  std::atomic<Lsn> last_{};
  std::atomic<Lsn> written_{};
  std::atomic<Lsn> durable_{};

  mutable Mutex mutex_;
  CondVar work_;      // for the committer
  CondVar progress_;  // for everybody else
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool idle_ ABSL_GUARDED_BY(mutex_) = false;  // the committer waits for work
  std::vector<std::byte> pending_
      ABSL_GUARDED_BY(mutex_);                          // {uint32 bytes, rows} of each transaction appended, not taken
  size_t unwritten_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // pending and taken
  uint64_t chain_blocks_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t chain_limit_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
  Error error_ ABSL_GUARDED_BY(mutex_){0};
  bool commit_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  // Tickets of sync(): given out, satisfied, and told of a passing error.
  uint64_t syncs_asked_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t syncs_done_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t syncs_failed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failed_attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  Error attempt_error_ ABSL_GUARDED_BY(mutex_){0};
  bool rotate_asked_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Position> rotated_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point first_change_ ABSL_GUARDED_BY(mutex_);  // written but not durable
  Clock::time_point last_change_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point rested_ ABSL_GUARDED_BY(mutex_);  // no commit of its own accord before
};

Journal::Impl::~Impl() {
  volume_.set_commit_position(nullptr);
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    work_.notify_all();
  }
  if (committer_.joinable()) committer_.join();
}

Status Journal::Impl::start(uint64_t seed, const JournalEnd& end, Hooks hooks) {
  hooks_ = std::move(hooks);
  const Session session = volume_.session();
  durable_brick_ = session.durability == Durability::kDurable;
  pending_limit_ =
      std::clamp(session.capacity_blocks * kBlockBytes / kPendingShare, kLeastPending, limits::kJournalPendingBytes);
  TRY(writer_.start(seed, end));
  note_chain();
  MutexLock lock(mutex_);
  last_ = Lsn{raw(end.next) - 1};
  written_ = durable_ = last_.load();
  started_ = true;
  volume_.set_commit_position([this] { return raw(written()); });
  committer_ = Thread([this] { run(); });
  return {};
}

// --- callers

// The volume may be lost for good without the committer having met with it yet: what is changed then would be lost,
// too.
Status Journal::Impl::admit(const Interruption* by) {
  TRY(volume_.final_error());
  if (open_) return {};
  if (numbers_are_used_up()) return Error(ENOSPC, "the volume has no more transaction numbers");
  MutexLock lock(mutex_);
  const uint64_t attempts = failed_attempts_;
  tell_committer();
  while (error_.is(0) && is_full()) {
    if (failed_attempts_ != attempts) return attempt_error_;
    TRY(wait_interruptibly(progress_, lock, by));
  }
  if (!error_.is(0)) return error_;
  return {};
}

bool Journal::Impl::is_full() const { return unwritten_bytes_ > pending_limit_ || chain_blocks_ > chain_limit_; }

// Those that were admitted have theirs.
bool Journal::Impl::numbers_are_used_up() const { return raw(last()) > limits::kLsn - limits::kSpareNumbers; }

void Journal::Impl::see_if_open() { open_ = error_.is(0) && !is_full() && !numbers_are_used_up(); }

Lsn Journal::Impl::append(std::span<const std::byte> rows, WakeLater* later) {
  CHECK(!rows.empty() && rows.size() <= kLargestTransactionBytes);
  const auto bytes = static_cast<uint32_t>(rows.size());
  MutexLock lock(mutex_);
  const Lsn lsn = next(last_);
  last_ = lsn;
  if (!error_.is(0)) return lsn;  // nothing is written any more
  const size_t at = pending_.size();
  pending_.resize(at + sizeof(bytes) + bytes);
  std::memcpy(pending_.data() + at, &bytes, sizeof(bytes));
  std::memcpy(pending_.data() + at + sizeof(bytes), rows.data(), bytes);
  unwritten_bytes_ += sizeof(bytes) + bytes;
  see_if_open();
  const bool sleeps = later == nullptr ? std::exchange(idle_, false) : idle_;
  lock.unlock();
  ++told_;  // now that the mutex is free: the committer comes at once
  if (sleeps && later != nullptr) {
    later->owe();
  } else if (sleeps) {
    work_.notify_one();
  }
  return lsn;
}

void Journal::Impl::wake_committer() {
  bool sleeps = false;
  {
    MutexLock lock(mutex_);
    sleeps = std::exchange(idle_, false);
  }
  if (sleeps) work_.notify_one();
}

// On a volatile brick there is nothing behind what is written, so nobody waits for the committer to say so.
bool Journal::Impl::is_all_durable() const {
  const Lsn wanted = last_;
  return !durable_brick_ && admits() && written_ >= wanted;
}

Status Journal::Impl::sync(const Interruption* by) {
  if (is_all_durable()) return {};
  MutexLock lock(mutex_);
  const uint64_t ticket = ++syncs_asked_;
  tell_committer();
  while (error_.is(0) && syncs_done_ < ticket) {
    if (syncs_failed_ >= ticket) return attempt_error_;
    if (!started_ || stopping_) return Error(ECANCELED, "journal is stopped");
    TRY(wait_interruptibly(progress_, lock, by));
  }
  if (syncs_done_ >= ticket) return {};
  return error_;
}

Status Journal::Impl::await_written(const Interruption* by) {
  const Lsn wanted = last_;
  if (written_ >= wanted) return {};
  MutexLock lock(mutex_);
  tell_committer();
  while (error_.is(0) && written_ < wanted) {
    if (!started_ || stopping_) return Error(ECANCELED, "journal is stopped");
    TRY(wait_interruptibly(progress_, lock, by));
  }
  return written_ >= wanted ? Status() : Status(error_);
}

Result<Journal::Position> Journal::Impl::rotate() {
  if (numbers_are_used_up()) return Error(ENOSPC, "the volume has no more transaction numbers");
  MutexLock lock(mutex_);
  const uint64_t attempts = failed_attempts_;
  rotate_asked_ = true;
  rotated_.reset();
  tell_committer();
  while (error_.is(0) && !rotated_) {
    if (failed_attempts_ != attempts) return attempt_error_;
    if (!started_ || stopping_) return Error(ECANCELED, "journal is stopped");
    progress_.wait(lock);
  }
  if (!error_.is(0)) return error_;
  return *rotated_;
}

Status Journal::Impl::stop() {
  const Status synced = sync(nullptr);
  MutexLock lock(mutex_);
  stopping_ = true;
  work_.notify_all();
  progress_.notify_all();
  Thread committer = std::move(committer_);
  lock.unlock();
  if (!committer.joinable()) return error();
  committer.join();
  if (synced.ok()) writer_.give_back_spare();
  return synced;
}

void Journal::Impl::want_commit() {
  MutexLock lock(mutex_);
  commit_wanted_ = true;
  tell_committer();
}

void Journal::Impl::set_chain_limit(uint64_t blocks) {
  MutexLock lock(mutex_);
  chain_limit_ = blocks;
  see_if_open();
  progress_.notify_all();
}

Status Journal::Impl::drop_before(const Position& position) {
  const Status dropped = writer_.drop_before(position.block);
  note_chain();
  return dropped;
}

// The chain has another length.
void Journal::Impl::note_chain() {
  MutexLock lock(mutex_);
  chain_blocks_ = writer_.chain_blocks();
  see_if_open();
  progress_.notify_all();
}

Status Journal::Impl::error() const {
  MutexLock lock(mutex_);
  if (!error_.is(0)) return error_;
  return {};
}

// --- the committer

// There may be work for it. Once is enough until it has woken up.
void Journal::Impl::tell_committer() {
  ++told_;
  if (std::exchange(idle_, false)) work_.notify_one();
}

void Journal::Impl::run() {
  while (const auto work = wait_for_work()) {
    Status status = volume_.final_error();
    if (status.ok()) status = write_taken();
    if (status.ok() && work->rotate) status = rotate_now();
    if (!status.ok()) {
      fail(status.error());
      continue;
    }
    if (durable_brick_ && work->commit) commit(work->syncs);
    if (durable_brick_ || !work->asked) continue;
    MutexLock lock(mutex_);
    syncs_done_ = std::max(syncs_done_, work->syncs);
    progress_.notify_all();
  }
}

// Nothing when the journal ends.
std::optional<Journal::Impl::Work> Journal::Impl::wait_for_work() {
  const auto is_told = [this] { return told_.load(std::memory_order_relaxed) != heard_; };
  wait_.begin();
  bool polls = wait_.poll(is_told);
  MutexLock lock(mutex_);
  while (!stopping_ && !has_work()) {
    heard_ = told_;
    if (polls) {  // told of what the last round had taken already
      lock.unlock();
      polls = wait_.poll(is_told);
      lock.lock();
    } else {
      sleep_until_told(lock);
    }
  }
  if (stopping_) return std::nullopt;
  heard_ = told_;
  taken_.swap(pending_);
  pending_.clear();
  const bool asked = is_sync_asked();
  const Work work{.syncs = syncs_asked_,
                  .asked = asked,
                  .rotate = rotate_asked_,
                  .commit = asked || commit_wanted_ || is_commit_due()};
  rotate_asked_ = false;
  commit_wanted_ = false;
  lock.unlock();
  wait_.end();
  return work;
}

void Journal::Impl::sleep_until_told(MutexLock& lock) {
  const auto due = error_.is(0) ? commit_due() : Clock::time_point::max();
  idle_ = true;
  if (due == Clock::time_point::max()) {
    work_.wait(lock);
  } else {
    work_.wait_until(lock, due);
  }
  idle_ = false;
}

bool Journal::Impl::has_work() const {
  if (!error_.is(0)) return false;
  return !pending_.empty() || rotate_asked_ || commit_wanted_ || is_sync_asked() || is_commit_due();
}

// When to commit without being asked.
Clock::time_point Journal::Impl::commit_due() const {
  if (!durable_brick_ || durable() == written()) return Clock::time_point::max();
  return std::max(std::min(last_change_ + kQuiet, first_change_ + kLatest), rested_);
}

bool Journal::Impl::is_commit_due() const {
  const auto due = commit_due();
  return due != Clock::time_point::max() && due <= Clock::now();
}

// All of `taken_`, in batches.
Status Journal::Impl::write_taken() {
  std::span<const std::byte> rest(taken_);
  while (!rest.empty()) {
    const size_t room = writer_.room_bytes();
    const size_t bound = std::min(room, kBatchBytes - sizeof(JournalBatchHeader));
    size_t bytes = 0;
    uint32_t transactions = 0;
    while (bytes < rest.size()) {
      const size_t length = sizeof(uint32_t) + load<uint32_t>(rest.subspan(bytes));
      const bool fits = bytes + length <= bound || (transactions == 0 && length <= room);
      if (!fits) break;
      bytes += length;
      ++transactions;
    }
    if (transactions == 0) {
      TRY(advance());
      continue;
    }
    const Lsn first = next(written());
    TRY(write_batch(rest.first(bytes), transactions, first));
    wrote(bytes, Lsn{raw(first) + transactions - 1});
    rest = rest.subspan(bytes);
  }
  taken_.clear();
  return {};
}

Status Journal::Impl::write_batch(std::span<const std::byte> payload, uint32_t transactions, Lsn first) {
  return keep_trying("write to the journal", [&] { return writer_.write(payload, transactions, first, durable()); });
}

Status Journal::Impl::advance() {
  return keep_trying("extend the journal", [&]() -> Status {
    if (!TRY(writer_.advance())) return {};
    note_chain();
    if (hooks_.on_block_added) hooks_.on_block_added();
    return {};
  });
}

void Journal::Impl::wrote(size_t bytes, Lsn through) {
  const auto now = durable_brick_ ? Clock::now() : Clock::time_point();
  {
    MutexLock lock(mutex_);
    last_change_ = now;
    if (durable() == written()) first_change_ = now;
    written_ = through;
    if (!durable_brick_) durable_ = through;
    unwritten_bytes_ -= bytes;
    see_if_open();
    progress_.notify_all();
  }
  if (!durable_brick_ && hooks_.on_durable) hooks_.on_durable(through);
}

Status Journal::Impl::rotate_now() {
  TRY(advance());
  MutexLock lock(mutex_);
  rotated_ = Position{next(written_), writer_.current_block()};
  progress_.notify_all();
  return {};
}

void Journal::Impl::commit(uint64_t syncs) {
  const Lsn through = written();
  const auto begin = Clock::now();
  const Status status = volume_.commit();
  const auto end = Clock::now();
  {
    MutexLock lock(mutex_);
    rested_ = end + kRestPerCommit * (end - begin);
    if (!status.ok()) rested_ = std::max(rested_, end + kLatest);
  }
  if (status.ok()) return set_durable(through, syncs);
  if (!is_passing(status.error(), 1)) return fail(status.error());
  log::error("commit failed ({}: {}): what was written is kept, and the commit tried again",
             std::strerror(status.error().code()), status.error().what());
  attempt_failed(status.error());
}

void Journal::Impl::set_durable(Lsn lsn, uint64_t syncs) {
  {
    MutexLock lock(mutex_);
    durable_ = lsn;
    syncs_done_ = std::max(syncs_done_, syncs);
    progress_.notify_all();
  }
  if (hooks_.on_durable) hooks_.on_durable(lsn);
}

// --- errors

// Repeats an operation that fails for a time only; who waits meanwhile is told. Any other error is final.
template <typename Operation>
Status Journal::Impl::keep_trying(const char* what, Operation operation) {
  for (int tries = 1;; ++tries) {
    const Status status = operation();
    if (status.ok() || !is_passing(status.error(), tries)) return status;
    if (tries == 1) log::warn("cannot {} now ({}), trying again", what, std::strerror(status.error().code()));
    if (status.error().is(EIO)) attempt_failed(status.error());
    MutexLock lock(mutex_);
    if (stopping_) return status;
    work_.wait_for(lock, kRetry);
  }
}

// A soft timeout passes; so may a lack of space, when a checkpoint or an unlinked file gives blocks back.
bool Journal::Impl::is_passing(Error error, int tries) const {
  if (!volume_.final_error().ok()) return false;
  return error.is(EIO) || ((error.is(ENOSPC) || error.is(EDQUOT)) && tries <= kSpaceTries);
}

void Journal::Impl::attempt_failed(Error error) {
  MutexLock lock(mutex_);
  ++failed_attempts_;
  attempt_error_ = error;
  syncs_failed_ = syncs_asked_;
  progress_.notify_all();
}

void Journal::Impl::fail(Error error) {
  if (error.is(ECANCELED)) {
    log::info("the journal ends: the volume was interrupted");
  } else {
    log::error("the journal failed ({}: {}): the file system is read-only until it is mounted again",
               std::strerror(error.code()), error.what());
  }
  MutexLock lock(mutex_);
  error_ = error;
  see_if_open();
  pending_.clear();
  progress_.notify_all();
}

// --- the interface

Journal::Journal(VolumeSet& volume, Space& space) : impl_(std::make_unique<Impl>(volume, space)) {}
Journal::~Journal() = default;
Status Journal::start(uint64_t seed, const JournalEnd& end, Hooks hooks) {
  return impl_->start(seed, end, std::move(hooks));
}
Status Journal::admit(const Interruption* by) { return impl_->admit(by); }
bool Journal::admits() const { return impl_->admits(); }
Lsn Journal::append(const Transaction& transaction, WakeLater* later) {
  return impl_->append(transaction.bytes(), later);
}
Status Journal::sync(const Interruption* by) { return impl_->sync(by); }
Status Journal::await_written(const Interruption* by) { return impl_->await_written(by); }
Lsn Journal::last() const { return impl_->last(); }
Lsn Journal::written() const { return impl_->written(); }
Lsn Journal::durable() const { return impl_->durable(); }
Status Journal::error() const { return impl_->error(); }
void Journal::want_commit() { impl_->want_commit(); }
Result<Journal::Position> Journal::rotate() { return impl_->rotate(); }
Status Journal::drop_before(const Position& position) { return impl_->drop_before(position); }
uint64_t Journal::chain_blocks() const { return impl_->chain_blocks(); }
void Journal::set_chain_limit(uint64_t blocks) { impl_->set_chain_limit(blocks); }
Status Journal::stop() { return impl_->stop(); }

void Journal::wake() { impl_->wake_committer(); }

}  // namespace brickfs
