// SPDX-License-Identifier: Apache-2.0
// A Brick whose session comes back: a gate that calls pass while there is a session, and a thread that opens the next
// one when it is lost. Between two sessions nothing is under way: every guard of the old one has ended before the next
// is opened.
//
// Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "transport/base/guard.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"
#include "transport/brick/brick.h"
#include "transport/volume/link_state.h"
#include "transport/volume/volume_counters.h"

namespace brickfs {

// How long one operation waits for the brick, over all its waits: on a soft mount from when it began or, if that was
// later, from when the brick was last heard of; and until it is interrupted.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Patience(std::optional<std::chrono::milliseconds> soft, const Interruption* by = nullptr)
      : soft_(soft), by_(by), began_(soft ? Clock::now() : Clock::time_point()) {}
  // For a change, or to look again. EIO: it is at an end. EINTR.
  Status wait(CondVar& changed, MutexLock& lock, Clock::time_point heard);
  // The same without waiting, of what lacks something other than a session.
  Status lasts();
  const Interruption* interruption() const { return by_; }

 private:
  Status check(Clock::time_point from);

  const std::optional<std::chrono::milliseconds> soft_;
  const Interruption* const by_;
  const Clock::time_point began_;
  std::optional<Clock::time_point> until_;
};

class VolumeLink {
 public:
  // Makes a new session as good as the lost one, with nothing else under way. An error of the link: tried again with
  // the next session. ENODATA: the brick has lost committed data. `restarted`: the boot id is new.
  using Restore = std::function<Status(Brick& brick, bool restarted)>;
  using IsClean = std::function<bool()>;  // all that was changed is committed

  // `soft`: a session in which the brick has been silent for so long is given up. `counters`: of waits.
  // `name`: what begins lines about it in the log; may be empty. `is_copy`: VolumeOptions.
  VolumeLink(std::unique_ptr<Brick> brick, OpenRequest request, std::optional<std::chrono::milliseconds> soft,
             VolumeCounters& counters, std::string name = {}, bool is_copy = false);
  ~VolumeLink();  // leaves the lease alone
  VolumeLink(const VolumeLink&) = delete;
  VolumeLink& operator=(const VolumeLink&) = delete;

  // The first session. Errors as Brick::open.
  Status open(Holder* holder);
  // From now on lost sessions are replaced.
  void start(Restore restore, IsClean is_clean);

  // Guards a session: calls to the brick are made only within one, and it waits for nothing but the brick.
  class Guard {
   public:
    Guard() = default;
    Guard(Guard&& other) noexcept { *this = std::move(other); }
    Guard& operator=(Guard&& other) noexcept {
      std::swap(link_, other.link_);
      std::swap(place_, other.place_);
      std::swap(session_, other.session_);
      return *this;
    }
    ~Guard() {
      if (link_ != nullptr) link_->leave(place_);
    }
    Brick& brick() const { return *link_->brick_; }

   private:
    friend class VolumeLink;
    VolumeLink* link_ = nullptr;
    size_t place_ = 0;
    uint64_t session_ = 0;
  };

  // Waits for a session. EIO: patience is at an end; EINTR; or the final error.
  Result<Guard> enter(Patience& patience);
  // True: the error says that the session is lost, which is seen to; enter() again. Else it is the call's own answer.
  bool lost_by(const Guard& guard, Error error);
  // The brick answers, but not as it should in this session.
  void distrust(const Guard& guard) { lose(guard.session_, Error(EPROTO, "handle refused")); }

  // A session in which the brick has been silent for so long is lost: what is under way in it ends, and waits for the
  // next one, or gives up. Bytes that were being written are then in doubt, as with any loss.
  void give_up_silent(std::chrono::milliseconds silence);
  // While the brick is away: whoever waits for it, and whoever comes, is told EIO, until it is back. Otherwise nothing.
  void give_up_outage();

  Session session() const;
  BootId boot() const;
  LinkState state(Asking asking) const;  // does not wait
  // Brick::known_at().
  std::chrono::steady_clock::time_point known_at() const { return brick_->known_at(); }
  bool is_away() const { return gate_.load() == 0; }  // no session to enter now
  // What enter() fails with from now on for good. Takes no lock while there is no such error.
  Status final_error() const;
  Brick& brick() { return *brick_; }  // for what needs no session

  // Ends all waiting with ECANCELED, now and for ever, and cuts what is under way off. Gives the lease up if all is
  // committed, or what is not does not matter; else the brick is left as by a crash: nothing of that may be stored in
  // another order.
  void interrupt(bool uncommitted_matters = true);
  // Of a reader, from now on: a brick that restarts, and had what nobody has committed, is one that has lost data.
  void expect_no_restart();
  // Ends all waiting with ECANCELED, as the destructor does, which is to follow.
  void abandon() { cancel(End::kAbandon); }
  // Waits for what is under way, gives the lease up.
  Status close();

 private:
  enum class State { kConnected, kWaiting, kFailed };
  enum class End { kNone, kAbandon, kGiveUp };

  void leave(size_t place);
  void lose(uint64_t session, Error error);
  void lose_current(Error error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void fail(Error error, std::string text);
  void cancel(End end);

  // The thread's.
  void run();
  bool ends_as_a_crash() const;
  void await_loss(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void reconnect();
  Status begin_session();
  void tell_refusal(Error error);
  void tell_once(Error error, std::string text);
  bool await_retry(std::chrono::milliseconds delay);

  const std::optional<std::chrono::milliseconds> soft_;
  VolumeCounters& counters_;
  const std::string name_;
  const bool is_copy_;
  OpenRequest request_;  // resume: the thread's, after open()
  Restore restore_;      // fixed before the thread starts
  IsClean is_clean_;     // ... too

  GuardCount guards_;
  std::atomic<uint64_t> gate_{0};    // number of the session calls may enter; 0: closed
  std::atomic<bool> failed_{false};  // state_ is kFailed, for good

  mutable Mutex mutex_;
  CondVar changed_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kWaiting;
  End end_ ABSL_GUARDED_BY(mutex_) = End::kNone;
  bool cut_off_ ABSL_GUARDED_BY(mutex_) = false;                         // end without waiting for what is under way
  bool lost_early_ ABSL_GUARDED_BY(mutex_) = false;                      // the session being begun is lost already
  bool abandons_ ABSL_GUARDED_BY(mutex_) = false;                        // the brick does not know yet that it is lost
  std::chrono::steady_clock::time_point heard_ ABSL_GUARDED_BY(mutex_);  // of the brick, last, while it is away
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
  Session session_ ABSL_GUARDED_BY(mutex_);
  Error error_ ABSL_GUARDED_BY(mutex_){0};
  std::string text_ ABSL_GUARDED_BY(mutex_);
  bool outage_given_up_ ABSL_GUARDED_BY(mutex_) = false;  // while waiting
  std::optional<Status> closed_ ABSL_GUARDED_BY(mutex_);
  bool expects_no_restart_ ABSL_GUARDED_BY(mutex_) = false;
  bool uncommitted_matters_ ABSL_GUARDED_BY(mutex_) = true;

  std::minstd_rand jitter_;             // the thread's; clients differ
  const std::unique_ptr<Brick> brick_;  // calls back until it is gone: behind all that it finds then
  Thread thread_;
};

}  // namespace brickfs
