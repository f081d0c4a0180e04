// SPDX-License-Identifier: Apache-2.0
// What a coordinator knows of one member: its connections, what it was answered last on each, and the references to
// inodes that it has.
//
// A member makes one call at a time on each of its *slots*, numbered one by one, and each slot has a connection. One
// that was lost comes again, and its call with it: that is answered with what was answered before, and not done twice.
//
// Threads: any; the calls of one slot one after the other.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "fs/base/ids.h"
#include "fs/inode/member_register.h"
#include "fs/operations/file_operations.h"
#include "fs/shared/calls.h"
#include "fs/shared/join.h"
#include "fs/shared/leases.h"
#include "fs/shared/served_call.h"
#include "fs/shared/unit_lender.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/channel.h"

namespace brickfs::shared {

class MemberSession {
 public:
  using Clock = std::chrono::steady_clock;

  // An answer that was sent, or was to be.
  struct Kept {
    int status = 0;
    std::vector<std::byte> fields;
  };

  // `lender` may be null: nothing is lent.
  MemberSession(FileOperations& files, Leases& leases, UnitLender* lender, SessionId id, JoinRequest request);
  // One of a former coordinator's, as the journal knows it.
  MemberSession(FileOperations& files, Leases& leases, UnitLender* lender, const KnownMember& known);
  ~MemberSession();  // precondition: end()

  SessionId id() const { return id_; }
  const wire::Token& token() const { return token_; }
  const JoinRequest& request() const { return request_; }
  MemberRow row() const;

  // It has been heard of, just now.
  void hear() { heard_ = Clock::now().time_since_epoch().count(); }
  std::chrono::nanoseconds silence() const { return Clock::now().time_since_epoch() - Clock::duration(heard_.load()); }
  uint64_t calls() const { return calls_; }
  // What one of them took, and what of it went along.
  void note_cost(std::chrono::nanoseconds took, uint64_t bytes) {
    busy_ += static_cast<uint64_t>(took.count());
    bytes_ += bytes;
  }
  std::chrono::nanoseconds busy() const { return std::chrono::nanoseconds(busy_); }
  uint64_t bytes() const { return bytes_; }
  // It has been told who is to take the volume; 0: that nobody is.
  void note_told(SessionId successor) { told_ = successor; }
  bool was_told(SessionId successor) const { return told_ == successor; }
  // Raised when it ends.
  const Interruption& ending() const { return ending_; }

  // A connection for that slot, in the place of the one that it had. ESTALE: the session has ended; EAGAIN: here, not
  // for the next coordinator.
  Status connect(uint32_t slot, Channel& channel);
  void disconnect(uint32_t slot, Channel& channel);

  // The call of that number is done, or has been: `say` is told the answer, which it may only send. EPROTO: it is
  // older than the last one: nobody waits for its answer any more.
  struct Answer {
    int status;
    std::span<const std::byte> fields;
    std::span<const std::byte> data;
  };
  // `before`: what a former coordinator was to answer, who has done it; null: it is to be done.
  using Perform =
      std::function<ServedAnswer(const Decoded& call, const MemberReply* before, const OperationContext& context)>;
  Status call(uint32_t slot, uint64_t number, const Decoded& call, const Perform& perform,
              const std::function<Status(const Answer&)>& say);

  // Its calls under way end, its connections too, and what it held is let go of. Idempotent; waits for those calls.
  // kComesBack: to whoever has the volume next; the inodes and locks that it holds stay. `write_down` has the journal
  // say that it has ended, and waits until that is on the bricks; if it fails, the locks stay. The calls have ended by
  // then, and the locks, and what nobody else refers to, are there yet. Should the coordinator die behind one of those
  // alone, the next one would go on with a member whose open files are gone, or that claims a lock which another has.
  enum class Ends { kForGood, kComesBack };
  void end(Ends how = Ends::kForGood, const std::function<Status()>& write_down = nullptr);
  // Those that it has, more of them.
  using References = std::unordered_map<Ino, uint64_t>;
  void add_references(References& to);

 private:
  struct Slot {
    Mutex mutex;  // held while a call is done
    uint64_t last = 0;
    std::optional<Kept> kept;           // of `last`; none: it is to be done again
    std::optional<MemberReply> before;  // of a former coordinator's last call that changed anything
    Interruption interruption;
    // Under the session's mutex: the call that is done, or was last; whether it has been, and with which references;
    // the one that is to end; the one whose answer nobody waits for.
    uint64_t current = 0;
    bool is_done = true;
    std::vector<Ino> given;
    uint64_t cancelled = 0;
    uint64_t abandoned = 0;
  };

  ServedAnswer perform_own(const Forget& asked);
  ServedAnswer perform_own(const Hold& asked);
  ServedAnswer perform_own(const Leave& asked);
  ServedAnswer perform_own(const Cancel& asked);
  ServedAnswer perform_own(const Claim& asked);
  ServedAnswer perform_own(const AwaitRecalls& asked, Slot& slot);
  ServedAnswer perform_own(const ReturnUnits& asked);
  ServedAnswer perform_own(const GiveBytes& asked, std::span<const std::byte> bytes);
  ServedAnswer do_once(uint32_t at, uint64_t number, const Decoded& call, const Perform& perform);
  void keep_references(const std::vector<Ino>& given);
  bool begin(Slot& slot, uint64_t number);
  void finish(Slot& slot, const std::vector<Ino>& given);
  void forget(Ino ino, uint64_t references);
  void take_back(const std::vector<Ino>& given);
  void let_go_of(const References& references);

  FileOperations& files_;
  Leases& leases_;
  UnitLender* const lender_;
  const SessionId id_;
  const wire::Token token_;
  const JoinRequest request_;
  std::atomic<Clock::rep> heard_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> busy_{0};  // nanoseconds
  std::atomic<uint64_t> bytes_{0};
  std::atomic<SessionId> told_{0};
  Interruption ending_;
  std::array<Slot, kMostSlots> slots_;

  Mutex mutex_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool comes_back_ ABSL_GUARDED_BY(mutex_) = false;  // to the next coordinator, though it is over here
  std::array<Channel*, kMostSlots> channels_ ABSL_GUARDED_BY(mutex_) = {};
  References references_ ABSL_GUARDED_BY(mutex_);
  References claimed_before_ ABSL_GUARDED_BY(mutex_);  // by what was begun anew
};

}  // namespace brickfs::shared
