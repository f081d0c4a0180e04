// SPDX-License-Identifier: Apache-2.0
// The channel's bookkeeping: who sends, who reads, what is outstanding, and how it ends.
#include "transport/tcp/data_channel.h"

#include <algorithm>

#include "transport/brick/limits.h"
#include "transport/brick/wire.h"

namespace brickfs::tcp {
namespace {
// Answers that fit any socket's receive buffer: the brick is not blocked on them, whoever reads them and when.
constexpr uint64_t kAnswerBytesThatFit = 32 * kKiB;
// An answer with more payload than this is received by itself.
constexpr uint64_t kReceivedTogether = 16 * kKiB;
constexpr size_t kTakenOff = 256;  // entries, before those behind them move up
}  // namespace

DataChannel::DataChannel(Stream stream, std::function<void(Error)> on_failure)
    : stream_(std::move(stream)),
      on_failure_(std::move(on_failure)),
      background_thread_([this] { run_background(); }) {}

DataChannel::~DataChannel() { stop(); }

void DataChannel::submit(Batch& batch, std::span<const Transfer* const> transfers) {
  MutexLock lock(mutex_);
  while (sending_ && !dead_) send_free_.wait(lock);
  if (dead_) {
    lock.unlock();
    for (size_t i = 0; i < transfers.size(); ++i) batch.finish_one(ENOTCONN);
    return;
  }
  sending_ = true;
  const uint64_t first_id = push(batch, transfers);
  if (background_wanted()) background_.notify_one();
  lock.unlock();
  const Status sent = send_requests(first_id, transfers);  // from the last byte on the batch may be gone
  lock.lock();
  sending_ = false;
  if (sent.ok()) {
    note_sent(first_id + transfers.size() - 1);
  } else {
    mark_dead();
  }
  const bool dead = dead_;
  send_free_.notify_one();
  quiet_.notify_all();
  lock.unlock();
  if (dead) complete_the_rest_if_quiet();
  if (!sent.ok()) on_failure_(sent.error());
}

uint64_t DataChannel::answer_bytes(const Entry& entry) {
  return sizeof(wire::TransferAnswer) + (entry.direction == Direction::kRead ? entry.length_bytes : 0);
}

uint64_t DataChannel::push(Batch& batch, std::span<const Transfer* const> transfers) {
  const uint64_t first_id = next_id_;
  for (const Transfer* transfer : transfers) {
    uint32_t length = 0;
    for (const LocalSlice& slice : transfer->local) length += slice.length_bytes;
    entries_.push_back({&batch, transfer, next_id_++, length, transfer->direction, batch.has_callback()});
    answer_bytes_ += answer_bytes(entries_.back());
    if (batch.has_callback()) ++callbacks_;
    load_bytes_.fetch_add(length, std::memory_order_relaxed);
  }
  outstanding_.fetch_add(transfers.size(), std::memory_order_relaxed);
  return first_id;
}

void DataChannel::note_sent(uint64_t id) {
  sent_id_.store(id, std::memory_order_release);
  sent_.notify_one();
}

void DataChannel::wait(const Batch& batch) {
  MutexLock lock(mutex_);
  Waiter self{last_id_of(batch), {}};
  while (done_id_ < self.last_id) {
    if (reading_ || dead_) {
      sleep(self, lock);
      continue;
    }
    reading_ = true;
    read_until(self.last_id);
  }
}

void DataChannel::sleep(Waiter& waiter, MutexLock& lock) {
  waiters_.push_back(&waiter);
  waiter.wake.wait(lock);
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &waiter));
}

void DataChannel::wake_done() {
  for (Waiter* const waiter : waiters_) {
    if (waiter->last_id <= done_id_) waiter->wake.notify_one();
  }
}

// The one whose answer comes first. He who was woken for that, and finds another at it, is found here again when that
// one leaves.
void DataChannel::wake_next_reader() {
  Waiter* next = nullptr;
  for (Waiter* const waiter : waiters_) {
    if (waiter->last_id > done_id_ && (next == nullptr || waiter->last_id < next->last_id)) next = waiter;
  }
  if (next != nullptr) next->wake.notify_one();
}

uint64_t DataChannel::last_id_of(const Batch& batch) const {
  const auto entries = pending();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->batch == &batch) return entry->id;
  }
  return 0;
}

bool DataChannel::sending() const {
  MutexLock lock(mutex_);
  return sending_;
}

bool DataChannel::somebody_must_read() const {
  return !dead_ && !pending().empty() && (callbacks_ > 0 || (sender_blocked_ && answer_bytes_ > kAnswerBytesThatFit));
}

bool DataChannel::background_wanted() const { return !reading_ && somebody_must_read(); }

void DataChannel::run_background() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (!background_wanted()) {
      background_.wait(lock);
      continue;
    }
    reading_ = true;
    read_in_background();
  }
}

void DataChannel::read_until(uint64_t id) {
  Status status;
  while (status.ok() && done_id_ < id) status = read_some();
  give_up_reading(status);
}

void DataChannel::read_in_background() {
  Status status;
  do {
    status = read_some();
  } while (status.ok() && somebody_must_read());
  give_up_reading(status);
}

Status DataChannel::read_some() {
  const Entries entries = next_to_read();
  if (entries.empty()) return {};
  Status status;
  mutex_.unlock();
  const size_t done = read(entries, status);
  mutex_.lock();
  pop(std::span(entries).first(done));
  return status;
}

DataChannel::Entries DataChannel::next_to_read() const {
  Entries entries;
  for (const Entry& entry : pending()) {
    const bool fits = entries.size() < kTransfersPerCall && answer_bytes(entry) <= kReceivedTogether;
    if (!entries.empty() && !fits) break;
    entries.push_back(entry);
    if (!fits) break;
  }
  return entries;
}

void DataChannel::pop(std::span<const Entry> entries) {
  if (entries.empty()) return;
  for (const Entry& entry : entries) {
    load_bytes_.fetch_sub(entry.length_bytes, std::memory_order_relaxed);
    answer_bytes_ -= answer_bytes(entry);
    if (entry.callback) --callbacks_;
  }
  outstanding_.fetch_sub(entries.size(), std::memory_order_relaxed);
  first_ += entries.size();
  if (first_ == entries_.size() || first_ >= kTakenOff) {  // seldom, and then few are moved
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  done_id_ = entries.back().id;
  wake_done();
}

void DataChannel::give_up_reading(const Status& status) {
  reading_ = false;
  if (!status.ok()) mark_dead();
  wake_next_reader();
  quiet_.notify_all();
  if (background_wanted()) background_.notify_one();
  if (!dead_) return;
  mutex_.unlock();
  complete_the_rest_if_quiet();
  if (!status.ok()) on_failure_(status.error());
  mutex_.lock();
}

Status DataChannel::wait_until_sent(uint64_t id) {
  if (sent_id_.load(std::memory_order_acquire) >= id) return {};
  MutexLock lock(mutex_);
  while (sent_id_ < id && !dead_) sent_.wait(lock);
  if (sent_id_ < id) return Error(ENOTCONN, "connection is gone");
  return {};
}

void DataChannel::mark_dead() {
  if (!dead_) stream_.shut_down();
  dead_ = true;
  sent_.notify_one();
  send_free_.notify_all();
}

void DataChannel::complete_the_rest_if_quiet() {
  std::vector<Entry> rest;
  {
    MutexLock lock(mutex_);
    if (!dead_ || sending_ || reading_ || completing_ || pending().empty()) return;
    completing_ = true;
    rest.assign(pending().begin(), pending().end());
  }
  for (const Entry& entry : rest) entry.batch->finish_one(ENOTCONN);
  MutexLock lock(mutex_);
  entries_.clear();
  first_ = 0;
  done_id_ = rest.back().id;
  wake_done();
  quiet_.notify_all();
}

void DataChannel::shut_down() {
  {
    MutexLock lock(mutex_);
    mark_dead();
  }
  complete_the_rest_if_quiet();
}

void DataChannel::stop() {
  shut_down();
  {
    MutexLock lock(mutex_);
    while (sending_ || reading_ || !pending().empty()) quiet_.wait(lock);
    stopping_ = true;
    background_.notify_one();
  }
  if (background_thread_.joinable()) background_thread_.join();
}

}  // namespace brickfs::tcp
