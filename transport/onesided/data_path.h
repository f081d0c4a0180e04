// SPDX-License-Identifier: Apache-2.0
// A session's data calls: cuts batches into work requests, spreads them over the queue pairs, and completes them.
//
// Nobody stands between a waiting caller and the device: one of those that wait has the *watch*: it polls the
// completion queues for a moment, then sleeps on their events. Where processors are left over, some others
// poll for a moment, too. The rest sleep; each is woken when what it waits for is done, or to take the watch over. A
// background thread has it only while there are batches with a callback and nobody waits. Where there is nothing to
// sleep on (CompletionEvents::fd()), who has the watch looks every so often.
//
// Threads: every call from any thread, except as said.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "transport/base/guard.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/brick.h"
#include "transport/brick/limits.h"
#include "transport/onesided/handle_map.h"
#include "transport/onesided/local_memory.h"
#include "transport/onesided/queue_pair.h"

namespace brickfs::onesided {

class DataPath {
 public:
  using QueuePairBits = uint32_t;  // bit n: queue pair n

  // `on_failure`: a queue pair wants drain(); told from any thread, must not block.
  DataPath(const LocalMemory& memory, HandleMap& handles, std::function<void()> on_failure);
  ~DataPath();  // stop()
  DataPath(const DataPath&) = delete;
  DataPath& operator=(const DataPath&) = delete;

  // From now on the queue pair carries transfers; it has failed if the session is lost. EPROTO: its number is still
  // another's, until repeat().
  Status add(std::unique_ptr<QueuePair> pair);
  QueuePairBits failed_queue_pairs() const;

  void submit(Batch& batch);
  void wait(const Batch& batch);
  // Until every write that has completed is visible to the brick's processor. ENOTCONN.
  Status flush();
  // Until nobody uses the mapping any more.
  void wait_unused(const Mapping& mapping);

  // The failed queue pairs are destroyed here; what had been posted on each and may not have come about is `undone`.
  // One thread at a time.
  struct Undone {
    QueuePair* pair;
    Parts parts;
  };
  std::vector<Undone> drain(QueuePairBits pairs);
  // The brick has destroyed its ends of these queue pairs: nothing can land late, and everything written is visible to
  // it. They are queue pairs no more; what was not done is done again by others. ENOTCONN completes what finds none.
  void repeat(std::span<const Undone> undone);
  // The session is lost: all queue pairs are drained, and ENOTCONN completes what was under way, what is `undone`, and
  // everything from now on. Of the thread that drains.
  void give_up(std::span<const Undone> undone = {});

  // Whether any of these queue pairs has completed a work request. Of the thread that drains, before.
  bool has_carried(QueuePairBits pairs) const;

  // QueuePairs that have stopped making progress are made to fail. Called every now and then, by the thread that
  // drains.
  void check_progress();
  // The background thread ends. Everything posted must have been drained.
  void stop();

 private:
  struct Goal {  // of a thread that waits
    const Batch* batch = nullptr;
    const Mapping* unused = nullptr;
    bool reached() const;
  };
  class Sleeper;  // data_path_wait.cc
  struct Reach;   // data_path_cut.cc
  struct Progress {
    const QueuePair* pair = nullptr;  // that it is of
    uint64_t completed = 0;
    std::chrono::steady_clock::time_point since;
  };
  struct Retired {  // a queue pair that was drained and is found no more
    std::unique_ptr<QueuePair> pair;
    GuardCount::GracePeriod users;
  };
  using QueuePairTable = std::array<std::atomic<QueuePair*>, limits::kQueuePairsPerSession>;

  // Cutting (data_path_cut.cc).
  void cut(Batch& batch, Parts& parts, std::vector<int>& refused) const;
  void cut_one(Batch& batch, const Transfer& transfer, const Reach& reach, Mapping& mapping, Parts& parts) const;
  Reach reach_of_all() const;
  bool is_registered(const Transfer& transfer, const Reach& reach) const;

  void post(std::span<const Part> parts);
  bool post_flush(QueuePair& pair, Batch& batch);
  void post_to(size_t preferred, std::span<const Part> parts);
  // Null: every queue pair has failed. `staged`: one of a device with staging buffers, if there is any.
  QueuePair* pick(size_t preferred, bool staged) const;
  void finish(QueuePair* pair, std::span<const Part> parts, int code);
  void poll_all();
  void free_retired();

  // Waiting (data_path_wait.cc).
  void wait_for(const Goal& goal);
  bool take_watch() { return !watched_.exchange(true); }
  void keep_watch(const Goal& goal);
  void pass_watch_on();
  bool poll_beside(const Goal& goal);
  bool poll(const Goal& goal);
  void park(const Goal& goal);
  void arm_queue_pairs();
  void sleep_on_events(const Goal& goal);
  std::vector<std::shared_ptr<CompletionEvents>> events() const;
  bool stops() const;
  void take_events(const std::vector<std::shared_ptr<CompletionEvents>>& all);
  void wake_sleepers();
  void wake_watch();
  void run_background();

  const LocalMemory& memory_;
  HandleMap& handles_;
  const std::function<void()> on_failure_;
  const UniqueFd wake_;        // eventfd: wakes whoever has the watch, and sleeps
  const size_t most_pollers_;  // at a time: as many processors are left for everything else

  QueuePairTable pairs_{};            // null: none, or the brick has none
  std::atomic<bool> over_{false};     // the session is lost
  std::atomic<size_t> callbacks_{0};  // work requests whose completion nobody waits for
  std::atomic<size_t> pollers_{0};    // beside the watch
  std::atomic<bool> watched_{false};  // somebody has the watch
  std::atomic<size_t> asleep_{0};     // sleepers_, and those about to be

  mutable GuardCount guards_;  // at queue pairs that they have found in pairs_; the thread that drains need not

  // Of the thread that drains.
  std::array<Progress, limits::kQueuePairsPerSession> progress_{};

  mutable Mutex mutex_;
  std::vector<Sleeper*> sleepers_ ABSL_GUARDED_BY(mutex_);
  CondVar background_;  // for the background thread
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<std::unique_ptr<QueuePair>, limits::kQueuePairsPerSession> owned_
      ABSL_GUARDED_BY(mutex_);                            // those of pairs_
  std::vector<Retired> retired_ ABSL_GUARDED_BY(mutex_);  // until nobody is at them any more

  std::thread background_thread_;
};

}  // namespace brickfs::onesided
