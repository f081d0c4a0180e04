// SPDX-License-Identifier: Apache-2.0
#include "transport/onesided/data_path.h"

#include <sys/eventfd.h>

#include <algorithm>

#include "transport/base/log.h"

namespace brickfs::onesided {
namespace {

// A batch of more bytes goes over several queue pairs, so much on each in turn.
constexpr uint64_t kBytesPerQueuePair = 512 * kKiB;

// Threads are spread over the queue pairs in the order in which they come.
size_t pair_of_thread() {
  static std::atomic<size_t> next{0};
  thread_local const size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace

DataPath::DataPath(const LocalMemory& memory, HandleMap& handles, std::function<void()> on_failure)
    : memory_(memory),
      handles_(handles),
      on_failure_(std::move(on_failure)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      most_pollers_(std::thread::hardware_concurrency() / 2) {
  background_thread_ = std::thread([this] { run_background(); });
}

DataPath::~DataPath() { stop(); }

void DataPath::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    background_.notify_all();
  }
  wake_watch();
  if (background_thread_.joinable()) background_thread_.join();
}

Status DataPath::add(std::unique_ptr<QueuePair> pair) {
  MutexLock lock(mutex_);
  std::atomic<QueuePair*>& place = pairs_[pair->number()];
  // Nobody would drain the former one any more, and what is under way there would never end.
  if (place.load() != nullptr) return Error(EPROTO, "the brick offers a queue pair that is still in use");
  if (over_.load()) pair->fail();
  place.store(pair.get());
  owned_[pair->number()] = std::move(pair);
  wake_watch();  // who sleeps on events does not know of this queue pair yet
  return {};
}

DataPath::QueuePairBits DataPath::failed_queue_pairs() const {
  QueuePairBits bits = 0;
  for (size_t number = 0; number < pairs_.size(); ++number) {
    const QueuePair* const pair = pairs_[number].load();
    if (pair != nullptr && pair->failed()) bits |= 1u << number;
  }
  return bits;
}

QueuePair* DataPath::pick(size_t preferred, bool staged) const {
  QueuePair* second_best = nullptr;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    QueuePair* const pair = pairs_[(preferred + i) % pairs_.size()].load();
    if (pair == nullptr || pair->failed()) continue;
    if (!staged || !pair->device().staging().broken()) return pair;
    second_best = pair;
  }
  return second_best;
}

void DataPath::submit(Batch& batch) {
  Parts parts;
  parts.reserve(batch.transfers.size());
  std::vector<int> refused;
  cut(batch, parts, refused);
  if (batch.transfers.empty()) refused.push_back(0);
  const bool callback = batch.has_callback();
  batch.begin(parts.size() + refused.size());
  if (callback) callbacks_.fetch_add(parts.size());
  for (const int code : refused) batch.finish_one(code);
  post(parts);                            // the batch may be gone from now on
  if (!refused.empty()) wake_sleepers();  // HandleMap::use() may have counted a user for a moment
  if (!callback || watched_.load()) return;
  MutexLock lock(mutex_);
  background_.notify_one();
}

void DataPath::post(std::span<const Part> parts) {
  size_t preferred = pair_of_thread();
  while (!parts.empty()) {
    size_t count = 0;
    uint64_t bytes = 0;
    while (count < parts.size() && (count == 0 || bytes < kBytesPerQueuePair)) bytes += parts[count++].length_bytes;
    post_to(preferred++, parts.first(count));
    parts = parts.subspan(count);
  }
}

// Waits for room, driving completions meanwhile.
void DataPath::post_to(size_t preferred, std::span<const Part> parts) {
  while (!parts.empty()) {
    const bool staged = parts.front().way == Part::Way::kStaged;
    const Guard guard(guards_);
    QueuePair* const pair = over_.load() ? nullptr : pick(preferred, staged);
    if (pair == nullptr) return finish(nullptr, parts, ENOTCONN);
    if (staged && pair->device().staging().broken()) {
      finish(nullptr, parts.first(1), ENOMEM);
      parts = parts.subspan(1);
      continue;
    }
    const auto posted = pair->post(parts);
    if (!posted.ok() || pair->failed()) on_failure_();
    if (!posted.ok()) continue;
    parts = parts.subspan(*posted);
    if (*posted > 0) continue;
    poll_all();
    std::this_thread::yield();
  }
}

// `pair`: that they were posted on, if they were.
void DataPath::finish(QueuePair* pair, std::span<const Part> parts, int code) {
  for (const Part& part : parts) {
    if (pair != nullptr) pair->finish(part, code);
    if (part.mapping != nullptr) HandleMap::release(*part.mapping);
    if (part.batch->has_callback()) callbacks_.fetch_sub(1);
    part.batch->finish_one(code);
  }
  if (!parts.empty()) wake_sleepers();
}

void DataPath::poll_all() {
  const Guard guard(guards_);
  Parts done;
  for (const auto& place : pairs_) {
    QueuePair* const pair = place.load();
    if (pair == nullptr || pair->idle()) continue;
    done.clear();
    const bool failed = pair->failed();
    pair->poll(done);
    finish(pair, done, 0);
    if (!failed && pair->failed()) on_failure_();
  }
}

// False: the queue pair has failed, and the flush is not under way.
bool DataPath::post_flush(QueuePair& pair, Batch& batch) {
  Part part;
  part.batch = &batch;
  part.way = Part::Way::kFlush;
  while (true) {
    const auto posted = pair.post({&part, 1});
    if (!posted.ok() || pair.failed()) on_failure_();
    if (!posted.ok() || *posted > 0) return posted.ok();
    poll_all();
    std::this_thread::yield();
  }
}

// A queue pair that has failed is asked again until it is gone: the brick has destroyed its end then, which flushes it,
// too.
Status DataPath::flush() {
  constexpr std::chrono::milliseconds kPause{2};
  while (!over_.load()) {
    const Guard guard(guards_);
    std::vector<std::pair<QueuePair*, uint64_t>> written;
    for (const auto& place : pairs_) {
      QueuePair* const pair = place.load();
      const uint64_t writes = pair == nullptr ? 0 : pair->writes();
      if (pair != nullptr && !pair->flushed(writes)) written.emplace_back(pair, writes);
    }
    if (written.empty()) return {};
    size_t posted = 0;
    Batch batch;
    batch.begin(written.size());
    for (auto& [pair, writes] : written) {
      if (post_flush(*pair, batch)) {
        ++posted;
      } else {
        pair = nullptr;
        batch.finish_one(0);
      }
    }
    wait(batch);
    TRY(batch.status());
    for (const auto& [pair, writes] : written) {
      if (pair != nullptr) pair->note_flushed(writes);
    }
    if (posted == written.size()) return {};
    std::this_thread::sleep_for(kPause);
  }
  return Error(ENOTCONN, "the connection to the brick is gone");
}

std::vector<DataPath::Undone> DataPath::drain(QueuePairBits pairs) {
  std::vector<Undone> undone;
  for (size_t number = 0; number < pairs_.size(); ++number) {
    QueuePair* const pair = pairs_[number].load();
    if ((pairs >> number & 1) == 0 || pair == nullptr) continue;
    Parts done;
    undone.push_back({pair, pair->drain(done)});
    finish(pair, done, 0);
  }
  return undone;
}

void DataPath::repeat(std::span<const Undone> undone) {
  {
    MutexLock lock(mutex_);
    for (const Undone& of_pair : undone) {
      const size_t number = of_pair.pair->number();
      pairs_[number].store(nullptr);
      retired_.push_back({std::move(owned_[number]), {}});
    }
  }
  for (const Undone& of_pair : undone) {
    for (const Part& part : of_pair.parts) {
      if (part.way == Part::Way::kFlush) {  // the end of the brick's queue pair has flushed it
        finish(of_pair.pair, {&part, 1}, 0);
      } else {
        of_pair.pair->finish(part, ENOTCONN);
        post_to(pair_of_thread(), {&part, 1});
      }
    }
  }
  free_retired();
}

void DataPath::free_retired() {
  std::vector<std::unique_ptr<QueuePair>> unused;  // freed without the lock
  MutexLock lock(mutex_);
  std::erase_if(retired_, [&](Retired& retired) {
    const bool left = retired.users.over(guards_);
    if (left) unused.push_back(std::move(retired.pair));
    return left;
  });
}

void DataPath::give_up(std::span<const Undone> undone) {
  {
    MutexLock lock(mutex_);  // a queue pair is added before, and drained, or after, and has failed
    over_.store(true);
  }
  for (const Undone& of_pair : undone) finish(of_pair.pair, of_pair.parts, ENOTCONN);
  for (const Undone& of_pair : drain(~QueuePairBits{0})) finish(of_pair.pair, of_pair.parts, ENOTCONN);
}

bool DataPath::has_carried(QueuePairBits pairs) const {
  for (size_t number = 0; number < pairs_.size(); ++number) {
    const QueuePair* const pair = pairs_[number].load();
    if ((pairs >> number & 1) != 0 && pair != nullptr && pair->completed() > 0) return true;
  }
  return false;
}

void DataPath::check_progress() {
  free_retired();
  const auto now = std::chrono::steady_clock::now();
  for (size_t number = 0; number < pairs_.size(); ++number) {
    QueuePair* const pair = pairs_[number].load();
    Progress& progress = progress_[number];
    if (pair == nullptr || pair != progress.pair || pair->idle() || pair->completed() != progress.completed) {
      progress = {pair, pair == nullptr ? 0 : pair->completed(), now};
    } else if (now - progress.since > limits::kProgressTimeout && !pair->failed()) {
      log::warn("a queue pair on {} has made no progress for {} s: it is given up", pair->device().traits().name,
                std::chrono::duration_cast<std::chrono::seconds>(limits::kProgressTimeout).count());
      pair->fail();
      on_failure_();
    }
  }
}

}  // namespace brickfs::onesided
