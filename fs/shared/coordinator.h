// SPDX-License-Identifier: Apache-2.0
// The machine of a shared volume that has its tree: it does what the members ask for. docs/shared.md; docs/protocol.md,
// "Shared volumes".
//
// An answer leaves when all that it shows is on the bricks, and while the volume is still had. Whoever has not been
// heard of for his lease is expelled: what he held is let go of.
//
// Threads: every call from any thread, but where it says when.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fs/operations/file_operations.h"
#include "fs/operations/member_journal.h"
#include "fs/shared/call_counters.h"
#include "fs/shared/handover.h"
#include "fs/shared/join.h"
#include "fs/shared/leases.h"
#include "fs/shared/member_session.h"
#include "fs/shared/own_kernel.h"
#include "fs/shared/served_call.h"
#include "fs/shared/unit_lender.h"
#include "transport/accept/secret_guesses.h"
#include "transport/accept/tcp_acceptor.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"
#include "transport/brick/client_secret.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs::shared {

constexpr std::chrono::milliseconds kMemberLease{10'000};
constexpr size_t kMostMembers = 1'024;
constexpr std::chrono::milliseconds kGrace{5'000};

class Coordinator {
 public:
  struct Member {
    std::string name;
    std::chrono::milliseconds silence{0};
    uint64_t calls = 0;                // that were done for it
    std::chrono::nanoseconds busy{0};  // with these, but for what waits for others
    uint64_t bytes = 0;                // of files, that went along
    bool read_only = false;
  };

  // Listens; who joins before serve() is told to try again. Errors as TcpAcceptor::open().
  static Result<std::unique_ptr<Coordinator>> listen(const std::string& host, uint16_t port, std::string volume,
                                                     const ClientSecret& secret,
                                                     std::chrono::milliseconds lease = kMemberLease);
  ~Coordinator();
  uint16_t port() const { return acceptor_->port(); }
  // What members rely on. `files` of serve() has it recalled before it changes anything (LeasedFiles).
  Leases& leases() { return leases_; }
  // What of the file system a coordinator has to do with. `kernel` may be null; so may `journal`: then members of this
  // one are strangers to the next.
  struct Served {
    FileOperations& files;
    MemberJournal* journal = nullptr;
    ClientId client{};  // who has the volume, as the bricks know him
    OwnKernel* kernel = nullptr;
    UnitLending* units = nullptr;     // null: members write through this one alone
    HandsOver* hands_over = nullptr;  // null: it cannot
  };
  // Once: members get in. Those of a former coordinator, whom the journal knows, are waited for: until all have come
  // and claimed what they hold, or `grace` is over, nothing is done for anybody. Who does not come is expelled. All of
  // `served` outlives stop().
  void serve(const Served& served, std::chrono::milliseconds grace = kGrace);
  // They have come, or it is over.
  bool in_grace() const { return leases_.is_held_back(); }
  // Who is to take the volume when this lets go of it, as members are told from now on: the others leave it to him for
  // a while. 0: nobody. True: all who are heard of have been told.
  void name_successor(SessionId session) { successor_ = session; }
  bool is_successor_known() const;
  // Whether what is in memory is the volume yet, for the own programs: it has been heard of the bricks within a lease,
  // and this process was not asleep. Waits until it is known. `soft`: no longer than that from when the operation
  // `began` or, if that was later, from when the bricks were last heard of: EIO. ESTALE: another has it; EINTR.
  Status confirm_own(std::chrono::steady_clock::time_point began, std::optional<std::chrono::milliseconds> soft,
                     const Interruption* by) const;
  // Members are cut off, and their calls under way have ended on return. The journal keeps them. Idempotent.
  void stop();

  std::vector<Member> members() const;
  // Of inodes, that members had at stop().
  const MemberSession::References& left_references() const { return left_; }
  // Of all that are and were.
  std::vector<CallCounters::Call> calls() const { return calls_.calls(); }
  uint64_t expelled() const { return expelled_; }

 private:
  struct Connection {
    std::unique_ptr<tcp::TcpChannel> channel;
    std::atomic<bool> finished{false};
    Thread thread;
  };
  using SessionPtr = std::shared_ptr<MemberSession>;

  Coordinator(std::string volume, const ClientSecret& secret, std::chrono::milliseconds lease,
              std::unique_ptr<TcpAcceptor> acceptor);
  std::optional<FirstCallVerdict> judge(const PeerAddress& peer, const Nonces& nonces, const Message& call);
  std::optional<Secret> find_secret(const PeerAddress& peer, KeyId id);
  void note_wrong_secret(const PeerAddress& peer);
  void introduce(TcpUnauthenticatedPeers::Introduced peer);
  void serve_connection(tcp::TcpChannel& channel, const PeerAddress& peer, const Nonces& nonces, const Secret& secret,
                        const Message& call);
  HandoverAnswer hand_over(const HandoverRequest& request);
  Result<SessionPtr> join(const JoinRequest& request, const PeerAddress& peer);
  Result<SessionPtr> begin_session(const JoinRequest& request, const PeerAddress& peer);
  void recall_sessions(std::chrono::milliseconds grace);
  void tell_kernel();
  void claimed(SessionId session);
  void look_at_grace();
  void serve_calls(tcp::TcpChannel& channel, const SessionPtr& session, uint32_t slot);
  void count(MemberSession& session, const Decoded& call, std::chrono::steady_clock::time_point begun, int error,
             uint64_t bytes);
  ServedAnswer perform(const MemberSession& session, SessionId successor, const Decoded& call,
                       const MemberReply* before, std::span<std::byte> room, const OperationContext& context);
  Status recall_done(const MemberSession& session, const Decoded& call, const Interruption* by);
  Status settle(const ServedAnswer& answer, const OperationContext& context);
  Status confirm(bool without_bricks, const Interruption* by) const;
  void end_session(const SessionPtr& session, const char* why);
  void lend_from(UnitLending* units);
  void end_lending();
  struct Lost {
    SessionPtr session;
    const char* why;
  };
  void expel(const std::vector<Lost>& lost);
  void look_at_members();
  void look_at_leases();
  void look_at_time(std::chrono::steady_clock::time_point now);
  bool hears_of_no_member() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void give_up_lost();
  void reap_finished();

  const std::string volume_;
  const ClientSecret secret_;
  const std::chrono::milliseconds lease_;
  const std::chrono::milliseconds quiet_ = lease_ / 2;  // a member says more often than that that it is there
  SecretGuesses guesses_;
  Leases leases_;
  CallCounters calls_;
  std::atomic<uint64_t> expelled_{0};

  // Set by serve(), before `serving_`.
  FileOperations* files_ = nullptr;
  MemberJournal* journal_ = nullptr;
  ClientId client_{};
  OwnKernel* kernel_ = nullptr;
  UnitLending* units_ = nullptr;
  std::shared_ptr<UnitLender> lender_;
  HandsOver* hands_over_ = nullptr;
  std::atomic<bool> serving_{false};
  std::atomic<SessionId> successor_{0};

  Interruption stopping_;  // of those who join, and wait for bricks
  Mutex telling_kernel_;   // before mutex_
  bool is_kernel_shared_ ABSL_GUARDED_BY(telling_kernel_) = false;
  mutable Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  SessionId last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<SessionId, SessionPtr> sessions_ ABSL_GUARDED_BY(mutex_);
  size_t beginning_ ABSL_GUARDED_BY(mutex_) = 0;                   // to be in sessions_
  std::map<SessionId, const char*> lost_ ABSL_GUARDED_BY(mutex_);  // to be expelled, and why
  Mutex looking_at_grace_;                                         // during which leases_ hold everything back
  std::chrono::steady_clock::time_point grace_until_ ABSL_GUARDED_BY(mutex_){};
  std::set<SessionId> awaited_ ABSL_GUARDED_BY(mutex_);  // of a former coordinator, and not here yet

  MemberSession::References left_;     // stop()'s
  std::list<Connection> connections_;  // the accepting thread's; then stop()'s
  std::unique_ptr<TcpAcceptor> acceptor_;
  Thread looker_;  // that expels, and may wait for calls under way
  Thread lapser_;  // that waits for nobody
  // Of steady_clock: when the looker was here last; until when, after a long sleep, it is not known what has changed.
  std::atomic<std::chrono::steady_clock::rep> looked_{0};
  std::atomic<std::chrono::steady_clock::rep> connected_{0};  // to the bricks, as it saw then
  std::atomic<std::chrono::steady_clock::rep> unsure_until_{0};
  std::atomic<bool> stop_looking_{false};
};

}  // namespace brickfs::shared
