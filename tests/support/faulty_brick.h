// SPDX-License-Identifier: Apache-2.0
// A Brick whose connection fails when told to, over another one that does the work. What it can do: lose the session at
// the Nth call, before or after the call was carried out (a batch in part), now, or with a restart of what is behind
// it; refuse new sessions; be fenced; answer a call with an errno. Or all that by a plan: a fault at each of some
// calls, counted from the first.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/brick/brick.h"

namespace brickfs {

// With the numbers of calls::Kind.
enum class BrickCall : uint16_t {
  kTransfer = 0,
  kAlloc = 3,
  kFree,
  kMap,
  kUnmap,
  kList,
  kCommit,
  kStat,
  kAdmit = 19,
  kExpel
};

// What happens to one call.
struct PlannedFault {
  enum class Kind {
    kLostRequest,     // the session is lost, nothing was done
    kLostAnswer,      // it is lost when the call was carried out, of a batch half of the transfers
    kRefused,         // answered with an errno that is due to such a call, not carried out
    kDelayed,         // for some seconds
    kRepeated,        // carried out twice, as far as that can be (transfers, commits, what only asks)
    kRestarted,       // the brick is restarted instead
    kRestartedThen,   // the same when the call was carried out, of a batch or a commit half
    kAbsent,          // kLostRequest, and no new session for so many attempts to get one
    kAbsentThen,      // kLostAnswer, and the same
    kInterrupted,     // kAbsent, and who asked for the operation is told to end
    kInterruptedThen  // kAbsentThen, and the same
  };
  static constexpr size_t kKinds = 11;
  static constexpr int kAttemptsWhileAbsent = 100;  // more than a minute's
  uint64_t call = 0;                                // the first is 0
  Kind kind = Kind::kLostRequest;
};

// Shared by the client's end (make_brick) and the test.
class BrickFaults : public std::enable_shared_from_this<BrickFaults> {
 public:
  // `connect` makes the working brick for each session.
  explicit BrickFaults(std::function<std::unique_ptr<Brick>()> connect) : connect_(std::move(connect)) {}
  std::unique_ptr<Brick> make_brick();

  enum class When { kBefore, kAfter };
  // The session is lost at the nth call from now (1: the next). After: the call is carried out, its answer lost.
  void lose_at(uint64_t nth, When when);
  // The session is lost now. Meanwhile, with nothing under way, `behind` may restart the brick.
  void lose(const std::function<void()>& behind = nullptr);
  void refuse(bool refuse) { refusing_ = refuse; }
  void fence() { fenced_ = true; }
  // Of the brick nothing is known any more since some time, though it seems to be well: as for a client that was
  // stopped.
  void stop_knowing(std::optional<std::chrono::steady_clock::time_point> since) {
    MutexLock state(mutex_);
    known_at_ = since;
  }
  // The nth call of this kind (1: the next) is not carried out and answers so.
  void answer(BrickCall call, int code, uint64_t nth = 1);
  // So does each one from now on, until that is 0.
  void answer_all(BrickCall call, int code) { answers_[static_cast<size_t>(call)] = code; }
  // Called after each commit that was carried out, with nothing else under way. A former one is not called any more.
  void set_after_commit(std::function<void()> callback);
  // Called before a batch goes to what is behind, beside others. A former one has ended.
  void set_before_transfers(std::function<void()> callback);

  // `restart`: what is behind is killed and started again. `delay`: lets time pass. `interrupt`: tells who asks to end;
  // must not wait.
  void plan(std::vector<PlannedFault> faults, std::function<void()> restart, std::function<void()> delay,
            std::function<void()> interrupt);
  uint64_t calls() const { return all_calls_; }
  uint64_t calls(BrickCall call) const { return counts_[static_cast<size_t>(call)]; }
  uint64_t sessions() const { return sessions_; }
  std::vector<std::vector<CommitRange>> commits() const;  // as they were called for

 private:
  friend class FaultyBrick;
  struct Verdict {
    int before = 0;  // not carried out: answers so
    bool lose_after = false;
    bool repeat = false;
  };
  Verdict judge(BrickCall call, std::optional<PlannedFault::Kind> fault);
  bool is_absent();  // asked once for each attempt to get a session
  bool is_connected() const {
    MutexLock state(mutex_);
    return connected_;
  }
  // The planned fault of this call, if it has one.
  std::optional<PlannedFault::Kind> next_planned();

  const std::function<std::unique_ptr<Brick>()> connect_;
  SharedMutex calling_;  // shared: by batches while the callback runs. Before under_way_
  std::function<void()> before_transfers_ ABSL_GUARDED_BY(calling_);
  std::vector<PlannedFault> planned_;  // fixed before the first call, as the two behind it
  std::function<void()> restart_;
  std::function<void()> delay_;
  std::function<void()> interrupt_;
  std::atomic<uint64_t> all_calls_{0};
  std::atomic<bool> refusing_{false};
  std::atomic<bool> fenced_{false};
  std::atomic<uint64_t> sessions_{0};
  std::array<std::atomic<uint64_t>, 32> counts_{};  // by number
  std::array<std::atomic<int>, 32> answers_{};      // to all calls, by number; 0: it is carried out

  SharedMutex under_way_;  // shared: by calls
  std::unique_ptr<Brick> inner_ ABSL_GUARDED_BY(under_way_);
  const Brick* opened_by_ ABSL_GUARDED_BY(under_way_) = nullptr;  // whose inner_ is
  std::function<void()> after_commit_ ABSL_GUARDED_BY(under_way_);
  std::atomic<bool> has_after_commit_{false};
  std::function<void(Error)> on_lost_;
  const Brick* told_ = nullptr;  // whose it is

  mutable Mutex mutex_;
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;
  int absent_for_ ABSL_GUARDED_BY(mutex_) = 0;       // attempts to get a session
  uint64_t until_loss_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none
  When loss_ ABSL_GUARDED_BY(mutex_) = When::kBefore;
  struct Answer {
    BrickCall call;
    int code;
    uint64_t nth;
  };
  std::optional<Answer> answer_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<CommitRange>> commits_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::chrono::steady_clock::time_point> known_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
