// SPDX-License-Identifier: Apache-2.0
// A member's way to its coordinator: a session with a number of slots, each a connection that carries one call at a
// time. A connection that is lost is made again, and the call with it, which is not done twice: with the same
// coordinator, or with the one that has taken its place.
//
// Errors: ESTALE: the session has ended, for good: a coordinator has expelled us, or nobody shares it any more; EIO:
// it, or its bricks, were away for longer than a soft mount waits; EINTR; ECANCELED: interrupt(). The others are the
// operation's.
//
// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fs/operations/operation.h"
#include "fs/shared/call_counters.h"
#include "fs/shared/calls.h"
#include "fs/shared/held.h"
#include "fs/shared/join.h"
#include "fs/shared/kernel_pages.h"
#include "fs/shared/member_data.h"
#include "fs/shared/member_units.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"
#include "transport/brick/client_secret.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/volume/link_state.h"

namespace brickfs::shared {

class CoordinatorLink {
 public:
  // A coordinator that does not answer, and what has become of it.
  struct Lost {
    ClientId coordinator{};
    enum class Next { kAnyone, kThis, kAnother };
    Next next = Next::kAnyone;                    // whom it has said that it gives the volume to
    bool is_dead = false;                         // its machine says that its process has ended
    std::chrono::steady_clock::time_point heard;  // last
    // Where another should be (kMoved), and did not answer either: `is_dead` is about that one then.
    std::optional<ClientId> missed = {};
  };
  struct Sought {
    enum class Kind {
      kHolds,  // it has the volume still
      kMoved,  // another has
      kEnded,  // nobody shares the volume: for good
    };
    Kind kind = Kind::kHolds;
    HostPort address = {};   // of the other one
    const char* why = "";    // of kEnded
    ClientId coordinator{};  // the other one
  };
  struct Config {
    HostPort address;
    ClientSecret secret;
    JoinRequest request;                            // of a new session, with whom it is expected to be
    std::optional<std::chrono::milliseconds> soft;  // calls fail when it, or its bricks, were away for so long
    // Asked by a thread of its own while the coordinator does not answer. An error: it cannot be known now. May take
    // some seconds, and longer if this machine takes its place.
    std::function<Result<Sought>(const Lost& lost)> seek;
    // By interrupt(), and at the end: this machine may coordinate by now, and wait for its bricks. May be null.
    std::function<void()> interrupted = {};
  };

  // What follows behind an error, when the call is over at the coordinator: it was done, or will never be. Soon, if its
  // asker has given it up; not behind the link's end.
  struct Aftermath {
    Aftermath(Held::Change* changes = nullptr, std::function<void()> then = {})
        : change(changes), over(std::move(then)) {}
    Held::Change* change;  // what the call changes, which goes on until then
    std::function<void()> over;
  };

  // Errors as join() and connecting, with one line in `why`; ENOTCONN: it has ended since. Nobody is sought meanwhile.
  static Result<std::unique_ptr<CoordinatorLink>> join(Config config, std::string* why);
  ~CoordinatorLink();  // without leave(): the coordinator expels us after its lease

  template <typename Asked>
  Result<typename Asked::Answer> ask(const Asked& asked, const OperationContext& context, Aftermath after = {}) {
    const auto body = TRY(call(kind_of<Asked>(), encode(asked), {}, context, std::move(after)));
    return decode<typename Asked::Answer>(body);
  }
  // For nobody who would lose patience: also on a soft mount until the answer is here, or the link has ended.
  template <typename Asked>
  Result<typename Asked::Answer> ask_for_nobody(const Asked& asked) {
    const auto body = TRY(call(kind_of<Asked>(), encode(asked), {}, {}, {}, true));
    return decode<typename Asked::Answer>(body);
  }
  // With bytes behind the call.
  Result<Written> write(const Write& asked, std::span<const LocalSlice> from, const OperationContext& context,
                        Aftermath after);
  // With bytes behind the answer, at most as many as `into` takes.
  Result<uint64_t> read(const Read& asked, std::span<const LocalSlice> into, const OperationContext& context);

  // What may be answered without a call; the coordinator's recalls are carried out, and its leases renewed.
  Held& held() { return held_; }
  // Is told of recalls of data, as long as that is set. Null: nobody is.
  void set_data(MemberData* data);
  // Is told of commits, and asked for what the coordinator wants of it, likewise.
  void set_units(MemberUnits* units);

  // Likewise of recalls of data. Calls under way may have it still.
  void set_pages(std::shared_ptr<KernelPages> pages);

  // Soon, together with others.
  void forget(Ino ino, uint64_t references);
  // Likewise, of locks that are the asker's no more, and of which the coordinator could not be told.
  void release_later(const std::variant<CloseLocks, ReleaseLocks>& released);
  // Until nothing of this file is to be released later: what is locked from then on stays. Errors as ask().
  Status await_released(Ino ino, const OperationContext& context);
  // What was not told yet of both will not be.
  void drop_untold();
  // What is claimed of another coordinator, from a thread of this; null: nothing. Before the first call.
  void set_claims(std::function<std::vector<Claim>()> claims) { claims_ = std::move(claims); }
  // Grows with each coordinator: before its claims are made.
  uint64_t epoch() const { return epoch_; }
  // Everything that was held at the coordinator is let go of; nothing is asked behind it.
  void leave();
  // As if a coordinator had expelled us: ESTALE, and one line in the log. No coordinator is looked for any more.
  void lose(const char* why) { end(Error(ESTALE, why)); }

  SessionId session() const { return joined_.session; }
  Durability durability() const { return joined_.durability; }
  // That were made, but for those that only say that we are there.
  std::vector<CallCounters::Call> calls() const { return calls_.calls(); }
  HostPort address() const;
  // As the coordinator last said.
  State state() const;
  LinkState link_state() const;
  bool is_away() const;
  Status final_error() const;
  // Connections on which nothing came for a while are made again.
  void give_up_silent();
  void give_up_outage();
  void interrupt();
  // The same, and its threads end: neither data, units nor claims are asked behind it. Idempotent.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    uint32_t number = 0;
    uint64_t last = 0;  // call
    std::unique_ptr<tcp::TcpChannel> channel;
    bool is_patient = false;  // nobody waits for its call
    // Under mutex_: the keeper gives it back, with what its call may be changing yet, and says so.
    bool is_abandoned = false;
    std::unique_ptr<Held::Change> changing;
    std::function<void()> over;
  };
  class Turn;  // has a slot
  static constexpr uint32_t kKeepersSlot = 0;

  CoordinatorLink(Config config, const Joined& joined)
      : config_(std::move(config)), joined_(joined), address_(config_.address), coordinator_(joined.coordinator) {}
  Result<std::vector<std::byte>> call(uint16_t kind, std::span<const std::byte> fields,
                                      std::span<const LocalSlice> data, const OperationContext& context,
                                      Aftermath after = {}, bool is_patient = false);
  Result<std::vector<std::byte>> call_on(Slot& slot, uint16_t kind, std::span<const std::byte> fields,
                                         std::span<const LocalSlice> data, const OperationContext& context,
                                         Aftermath* after = nullptr, std::optional<uint64_t> epoch = {});
  Result<Message> exchange(Slot& slot, uint16_t kind, std::span<const std::byte> fields,
                           std::span<const LocalSlice> data, const OperationContext& context);
  Status await_answer(Slot& slot, bool must_know, const OperationContext& context);
  Result<Slot*> take_slot(const OperationContext& context);
  void give_slot(Slot& slot);
  Status connect(Slot& slot, uint64_t epoch);
  Result<Joined> join_at(const HostPort& address, ClientId coordinator, uint32_t slot,
                         std::unique_ptr<tcp::TcpChannel>& channel) const;
  Status wait_to_connect(const OperationContext& context, std::chrono::milliseconds pause);
  bool set_channel(Slot& slot, std::unique_ptr<tcp::TcpChannel> channel, uint64_t epoch);
  void drop_channel(Slot& slot);
  Status check_patience() const;
  Status check_patience(const Slot& slot) const;
  Error abandon(Slot& slot, const Error& why, Aftermath* after);
  void heard();
  void lost_contact(const Error& why);
  void end(const Error& why);
  void keep();
  void keep_once();
  void tell_released();
  void tell_forgotten();
  void cancel(const Cancel& asked);
  void renew_leases();
  void take_recalls();
  void recall(const Recall& recall);
  void give_wanted(const Recalls& wanted, uint64_t epoch);
  void give_units(uint64_t epoch);
  void give_bytes(uint64_t tag, uint64_t epoch);
  void drop_all_data();
  std::shared_ptr<KernelPages> pages() const;
  Status first_answer() const;
  bool is_own(const Slot& slot) const;
  bool is_stopping() const;
  bool is_over() const;
  std::pair<HostPort, ClientId> known_coordinator() const;
  bool has_named_next() const;
  Lost::Next next() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Lost> begin_to_seek(const Error& why);
  void seek_coordinator(const Error& why);
  void follow(Lost lost);
  bool has_moved_to(const Sought& next, Lost& lost);
  Status move_to(const Sought& next);
  Status claim(Slot& slot);

  const Config config_;
  const Joined joined_;
  bool has_begun_ = false;  // join() has succeeded: set before its threads begin
  Held held_;
  std::function<std::vector<Claim>()> claims_;
  std::atomic<uint64_t> epoch_{0};
  mutable Mutex data_mutex_;  // before data's
  MemberData* data_ ABSL_GUARDED_BY(data_mutex_) = nullptr;
  MemberUnits* units_ ABSL_GUARDED_BY(data_mutex_) = nullptr;
  std::shared_ptr<KernelPages> pages_ ABSL_GUARDED_BY(data_mutex_);

  CallCounters calls_;

  mutable Mutex mutex_;
  CondVar changed_;  // a slot is free, the keeper has work, or all has ended
  HostPort address_ ABSL_GUARDED_BY(mutex_);
  ClientId coordinator_ ABSL_GUARDED_BY(mutex_);
  uint64_t moved_ ABSL_GUARDED_BY(mutex_) = 0;  // to another coordinator, so many times
  std::array<Slot, kMostSlots> slots_;
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_);  // the last one is taken first
  std::vector<Forget::One> forgotten_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::variant<CloseLocks, ReleaseLocks>> released_ ABSL_GUARDED_BY(mutex_);  // the foremost is being told
  std::vector<Cancel> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::vector<Cancel> cancelled_later_ ABSL_GUARDED_BY(mutex_);  // abandoned calls that are under way yet
  State state_ ABSL_GUARDED_BY(mutex_);
  std::optional<Error> final_ ABSL_GUARDED_BY(mutex_);
  std::optional<Clock::time_point> away_since_ ABSL_GUARDED_BY(mutex_);         // the coordinator
  std::optional<Clock::time_point> bricks_away_since_ ABSL_GUARDED_BY(mutex_);  // from it, as it says
  std::string away_why_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point heard_ ABSL_GUARDED_BY(mutex_) = Clock::now();
  bool gave_up_ ABSL_GUARDED_BY(mutex_) = false;  // this outage
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The keeper's: when he asked the bricks last, and who did not answer where they sent him.
  Clock::time_point looked_{};
  std::optional<Lost> missed_;
  Thread keeper_;    // has slot 0: what is to be told soon, and that we are there
  Thread recalled_;  // has slot 1, on which recalls come
};

}  // namespace brickfs::shared
