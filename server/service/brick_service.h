// SPDX-License-Identifier: Apache-2.0
// A brick as its listeners (embedded, tcp, verbs) see it: volumes, leases, sessions, blocks. Knows no wire and no file.
//
// A listener authenticates its peer, opens a ServerSession for it and carries calls to it. Bytes of blocks are touched
// only through a Pin, so that unmap, fencing and eviction know when nobody does any more.
//
// Threads: every call from any thread. Locks are held for bookkeeping only, not while a peer's bytes move.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/store/store_device.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/limits.h"

namespace brickfs {

struct VolumeSpec {
  std::string name;
  std::optional<uint64_t> quota_bytes;
};

struct BrickConfig {
  uint64_t memory_bytes = 0;        // pool; with a store 0 means as much as the store holds, or 3/4 of the machine's
  std::string store_path;           // empty: memory only, volatile
  uint64_t store_bytes = 0;         // of a new store, or to which an existing one is to be changed; 0: as it is
  std::vector<VolumeSpec> volumes;  // besides `default`; an existing volume's quota is changed to what is given
  std::chrono::milliseconds lease = limits::kLease;  // a holder not heard of for so long is cut off
  // From the start on, of a brick with a store: a volume that somebody held and had not closed is his for so long. 0
  // where he cannot come back (he was in one process with the brick).
  std::chrono::milliseconds grace{0};
};

// Part of mapped memory that stays in place, and mapped, as long as this lives. Short-lived: holders of a handle being
// revoked are waited for, and their connections cut if they take long.
class Pin {
 public:
  Pin() = default;
  Pin(std::span<std::byte> bytes, std::shared_ptr<void> hold) : bytes_(bytes), hold_(std::move(hold)) {}
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
  std::shared_ptr<void> hold_;
};

// The way of a session's peer to mapped memory that does not lead through pin(): a device that guards the memory
// itself. Threads: any.
class RemoteAccess {
 public:
  virtual ~RemoteAccess() = default;
  // Lets the peer reach `memory`. A key, not 0, unique for the life of this, that becomes the handle's remote_key.
  virtual Result<uint32_t> grant(std::span<std::byte> memory, Access access) = 0;
  // At most so many bytes from there on in one grant.
  virtual size_t reach(const std::byte* from) const = 0;
  // When it returns no access by these keys can land any more. Each is revoked once.
  virtual void revoke(std::span<const uint32_t> keys) = 0;
};

// One client's session on one volume. Calls answer as in transport/brick/brick.h; ESTALE once it has been fenced or
// closed.
class ServerSession {
 public:
  virtual ~ServerSession() = default;  // ends the session as disconnect() does
  virtual const Session& description() const = 0;
  virtual Status alloc(BlockRange blocks) = 0;
  virtual Status free(BlockRange blocks) = 0;
  virtual Result<std::vector<Handle>> map(BlockRange blocks, Access access) = 0;
  virtual Status unmap(BlockRange blocks) = 0;
  virtual Result<ListPage> list(BlockAddress cursor) = 0;
  // `abandoned` (may be empty), asked before each block: nobody waits for the answer any more. ESTALE then.
  virtual Status commit(std::span<const CommitRange> ranges, const std::function<bool()>& abandoned) = 0;
  Status commit(std::span<const CommitRange> ranges) { return commit(ranges, {}); }
  virtual Result<BrickStat> stat() = 0;
  // `remote_address`, `remote_key` as in a Handle of this session; all of the bytes within that handle.
  // EACCES: no such handle, or not for this access.
  virtual Result<Pin> pin(uint32_t remote_key, uint64_t remote_address, uint64_t length_bytes, Access access) = 0;
  // Heard from the client just now.
  virtual void touch() = 0;
  // Gives up the lease.
  virtual Status close() = 0;
  // The connection is gone: handles die, the lease stays his until somebody else asks for it.
  virtual void disconnect() = 0;
};

class BrickService {
 public:
  // Takes over or makes the store. EBUSY: another process has it open. EUCLEAN: not a store, or damaged.
  // ENOMEM: the machine does not have that much memory. `why`: one line.
  static Result<std::unique_ptr<BrickService>> open(const BrickConfig& config, std::string* why);
  // The same on a device instead of a file; `store_path` is what people know it as.
  static Result<std::unique_ptr<BrickService>> open(const BrickConfig& config, std::unique_ptr<StoreDevice> device,
                                                    std::string* why);
  virtual ~BrickService() = default;

  // `cut_off` must stop all traffic of this session's peer (shut its sockets down, destroy its queue pairs) and
  // return when no access of it can land any more; called at most once, from the thread of whoever takes over. It must
  // not call the session nor wait for calls of it, and owns what it uses: the session may be going at the same time.
  // Sessions go before the service.
  // A session of the same client on the same volume that resumes replaces the former, which is cut off first.
  // `remote` (null: the peer reaches memory through pin() only): each handle is granted there, and revoked before its
  // blocks are unmapped.
  virtual Result<std::unique_ptr<ServerSession>> open_session(const OpenRequest& request, std::function<void()> cut_off,
                                                              std::shared_ptr<RemoteAccess> remote, Holder* holder) = 0;
  Result<std::unique_ptr<ServerSession>> open_session(const OpenRequest& request, std::function<void()> cut_off,
                                                      Holder* holder) {
    return open_session(request, std::move(cut_off), nullptr, holder);
  }
  // All memory that handles may name, for a device to hold: from now on none of it is given back to the system.
  virtual std::span<std::byte> memory_for_devices() = 0;
  // Cuts off holders not heard of for BrickConfig::lease. Called about once a second by whoever runs listeners.
  virtual void expire_silent() = 0;
  // Sessions begun from now on are told that the brick listens there (Session::tcp_port).
  virtual void announce_tcp(uint16_t port) = 0;
  virtual BootId boot() const = 0;
  virtual Durability durability() const = 0;
  // Clean stop: what is in memory only goes to the store.
  virtual Status stop() = 0;
};

}  // namespace brickfs
