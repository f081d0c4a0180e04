// SPDX-License-Identifier: Apache-2.0
// A brick as its listeners (embedded, tcp, verbs) see it: volumes, leases, sessions, blocks. Knows no wire and no file.
//
// A listener authenticates its peer, opens a ServerSession for it and carries calls to it.
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

#include "server/service/server_session.h"
#include "server/store/memory_keeper.h"
#include "server/store/store_device.h"
#include "transport/base/progress.h"
#include "transport/base/result.h"
#include "transport/brick/administration.h"
#include "transport/brick/brick.h"
#include "transport/brick/limits.h"

namespace brickfs {

struct VolumeSpec {
  std::string name;
  std::optional<uint64_t> quota_bytes;
};

struct BrickConfig {
  uint64_t memory_bytes = 0;  // pool; with a store 0 means as much as the store holds, or 3/4 of the machine's
  std::string store_path;     // empty: memory only, volatile
  uint64_t store_bytes = 0;   // of a new store, or to which an existing one is to be changed; 0: as it is
  bool repair_store = false;  // blocks whose entries are damaged are given up (StoreFile::Damage)
  // A volatile brick's memory outlives this process: in a file, or with somebody who keeps it. At most one of them.
  std::string keep_path;
  std::shared_ptr<MemoryKeeper> keeper;
  // Besides `default`: made if they are not there; an existing volume's quota is changed to what is given. Others that
  // were made before stay.
  std::vector<VolumeSpec> volumes;
  std::chrono::milliseconds lease = limits::kLease;  // a holder not heard of for so long is cut off
  // From the start on, of a brick that knows who: a volume that somebody held and had not closed is his for so long. 0
  // where he cannot come back (he was in one process with the brick).
  std::chrono::milliseconds grace{0};
};

// The brick's numbers at one moment, for who watches it.
struct BrickNumbers {
  uint64_t capacity_blocks = 0;
  uint64_t memory_blocks = 0;
  BlockStore::Counts blocks;
  bool store_failed = false;
  bool store_disk_full = false;
  // Sessions now, by mode; and those cut off since the start.
  uint64_t holders = 0;
  uint64_t readers = 0;
  uint64_t observers = 0;
  uint64_t cut_off_silent = 0;
  uint64_t cut_off_by_takers = 0;
  uint64_t cut_off_by_removal = 0;
  std::vector<VolumeStatus> volumes;
  struct Client {
    std::string name;
    std::string volume;
    OpenMode mode = OpenMode::kObserve;
    int64_t since_unix_seconds = 0;
  };
  std::vector<Client> clients;
  std::string medium;
};

class BrickService {
 public:
  // Takes over or makes the store, or memory that is kept. EBUSY: another process has it open. EUCLEAN: not a store, or
  // damaged.
  // ENOMEM: the machine does not have that much memory. `why`: one line.
  static Result<std::unique_ptr<BrickService>> open(const BrickConfig& config, std::string* why);
  // The same on a device instead of a file; `store_path` is what people know it as.
  static Result<std::unique_ptr<BrickService>> open(const BrickConfig& config, std::unique_ptr<StoreDevice> device,
                                                    std::string* why);
  virtual ~BrickService() = default;

  // Says that nobody waits for a call's answer any more. Asked now and then while the call waits, also under a lock: it
  // takes no lock and waits for nothing. The call answers ECANCELED then, and nothing has changed, but that sessions
  // which were in its way may have been cut off.
  using Abandoned = ServerSession::Abandoned;
  // Sessions go before the service.
  // A session of the same client on the same volume that resumes replaces the former, which is cut off first.
  virtual Result<SessionPtr> open_session(const OpenRequest& request, PeerEnd peer, Holder* holder,
                                          const Abandoned& abandoned) = 0;
  // For who calls from this process, and stays.
  Result<SessionPtr> open_session(const OpenRequest& request, PeerEnd peer, Holder* holder) {
    return open_session(request, std::move(peer), holder, never);
  }
  Result<SessionPtr> open_session(const OpenRequest& request, std::function<void()> cut_off, Holder* holder) {
    return open_session(request, PeerEnd{std::move(cut_off), nullptr}, holder, never);
  }
  // All memory that handles may name, for a device to hold: from now on none of it is given back to the system.
  virtual std::span<std::byte> memory_for_devices() = 0;
  // A device reaches the memory: what its pages are is to be known (BrickStat::medium).
  virtual void announce_device() = 0;
  // From now on a thread of the service looks for sessions not heard of for BrickConfig::lease, and cuts them off. For
  // who listens; peers in this process are heard of when they have something to do.
  virtual void watch_silence() = 0;
  // Looks once, as at `now`.
  virtual void expire_silent(std::chrono::steady_clock::time_point now) = 0;
  // Sessions begun from now on are told that the brick listens there (Session::tcp_port).
  virtual void announce_tcp(uint16_t port) = 0;
  // What an administrator asks for, which whoever lets him in has made sure he is.
  virtual AdminAnswer administer(const AdminRequest& request, const Abandoned& abandoned) = 0;
  AdminAnswer administer(const AdminRequest& request) { return administer(request, never); }
  // By what its clients prove themselves, one of them; none: by the brick's own secret, or there is no such volume. Of
  // one who is let in by it open_session() is told (PeerEnd::proved), and looks again.
  virtual std::optional<std::vector<VolumeKey>> keys_of(const std::string& volume) const = 0;
  // Of any volume.
  virtual std::optional<Secret> find_key(KeyId id) const = 0;
  virtual BrickNumbers numbers() const = 0;
  virtual BootId boot() const = 0;
  virtual Durability durability() const = 0;
  // Clean stop: what is in memory only goes to the store. Memory that is kept says that it was left in order.
  virtual Status stop(const Progress& progress) = 0;
  Status stop() { return stop({}); }

 private:
  static bool never() { return false; }
};

}  // namespace brickfs
