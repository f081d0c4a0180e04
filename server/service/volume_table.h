// SPDX-License-Identifier: Apache-2.0
// The brick's volumes and who holds them: one exclusive holder or many readers, each grant with its epoch. A new holder
// fences the former before its epoch is raised; on durable bricks the epoch is on disk before he is told of it.
//
// A volume that has had a key is opened by its keys alone: before the first is there, its record says so. What ends is
// durable before sessions that came by it are cut off.
//
// A volume goes in steps, so that after a crash it is there or not, never half of it: nobody gets in; everybody is
// fenced; its record says that it goes, durably, if it has blocks or keys; they are freed; all of them is gone,
// durably; its record is erased, durably. Who finds a record that says so does the rest. Only then is its id another's.
//
// Threads: every call from any thread. One change of a volume's holders at a time; no lock is held while one is fenced.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "server/service/brick_service.h"
#include "server/service/server_session.h"
#include "server/store/block_store.h"
#include "server/store/volume_records.h"
#include "transport/base/mutex.h"
#include "transport/brick/administration.h"

namespace brickfs {

class VolumeTable {
 public:
  // `records` may be null. Both outlive this. `geometry`: what every session is told of the brick. `grace`:
  // BrickConfig's.
  VolumeTable(BlockStore& blocks, VolumeRecords* records, Session geometry, std::chrono::milliseconds grace,
              std::function<std::string()> medium);
  VolumeTable(const VolumeTable&) = delete;
  VolumeTable& operator=(const VolumeTable&) = delete;

  // What the records were, once, then, as soon as the blocks are there, what the configuration asks for (and
  // `default`). EINVAL, EIO.
  void load(std::span<const StoreVolume> records, std::vector<StoredKey> keys);
  Status finish_removals(std::string* why);
  Status configure(std::span<const VolumeSpec> specs, std::string* why);

  using Abandoned = ServerSession::Abandoned;
  // As BrickService::open_session().
  Result<std::shared_ptr<ServerSession>> open(const OpenRequest& request, PeerEnd peer, Holder* holder,
                                              const Abandoned& abandoned);
  // The session has ended by itself. `gives_up`: its lease too, else that stays its client's until another asks for it.
  Status leave(const ServerSession& session, bool gives_up);
  void fence_silent(std::chrono::milliseconds limit, std::chrono::steady_clock::time_point now);
  // Of those who follow it: what they have mapped of the blocks is unmapped on return.
  void take_from_followers(VolumeId volume, BlockRange blocks) ABSL_LOCKS_EXCLUDED(mutex_);
  // As calls::Admit and calls::Expel, for the holder whose session it is, with a call under way. ESTALE: `abandoned`
  // says that nobody waits for it.
  Status admit(const ServerSession& holder, ClientId client);
  Status expel(const ServerSession& holder, ClientId client, const Abandoned& abandoned);
  AdminAnswer administer(const AdminRequest& request, const Abandoned& abandoned);
  // As BrickService::keys_of().
  std::optional<std::vector<VolumeKey>> keys_of(const std::string& volume) const;
  // As BrickService::find_key().
  std::optional<Secret> find_key(KeyId id) const;
  void announce_tcp(uint16_t port) { tcp_port_ = port; }
  // Nobody gets in any more; everybody is fenced.
  void shut();
  // Sessions, and volumes.
  void fill_numbers(BrickNumbers& numbers) const;
  // Fields about leases, and what the blocks are in. `of_others`: also what tells of other volumes.
  void fill_stat(VolumeId volume, bool of_others, BrickStat& stat) const;

 private:
  struct Key {
    uint32_t place = 0;  // in the records
    VolumeKey key;
  };
  struct Volume {
    VolumeId id{};
    StoreVolume record{};  // the lease, as it stands or will stand in the records
    std::chrono::steady_clock::time_point
        kept_until;         // for the holder in the record, who has not come back since the brick started
    bool changing = false;  // one thread is changing holders or record; others wait for changed_
    bool going = false;     // removed, and not gone yet: nobody but who removes it knows it
    bool is_configured = false;
    bool size_is_configured = false;
    std::vector<std::shared_ptr<ServerSession>> holders;
    std::vector<std::shared_ptr<ServerSession>> guests;  // have no lease: who observes, and who follows
    absl::flat_hash_set<ClientId> writers;               // may follow the holder and write
    std::vector<Key> keys;                               // in the order of their adding
    std::shared_ptr<NoticeBoard> notices = std::make_shared<NoticeBoard>();
  };
  using Sessions = std::vector<std::shared_ptr<ServerSession>>;

  static Status check(const OpenRequest& request);
  static size_t count_of(const Sessions& sessions, OpenMode mode);
  // That the peer may have it so.
  static Status check_proved(const Volume& volume, const OpenRequest& request, const PeerEnd& peer, Holder* holder);
  static Status check_bound(const Volume& volume, const OpenRequest& request);
  Status check_resume(const Volume& volume, const OpenRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Status check_kept(const Volume& volume, const OpenRequest& request, Holder* holder);
  static Holder away_holder(const Volume& volume);  // precondition: there is one in the record
  static Result<Sessions> find_victims(const Volume& volume, const OpenRequest& request, const PeerEnd& peer,
                                       Holder* holder);
  Volume& add(VolumeId id, const StoreVolume& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // ENOSPC: there is no id left.
  Result<Volume*> make(const std::string& name, uint64_t quota_blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop(Volume& volume) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t fresh_epoch(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The volume once nobody changes it any more, which may take a while. ENOENT; ECANCELED: `abandoned`, asked last when
  // it is settled, says that nobody waits for it.
  Result<Volume*> settled(const std::string& name, const Abandoned& abandoned, MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status configure_one(const VolumeSpec& spec, std::string* why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<ServerSession> make_session(const Volume& volume, const OpenRequest& request, PeerEnd peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `former`: who is to be fenced for it.
  Result<std::shared_ptr<ServerSession>> add_guest(Volume& volume, const OpenRequest& request, PeerEnd peer,
                                                   Sessions& former) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void fence_all(const Sessions& sessions, const Abandoned& abandoned) ABSL_LOCKS_EXCLUDED(mutex_);
  void fence_all(const Sessions& sessions) ABSL_LOCKS_EXCLUDED(mutex_) {
    fence_all(sessions, [] { return false; });
  }
  static bool begins_lease(const Volume& volume, const OpenRequest& request);
  // These let go of the mutex meanwhile. Precondition: the caller has set `changing`.
  // ECANCELED: as settled(). The lease is as it was, but victims may have been fenced.
  Status grant(Volume& volume, const OpenRequest& request, const Sessions& victims, const Abandoned& abandoned)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fences them, and takes those who have ended off the volume. ECANCELED: as settled().
  Status drive_out(Volume& volume, const Sessions& sessions, const Abandoned& abandoned)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status store_record(Volume& volume, bool sync) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Error no_volume(const OpenRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is left of one that goes, and nobody has to do with. If it fails the volume stays, as one that goes.
  Status erase(Volume& volume) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status erase_record(VolumeId id, const std::vector<Key>& keys) ABSL_LOCKS_EXCLUDED(mutex_);
  void end_change(Volume& volume) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Of administrators (volume_admin.cc). `answer` gets what they see of the volume.
  Status create(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Status resize(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Status remove(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Status list(const AdminRequest& request, AdminAnswer& answer) const ABSL_LOCKS_EXCLUDED(mutex_);
  Status list_clients(const AdminRequest& request, AdminAnswer& answer) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of keys (volume_keys.cc). These answer with those that the volume has.
  Status add_key(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Status remove_key(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Status list_keys(const AdminRequest& request, AdminAnswer& answer, const Abandoned& abandoned)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Status store_key(Volume& volume, uint32_t place, const VolumeKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Result<uint32_t> free_key_place() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::vector<KeyStatus> keys_in(const Volume& volume);
  template <typename Which>
  static Sessions sessions_that(const Volume& volume, const Which& which);
  Status check_may_go(const Volume& volume) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  VolumeStatus status_of(const Volume& volume) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  BlockStore& blocks_;
  VolumeRecords* const records_;
  const Session geometry_;
  const std::chrono::milliseconds grace_;
  const std::function<std::string()> medium_;
  std::atomic<uint16_t> tcp_port_{0};
  std::atomic<uint64_t> cut_off_silent_{0};
  std::atomic<uint64_t> cut_off_by_takers_{0};
  std::atomic<uint64_t> cut_off_by_removal_{0};  // of their volume, or of the key that they came by

  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  bool began_empty_ ABSL_GUARDED_BY(mutex_) = true;             // a new brick, or one that has forgotten everything
  std::map<VolumeId, Volume> volumes_ ABSL_GUARDED_BY(mutex_);  // at most limits::kVolumes; each stays while it changes
  std::map<std::string, Volume*, std::less<>> by_name_ ABSL_GUARDED_BY(mutex_);
  std::set<uint32_t> key_places_ ABSL_GUARDED_BY(mutex_);  // that are taken, in the records
  // Removed since the start, with their last epochs: at most kNamesRemembered.
  std::map<std::string, uint64_t, std::less<>> gone_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
