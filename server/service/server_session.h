// SPDX-License-Identifier: Apache-2.0
// One client's session: the calls it may make, its handles, and its end, which comes from its own side (close(),
// disconnect()) or from a taker of its lease (fence()). Calls answer as in transport/brick/brick.h; ESTALE once it has
// been fenced or closed.
//
// Its end, always in this order: calls are refused; (fence: the connection is cut off;) calls under way return; handles
// die and their pins are waited for; the blocks are unmapped.
//
// Bytes of blocks are touched only through a Pin, or by a device through RemoteAccess, so that unmap, fencing and
// eviction know when nobody does any more.
//
// Threads: every call from any thread. Held by shared_ptr, so that a taker may end it while its listener drops it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/service/handle_table.h"
#include "server/service/notice_board.h"
#include "server/service/session_counters.h"
#include "server/store/block_store.h"
#include "transport/base/mutex.h"
#include "transport/brick/brick.h"
#include "transport/brick/volume_key.h"

namespace brickfs {

class VolumeTable;

// The way of a session's peer to mapped memory that does not lead through pin(): a device that guards the memory
// itself. Threads: any.
class RemoteAccess {
 public:
  virtual ~RemoteAccess() = default;
  // Lets the peer reach `memory`. A key, not 0 and of no other grant that is not revoked, that becomes the handle's
  // remote_key.
  virtual Result<uint32_t> grant(std::span<std::byte> memory, Access access) = 0;
  // At most so many bytes from there on in one grant.
  virtual size_t reach(const std::byte* from) const = 0;
  // What the peer needs besides.
  virtual void add_keys(calls::Mapped& mapped) const = 0;
  // When it returns no access by these keys can land any more. Each is revoked once.
  virtual void revoke(std::span<const uint32_t> keys) = 0;
  // The same where the peer has not asked for it, and may be using them.
  virtual void take_away(std::span<const uint32_t> keys) { revoke(keys); }
  // The same of all; and nothing is granted any more.
  virtual void cut_off() = 0;
  // QUEUE_PAIR, ENDPOINT, DETACH, KEYS.
  virtual Result<calls::Answer> call(const calls::Request& request) = 0;
};

// What a listener gives for its peer.
struct PeerEnd {
  // Stops all traffic of this session's peer (shuts its sockets down, destroys its queue pairs) and returns when no
  // access of it can land any more; called at most once, from the thread of whoever takes over. It calls neither the
  // session nor waits for calls of it, and owns what it uses: the session may be going at the same time.
  std::function<void()> cut_off;
  // Null: the peer reaches memory through pin() only. Each handle is granted there, and revoked before its blocks are
  // unmapped.
  std::shared_ptr<RemoteAccess> remote = nullptr;
  // What it has proved; none: it is in this process, and may what who runs that may.
  std::optional<Credential> proved = std::nullopt;

  bool may_write() const { return !proved || proved->rights == KeyRights::kReadWrite; }
  std::optional<KeyId> key() const { return proved ? proved->key : std::nullopt; }
};

class ServerSession final : public Callee {
 public:
  using Abandoned = BlockStore::Abandoned;
  struct Fixed {
    VolumeId volume{};
    ClientId client{};
    OpenMode mode = OpenMode::kExclusive;
    bool bound = false;  // as in OpenRequest, as the next one
    bool writes = false;
    Holder holder;        // as others see him
    uint64_t number = 0;  // higher than of sessions before it
    Session description;
    PeerEnd peer;
    std::shared_ptr<NoticeBoard> notices;  // the volume's
  };
  ServerSession(Fixed fixed, BlockStore& blocks, VolumeTable& volumes);
  ServerSession(const ServerSession&) = delete;
  ServerSession& operator=(const ServerSession&) = delete;

  VolumeId volume() const { return fixed_.volume; }
  ClientId client() const { return fixed_.client; }
  OpenMode mode() const { return fixed_.mode; }
  bool is_bound() const { return fixed_.bound; }
  const PeerEnd& peer() const { return fixed_.peer; }
  const Holder& holder() const { return fixed_.holder; }
  uint64_t number() const { return fixed_.number; }
  SessionCounters& counters() { return counters_; }
  const SessionCounters& counters() const { return counters_; }
  const Session& description() const { return fixed_.description; }

  Result<calls::Answer> call(const calls::Request& request) override { return call(request, {}); }
  // `abandoned` (may be empty), asked now and then by what takes long: nobody waits for the answer any more. ESTALE
  // then.
  Result<calls::Answer> call(const calls::Request& request, const Abandoned& abandoned);
  // `address`, `key` as in a Handle of this session; all of the bytes within that handle. EACCES: no such handle, or
  // not for this access.
  Result<Pin> pin(uint32_t key, uint64_t address, uint64_t length_bytes, Access access) const {
    if (ended_.load(std::memory_order_relaxed)) return Error(ESTALE, "the session has ended");
    return handles_.pin(key, address, length_bytes, access);
  }

  // Heard from the client just now.
  void touch() { heard_.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed); }
  // At `now` nothing heard for so long, and no call under way: while it is, its client cannot be heard. A WAIT is none:
  // it goes on beside others.
  bool silent_for(std::chrono::milliseconds limit, std::chrono::steady_clock::time_point now) const;
  bool ended() const { return ended_.load(); }

  // Gives up the lease.
  Status close();
  // The connection is gone: handles die, the lease stays his until somebody else asks for it.
  void disconnect();
  // As if it had unmapped them itself: what it reads there from now on is refused. Returns when it touches them no
  // more.
  void take_back(BlockRange blocks);
  // Ends it from outside, cutting off its peer. Returns when it has ended, whoever did it. False: another is at it, and
  // `abandoned`, asked now and then, says that nobody waits for that here any more.
  bool fence(const Abandoned& abandoned);

 private:
  class Call;
  Status check_may(bool needs_exclusive) const;
  Status carry_out(const calls::Alloc& call);
  Status carry_out(const calls::Free& call);
  Result<calls::Mapped> carry_out(const calls::Map& call);
  Status carry_out(const calls::Unmap& call);
  Result<ListPage> carry_out(const calls::List& call);
  Status carry_out(const calls::Commit& call, const Abandoned& abandoned);
  Result<BrickStat> carry_out(const calls::Stat& call);
  Status carry_out(const calls::Notify& call);
  Result<calls::Notices> carry_out(const calls::Wait& call);
  Status carry_out(const calls::Admit& call);
  Status carry_out(const calls::Expel& call, const Abandoned& abandoned);
  template <typename Operation>
  auto past_followers(BlockRange blocks, int in_the_way, Operation&& operation) -> decltype(operation());
  Result<Handle> make_handle(BlockRange blocks, Access access, std::byte* memory);
  // Ends it from its own side; does nothing if it is ending already. True: this call ended it.
  bool end(AfterWriting after);
  bool begin_end();
  void finish_end(AfterWriting after);
  enum class Asked : uint8_t { kByPeer, kByOthers };
  void release(std::span<const HandleTable::Revoked> revoked, AfterWriting after, BlockRange doomed = {},
               Asked asked = Asked::kByPeer);
  void unmap_part(BlockAddress start, BlockAddress end, Access access, AfterWriting after);
  void cut_off() { std::call_once(cut_off_, fixed_.peer.cut_off); }

  const Fixed fixed_;
  BlockStore& blocks_;
  VolumeTable& volumes_;

  HandleTable handles_;
  SessionCounters counters_;
  std::atomic<std::chrono::steady_clock::rep> heard_{0};
  std::once_flag cut_off_;
  std::atomic<bool> ended_{false};  // written under mutex_

  mutable Mutex mutex_;
  CondVar changed_;
  uint32_t calls_ ABSL_GUARDED_BY(mutex_) = 0;  // under way
  bool end_finished_ ABSL_GUARDED_BY(mutex_) = false;
};

// A listener's hold of its session: when it goes, the session ends as disconnect() does.
struct SessionEnd {
  std::shared_ptr<ServerSession> session;
  void operator()(ServerSession* ended) {
    ended->disconnect();
    session.reset();
  }
};
using SessionPtr = std::unique_ptr<ServerSession, SessionEnd>;
inline SessionPtr hold(std::shared_ptr<ServerSession> session) {
  auto* const raw = session.get();
  return SessionPtr(raw, SessionEnd{std::move(session)});
}

}  // namespace brickfs
