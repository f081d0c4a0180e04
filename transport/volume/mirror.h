// SPDX-License-Identifier: Apache-2.0
// A place of a set with copies: its replicas, one VolumeClient each.
//
// * A write goes to all replicas that are in sync or syncing, in one posting, and is done when it is done on all.
//   Overlapping writes go one after the other (transport/volume/activity_log.h).
// * A read goes to the first replica in sync that is there. What it brought counts only if no other client can have
//   taken the volume over meanwhile: every replica that is in sync, or is so in the map perhaps, has been heard of
//   (Confirmation).
// * A replica that is away is waited for, a second long; then it is left out of the map, by a change that only the
//   holder can make, and the operation is done without it. The last replica in sync is never left out: it is waited
//   for (hard), or EIO (soft).
// * What a replica misses from then on is noted, so that it can be brought up to date (mirror_missed.cc,
//   mirror_repair.cc).
//
// Errors as VolumeClient. ESTALE from any replica in sync: another client has the volume; it is final.
// Threads: any. The set's threads call watch(), keep() and repair(), each by one. How a replica is changes by events
// alone (transport/volume/replica.h), whoever sees them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "transport/base/gate.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/membership/confirmation.h"
#include "transport/membership/map_keeper.h"
#include "transport/membership/set_map.h"
#include "transport/volume/activity_log.h"
#include "transport/volume/dirty_bitmap.h"
#include "transport/volume/group.h"
#include "transport/volume/kept_buffers.h"
#include "transport/volume/local_keys.h"
#include "transport/volume/place.h"
#include "transport/volume/replica.h"
#include "transport/volume/set_membership.h"
#include "transport/volume/staged_write.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

class Mirror final : public Place {
 public:
  // A replica that the map names, opened or not.
  struct Member {
    MapReplica entry;
    std::unique_ptr<VolumeClient> client;  // null: stale
    bool has_all = false;                  // stale, and has missed nothing yet
  };
  // Opens a replica's volume as this client. `steals`: also from another one, if the mount does. Errors as
  // VolumeClient::open and of what the source says.
  using OpenReplica = std::function<Result<std::unique_ptr<VolumeClient>>(const MapReplica&, bool steals, Holder*)>;
  // At least one is open; all that are open are equal, but where rows say otherwise (begin()). `copying`: how
  // many places are being brought up to date. `soft`: as in VolumeOptions. `writable`: false for readers, which change
  // nothing anywhere.
  Mirror(size_t place, MapKeeper& keeper, LocalKeys& keys, std::atomic<uint64_t>& copying, OpenReplica open_replica,
         std::vector<Member> members, std::optional<std::chrono::milliseconds> soft, bool writable);
  ~Mirror() override;

  // Before anything else. `unclean`: the last client may have crashed. Then replicas may differ in blocks with rows,
  // and in the lists of blocks, and all is read from the first one until settle(). Nothing may be changed before that;
  // the first one is waited for, and stays.
  Status begin(const SetId& set, bool unclean);
  // Those in sync that are there, by their sources: for readers, for whom they stay.
  std::vector<std::pair<std::string, VolumeClient*>> copies() const;
  // Those that are not there to be read or written, whatever the map says.
  std::vector<MemberId> absent() const;
  // All replicas in sync are equal and nothing is under way: what a holder that lets go can say.
  bool can_let_go() const;
  // Then: all of them get the map's generation, so that a store from before is known by its mark. False: one has gone.
  bool mark_last();
  // Into the map of a change: the marks that those in sync have. Whether it says so now, and did not before.
  bool tell_marks(SetMap& map) const;

  // --- Place
  VolumeClient& first() const override;
  Session session() const override;
  LinkState link_state() const override;
  bool is_away() const override;
  Status final_error() const override;
  LatencyCounts counts(VolumeCall call) const override;

  Status alloc(BlockRange blocks) override;
  Status free(BlockRange blocks) override;
  Result<std::vector<BlockRange>> list() override;
  Result<BrickStat> stat() override;
  void map_ahead(BlockRange blocks) override;
  std::vector<std::string> full_bricks() override;

  std::vector<ReadableBrick> readable() override;

  Status read(std::span<const Piece> pieces, const Interruption* by = nullptr) override;
  Status write(std::span<const Piece> pieces, Stage stage, const Interruption* by = nullptr) override;
  Status try_read(std::span<const Piece> pieces) override;
  Status try_write(std::span<const Piece> pieces) override;

  Status begin_lending(BlockRange blocks, ClientId to, const Interruption* by) override;
  void end_lending(BlockRange blocks) override;
  Status adopt(std::span<const LentRange> ranges, std::span<const ReadableBrick> bricks,
               const std::shared_ptr<LentBytes>& bytes, const Interruption* by) override;
  Status expel(ClientId client) override;

  Status commit(const Interruption* by = nullptr) override;
  bool is_clean() const override;
  uint64_t uncommitted_bytes() const override;

  bool is_settled() const override { return settled_.load(); }
  void stay_unsettled() override { stays_unsettled_ = true; }  // the first one is waited for
  uint64_t suspect_blocks() const override { return session().suspect_blocks; }
  Status settle(std::span<const BlockRange> data, std::span<const BlockRange> journal,
                std::span<const BlockRange> superblock) override;
  Status clear_torn_commit_record() override;

  void give_up_silent(std::chrono::milliseconds silence) override;
  void give_up_outage() override;
  void interrupt() override;
  void expect_no_restart() override;
  void abandon() override;
  Status close() override;

  // --- of a replicated place, by the set's threads
  // How replicas are: those that are there are confirmed, those that are not are to be left out. Waits for nobody.
  void watch();
  // Of readers: the map was as it was when they began, when it was last asked for. True: that is needed.
  bool wants_map() const { return !writable_ && (partial_ || !confirmation_.holds(std::chrono::seconds(3))); }
  void confirm(std::chrono::steady_clock::time_point asked);
  // Leaves out what is to be, tells the map of bricks that have restarted. Waits for the map, and for bricks that are
  // there.
  void keep();
  // Brings back one replica that is stale or new in the map, if one is due, or makes one block equal again. False:
  // nothing to do.
  bool repair();
  // Ends it soon, for good.
  void stop_repair();
  // A copy that is of the set no more is still here, and soon gives its blocks back.
  bool is_moving() const;
  // Another client has the volume: nothing is answered any more.
  void fail(const Status& status);

 private:
  using Clock = std::chrono::steady_clock;

  struct Replica {
    MapReplica entry;  // what it was opened as; its address and whether it leaves as the map says
    std::string name;  // for people: of the brick
    std::atomic<ReplicaPhase> phase{ReplicaPhase::kStale};  // raise()'s, with mutex_
    // Of one that is written; of another what is left of it. Changed with the gate closed.
    std::unique_ptr<VolumeClient> client;
    std::atomic<uint64_t> marked{0};  // as MapReplica's, and at least that
    // watch()'s
    std::optional<Clock::time_point> away_since;
    // repair()'s
    Clock::time_point retry_at{};
    std::chrono::milliseconds backoff{0};
    bool said = false;         // that it cannot be brought back now
    std::string told_trouble;  // the map says so, too
    // Guarded by mutex_.
    uint64_t changed_by = 0;  // the last generation of the map by which its phase changed
    BootId boot{};            // as the map knows it
    bool missed_all = true;   // nothing is known of what it has
    BlockSet missed;          // what it has is old there
    uint64_t noted = 0;       // the map says that the bitmap with this number has what it misses
    std::optional<Clock::time_point> out_at;
    std::chrono::milliseconds rest{0};  // from then on, before it is brought back
  };
  using Targets = absl::InlinedVector<Replica*, 4>;

  static bool is_written(const Replica& replica) { return brickfs::is_written(replica.phase.load()); }
  static bool has_everything(const Replica& replica) { return brickfs::has_everything(replica.phase.load()); }
  static bool may_be_believed(const Replica& replica) { return brickfs::may_be_believed(replica.phase.load()); }
  // `generation`: of the map, if that is what says so, or what was made durable for it.
  void raise(Replica& replica, ReplicaEvent event, uint64_t generation = 0);
  void note_left_out(Replica& replica) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Targets written() const;
  Replica* first_in_sync(bool connected) const;
  Replica* to_read() const;  // the one that a read asks
  void give_up_first(Clock::time_point now);
  void watch(Replica& replica, LinkState::Kind link, Clock::time_point now);
  void watch_joining(Clock::time_point now);
  Status await_confirmed(const Interruption* by);
  // `call` on replicas until all are done or out; what it answered on the others.
  template <typename Call>
  Status on_all(const Targets& targets, Call&& call, const Interruption* by);
  Status judge(const Targets& targets, std::vector<Status>& statuses, const Interruption* by);
  Status await_out(Replica& replica, const Status& status, const Interruption* by);
  // In sync, as far as is known, so that this one can be left out: now, if it `is_there`, else when it is back.
  bool has_another(const Replica& replica, bool is_there) const;
  // A write on its way to all of `targets`, within the gate.
  class Copies {
   public:
    Copies(Mirror& mirror, const Targets& targets, std::span<const Piece> pieces);
    void try_write(Stage stage);
    std::span<const VolumeClient::Copy> all() const { return copies_; }
    const StagedWrite& staged() const { return staged_; }

   private:
    const StagedWrite staged_;
    absl::InlinedVector<VolumeClient::Copy, 4> copies_;
  };
  Status write_claimed(const Targets& targets, std::span<const Piece> pieces, Stage stage, const Interruption* by);
  Status write_rows(std::span<const ActivityLog::Row> rows, const Interruption* by);
  Status failure() const;
  std::optional<LinkState> waiting_for_map() const;

  // mirror_lending.cc
  class CopiedBytes;
  Status read_from_another(const VolumeClient& than, uint64_t address, std::span<std::byte> into) const;
  bool is_as_told(const Targets& targets, std::span<const ReadableBrick> bricks,
                  std::span<const LentRange> ranges) const;
  Status adopt_claimed(std::span<const LentRange> ranges, std::span<const ReadableBrick> bricks,
                       const std::shared_ptr<LentBytes>& bytes, const Interruption* by);
  void note_copied(BlockAddress block);
  Status admit_writers(VolumeClient& client);

  // mirror_missed.cc
  bool all_in_sync() const;
  bool are_noted(std::span<const Piece> pieces) const;
  Status note_missed(std::span<const Piece> pieces, const Interruption* by);
  Status note_missed(std::span<const BlockRange> blocks, const Interruption* by);
  Status try_note_missed(std::span<const Piece> pieces);
  std::shared_ptr<DirtyBitmap> add_missed(std::span<const BlockRange> blocks);
  void note_later(std::span<const BlockRange> blocks);
  void note_diverged(std::span<const Piece> pieces);
  void note_diverged(std::span<const BlockRange> blocks);
  DirtyBitmap::Write note_writer();
  Status write_bitmap(VolumeClient& client);
  Status read_bitmap();
  void take_rows_as_missed(const BlockSet& rows);
  std::shared_ptr<DirtyBitmap> present_bitmap() const;
  bool is_to_be_noted(const Replica& replica) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool wants_bitmap();
  Result<bool> keep_bitmap();
  Status tell_noted(const std::vector<Replica*>& noted, uint64_t number);

  // mirror_repair.cc
  using Stages = std::array<BlockSet, kStages>;
  Status resync_replica(VolumeClient& source, const Replica& replica, const Stages& stages);
  Status make_equal(const Stages& stages);
  Status resync_others(const Replica& source, const Stages& stages);
  Status expect_boot(const Replica& replica) const;
  Status clear_activity_log();
  bool become_settled();
  Status write_mark(VolumeClient& client, const MapReplica& entry, uint64_t generation);
  Status mark(Replica& replica);
  bool mark_remaining() ABSL_EXCLUSIVE_LOCKS_REQUIRED(leaving_out_);
  Status mark_at_once(Replica& replica, VolumeClient& client, uint64_t generation);
  Status write_mark_at_once(Replica& replica, VolumeClient& client, uint64_t generation);
  void mark_restarted(Replica& replica, VolumeClient& client);
  Result<std::optional<ReplicaMark>> own_mark(VolumeClient& client, const MapReplica& entry,
                                              std::span<const BlockRange> listed) const;
  bool has_missed_all(const Replica& replica, const std::optional<ReplicaMark>& mark, const Session& session);
  Result<bool> has_lost_blocks(const Replica& replica, VolumeClient& client);
  Status write_activity_log(VolumeClient& client, const std::vector<uint64_t>& rows) const;
  void leave_out();
  void follow_map() ABSL_EXCLUSIVE_LOCKS_REQUIRED(leaving_out_);
  void see_losses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(leaving_out_);
  void ask_map_to_leave_out() ABSL_EXCLUSIVE_LOCKS_REQUIRED(leaving_out_);
  void mark_and_leave_out() ABSL_EXCLUSIVE_LOCKS_REQUIRED(leaving_out_);
  void forget_in_map() ABSL_EXCLUSIVE_LOCKS_REQUIRED(leaving_out_);
  void tell_restarts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(leaving_out_);
  bool leave_out_of(SetMap& map, const Replica& replica, const Targets& leaving) const;
  void wait_for_map(const Replica& replica);
  void stop_waiting_for_map();
  bool take_back_another(SetMap& map, const Targets& leaving) const;
  void set_joining(VolumeClient* client);
  void end_former(Replica& replica);
  Status bring_back(Replica& replica);
  Result<uint64_t> change_entry(const Replica& replica, const std::function<bool(MapReplica&)>& edit);
  Result<uint64_t> bring_in_sync(Replica& replica, const BlockSet& to_copy, const Session& begun);
  Status bring_up(Replica& replica, std::unique_ptr<VolumeClient>& client);
  Status begin_with_mark(VolumeClient& client, const MapReplica& entry);
  Status admit(Replica& replica, std::unique_ptr<VolumeClient>& client, BlockSet& to_copy, uint64_t generation);
  void adopt_map(const SetMap& map);
  void adopt_source(Replica& replica, const MapReplica& entry);
  bool has_successors(const SetMap& map) const;
  bool drop_leaving();
  bool is_dismissed(const SetMap& map, const Replica& replica) const;
  void let_go(Replica& replica);
  bool is_here(const MemberId& id, bool (*what)(const Replica&)) const;
  void drop(const MemberId& id);
  static void give_all_back(const Replica& replica);
  MapReplica* find(SetMap& map, const MemberId& id) const;
  const MapReplica* find(const SetMap& map, const MemberId& id) const;
  BootId boot_of(const Replica& replica) const;
  using Clients = absl::InlinedVector<std::pair<Replica*, VolumeClient*>, 4>;
  Clients clients_of(bool (*of)(ReplicaPhase)) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(leaving_out_);
  Status copy_held(Replica& replica, const BlockSet& blocks, const BootId& boot);
  void rest_from_copying(Clock::duration block_took);
  void tell_progress(const Replica& replica, uint64_t copied, uint64_t total);
  void tell_trouble(Replica& replica, std::string why);
  static Status make_alike(VolumeClient& source, VolumeClient& target, BlockSet& to_copy);
  Status copy_block(VolumeClient& source, VolumeClient& target, BlockAddress block) const;
  static Status copy_bytes(VolumeClient& source, VolumeClient& target, uint64_t address, uint64_t length, Stage stage);
  bool repair_diverged();
  BlockAddress first_block() const { return first_block_of(place_).start; }

  const size_t place_;
  MapKeeper* const keeper_;
  LocalKeys* const keys_;
  std::atomic<uint64_t>* const copying_;
  const OpenReplica open_replica_;
  const std::optional<std::chrono::milliseconds> soft_;
  const bool writable_;
  bool partial_ = false;  // some replica in sync was not there from the beginning
  SetId set_{};
  std::atomic<bool> settled_{true};
  std::atomic<bool> stays_unsettled_{false};
  BlockSet touched_;        // until it is: where replicas may differ
  uint64_t marked_at_ = 0;  // and the generation that the marks have at least

  Gate gate_;  // operations are within; closed to change who takes part
  // The same for what looks at replicas from outside of the gate. Behind the gate in order.
  mutable SharedMutex roster_mutex_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::unique_ptr<Replica>> dropped_;  // of the set no more; somebody may be looking at them
  ActivityLog activity_log_;
  Confirmation confirmation_;
  std::atomic<uint64_t> operations_{0};  // of the foreground, for repair() to leave it its share
  std::atomic<bool> closing_{false};
  std::atomic<bool> no_repair_{false};
  Interruption repair_stopped_;

  // Who leaves replicas out, one at a time: it waits for the map, and for what bricks answer that are there. Behind the
  // gate in order, before the roster.
  Mutex leaving_out_;
  std::atomic<bool> marks_{false};                       // it is waiting for bricks to have a mark
  uint64_t followed_ ABSL_GUARDED_BY(leaving_out_) = 0;  // the generation of which the replicas have heard

  mutable Mutex mutex_;
  CondVar changed_;  // somebody is out, confirmed, or all has failed
  Status failed_ ABSL_GUARDED_BY(mutex_);
  uint64_t left_out_at_ ABSL_GUARDED_BY(mutex_) = 0;             // the generation by which one was left out last
  BlockSet diverged_ ABSL_GUARDED_BY(mutex_);                    // a write was given up: the first replica's bytes hold
  std::shared_ptr<DirtyBitmap> bitmap_ ABSL_GUARDED_BY(mutex_);  // null: nobody has missed anything that is known
  BlockSet unnoted_ ABSL_GUARDED_BY(mutex_);                     // could not be noted, and is one of diverged_
  absl::flat_hash_set<ClientId> writers_ ABSL_GUARDED_BY(mutex_);  // that blocks were lent to
  BlockSet met_copies_ ABSL_GUARDED_BY(mutex_);                    // lent, and one replica was copied to another there
  VolumeClient* joining_ ABSL_GUARDED_BY(mutex_) = nullptr;        // repair()'s, not yet of those that are watched
  std::optional<Clock::time_point> joining_away_since_ ABSL_GUARDED_BY(mutex_);
  // Of a copy that is dropped, while it gives its blocks back.
  VolumeClient* leaving_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // One that is away cannot be left out, as the map cannot be changed: its operations wait for that. It may still be
  // read, so that what the keeper says of it comes and goes.
  struct WaitForMap {
    std::string replica;
    std::string why;
    Clock::time_point since;
  };
  std::optional<WaitForMap> waits_for_map_ ABSL_GUARDED_BY(mutex_);

  // What is written to several replicas is in.
  const std::shared_ptr<KeptBuffers> buffers_ =
      KeptBuffers::make([this](std::span<std::byte> memory) { return keys_->add(memory, place_); });
};

}  // namespace brickfs
