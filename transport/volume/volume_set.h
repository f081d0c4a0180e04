// SPDX-License-Identifier: Apache-2.0
// A volume on the bricks of its set: what the file system is built on. It has VolumeClient's interface and, for each
// place, a Place: of one VolumeClient, or of one for each replica (Mirror). A VolumeClient keeps what is a matter
// of one brick: sessions, boot ids, leases, fencing, handles, replay. A set of one passes everything through.
//
// Blocks are on the brick of their group (transport/volume/group.h). The members of a striped set are of one
// durability.
//
// **Commits.** Only place 0 has what refers to other bricks: journal, checkpoints, superblock. So a commit of place 0,
// whoever asks for it, first draws the line between what it covers and what comes later; then makes durable on all
// other places what was written there; then writes the commit record; then commits what is before the line. A commit of
// another place is of data alone, and needs no order.
//
// **A brick and the client crash together.** Place 0's memory then has a journal whose latest part refers to what
// another brick has lost. So the commit record says up to which transaction all is durable elsewhere, and in which
// boots of the other bricks: if one of them has another boot now, nothing behind that transaction is believed
// (trusted_position()).
//
// Errors and threads: as VolumeClient. An operation waits for the bricks that it touches, and no other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"
#include "transport/membership/map_keeper.h"
#include "transport/volume/commit_counter.h"
#include "transport/volume/group.h"
#include "transport/volume/local_keys.h"
#include "transport/volume/mirror.h"
#include "transport/volume/place.h"
#include "transport/volume/set_format.h"
#include "transport/volume/volume_access.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

struct CommitRecord;

// A brick by its name for people, an address, which is also kept in the member table.
struct SetBrick {
  std::string name;
  std::unique_ptr<Brick> brick;
};

// Why a set was not opened.
struct SetRefusal {
  size_t place = 0;  // the brick that it is about
  Holder holder;     // with EBUSY
  std::string why;   // one line that names the brick, unless the error alone says it all (Brick::open's)
};

class VolumeSet final : public VolumeAccess {
 public:
  // A set of one, whatever the brick may say of other places. Errors as VolumeClient::open.
  static Result<std::unique_ptr<VolumeSet>> open(std::unique_ptr<Brick> brick, VolumeOptions options, Holder* holder);
  // The bricks in the order of their places, which have to be all of the set's (EUCLEAN: they do not belong together).
  // A volume that holds nothing yet becomes a set of them. `grow`: so does one of fewer bricks, if those behind are
  // empty (docs/sets.md, "Growing"). What was opened is closed again on an error.
  static Result<std::unique_ptr<VolumeSet>> open(std::vector<SetBrick> bricks, const VolumeOptions& options, bool grow,
                                                 SetRefusal* refusal);
  // A replicated set, as its map says (docs/sets.md, "Copies"). `make`: the brick of a replica's source. Errors also as
  // MapStore's; EUCLEAN: the bricks and the map do not belong together; ENODATA: all copies of a place are lost.
  using BrickMaker = std::function<Result<std::unique_ptr<Brick>>(const std::string& source, std::string* why)>;
  static Result<std::unique_ptr<VolumeSet>> open(std::unique_ptr<MapStore> store, BrickMaker make,
                                                 const VolumeOptions& options, SetRefusal* refusal);
  ~VolumeSet() override;

  size_t places() const { return members_.size(); }
  bool is_striped() const { return members_.size() > 1; }
  size_t place_of(BlockAddress block) const { return is_striped() ? brickfs::place_of(group_of(raw(block))) : 0; }
  Place& member(size_t place) { return *members_[place]; }
  const Place& member(size_t place) const { return *members_[place]; }
  // Of a replicated set.
  const Mirror& mirror(size_t place) const { return *mirrors_[place]; }
  bool is_replicated() const { return keeper_ != nullptr; }
  const std::string& name_of(size_t place) const { return names_[place]; }
  // Replicated, and the client before did not let go of it: its copies may differ.
  bool is_unclean() const { return unclean_; }
  // Of a striped set.
  const SetId& id() const { return id_; }

  // Where others may read what has been written to a place (Place::readable()).
  std::vector<ReadableBrick> readable(size_t place) { return members_[place]->readable(); }

  // --- VolumeAccess
  LinkState link_state() const override;  // of the worst member
  bool is_away() const override;
  Status final_error() const override;
  Durability durability() const override { return session().durability; }
  LatencyCounts counts(VolumeCall call) const override;  // of all members together
  std::optional<KnownMap> known_map() const override;
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) override;
  void give_up_silent(std::chrono::milliseconds silence) override;
  void give_up_outage() override;
  void interrupt() override;

  // --- as VolumeClient. What adds up is the sum, what is said of one brick that of the worst or of place 0.
  Session session() const;
  Status alloc(BlockRange blocks);  // the blocks of one place
  Status free(BlockRange blocks);   // the same
  Result<std::vector<BlockRange>> list();
  Result<BrickStat> stat();
  void map_ahead(BlockRange blocks);
  // Why there is no room, in words: " (full: BRICK, ...)" with the bricks of a set that have none, or nothing.
  std::string name_full() const;

  Status read(std::span<const Piece> pieces, const Interruption* by = nullptr);
  Status write(std::span<const Piece> pieces, Stage stage, const Interruption* by = nullptr);
  Status try_read(std::span<const Piece> pieces);
  Status try_write(std::span<const Piece> pieces);

  // --- blocks that are lent to others, who write there themselves (transport/volume/lent_bytes.h)
  //
  // The sessions of the client `to` that follow this one may write from now on, until expel(). An id is of one
  // membership: what was under way in a former one could land, if it were admitted again. `blocks`: of one place, not
  // lent yet; not to be freed before end_lending(). EAGAIN: the place cannot lend them now; EOPNOTSUPP: it has an older
  // brick; EUSERS: it has let in as many as it can; else as write().
  Status begin_lending(BlockRange blocks, ClientId to, const Interruption* by);
  // Nobody who was lent them writes there any more.
  void end_lending(BlockRange blocks);
  // What was written there, and made visible, to the bricks of the places in `written` counts as written by write(), as
  // data: the next commit covers it, and a brick that restarts before gets it again from `bytes`, which are kept so
  // long. Of any number of places; each range is in one. EAGAIN: a brick of them is in another life, or others are
  // written to by now; it counts perhaps in part, and what is there may be anything. Else as write().
  Status adopt(std::span<const LentRange> ranges, std::span<const LentPlace> written, std::shared_ptr<LentBytes> bytes,
               const Interruption* by);
  // The client's sessions that follow this one have ended on all bricks: nothing that it wrote lands any more. Waits
  // for no brick that is away. An error: not everywhere yet; it is to be tried again.
  Status expel(ClientId client);

  Status commit();
  uint64_t uncommitted_bytes() const;
  // Of a replicated set whose last client may have crashed: until settle() nothing may be changed (Mirror::begin()).
  bool is_settled() const;
  // What the last client has written and perhaps not committed, of all places (Mirror::suspect_blocks()).
  uint64_t suspect_blocks() const;
  // Makes durable what the last client has written and perhaps not committed, whole blocks, stage after stage; copies
  // become equal with it (Mirror::settle()). EIO: a brick has restarted since it was opened, and lost of that what was
  // read.
  Status settle(std::span<const BlockRange> data, std::span<const BlockRange> journal,
                std::span<const BlockRange> superblock);

  // As Mirror: of a volume that is mounted to be read only, though the mount was not asked to.
  void stay_unsettled();
  // A reader's, of what a writer has not committed: it does not go on over a brick that restarts, with EIO.
  void expect_no_restart();
  Status close();

  // --- what the journal of the volume says and asks, of a striped durable set; of any other nothing comes of it
  // After a crash, before set_commit_position(): what is torn of the last holder's record goes, durably.
  Status clear_torn_commit_record();
  // From now on commits leave a record of `position`: what is in the journal up to it, and the data that this shows,
  // was written before the call. Null: no more.
  void set_commit_position(std::function<uint64_t()> position);
  // A brick has lost what was not committed there, while the journal has not: it is to be believed up to this
  // transaction. Nothing: all of it.
  std::optional<uint64_t> trusted_position() const { return trusted_position_; }

 private:
  VolumeSet() = default;
  class Joining;
  class Replicating;
  Status check_restarted(size_t place, const MemberId& replica, Brick& brick) const;
  Status note_made();
  bool wrote_record() const;
  void let_go();
  void start_threads();
  void fail_together();
  void stop_threads();
  void await_moves();
  Status settle_trust(const VolumeOptions& options, SetRefusal& refusal);
  Status count_commits(const std::optional<CommitRecord>& record, const VolumeOptions& options, SetRefusal& refusal);
  CommitCounter* counter_of(size_t place) const;
  Status check_count(size_t place, Brick& brick) const;
  Place& member_of(uint64_t address) const;
  bool is_one_place(std::span<const Piece> pieces, size_t* place) const;
  template <typename Call>
  Status on_each_place(std::span<const Piece> pieces, Call&& call);
  Status commit_others(const Interruption* by);
  // Of a replica of place 0, whose number of records `record_number` is.
  Status before_commit(VolumeClient& first, uint64_t& record_number, const Interruption* by);
  Status write_commit_record(VolumeClient& first, uint64_t& record_number, uint64_t position, const Interruption* by);

  // Fixed after open().
  std::vector<std::string> names_;
  SetId id_{};
  bool keeps_record_ = false;
  bool unclean_ = false;
  std::optional<uint64_t> trusted_position_;

  mutable Mutex mutex_;
  std::function<uint64_t()> position_ ABSL_GUARDED_BY(mutex_);
  // Of the commit records that copies of place 0 have: one is copied from another, and the highest is in force.
  uint64_t highest_record_ ABSL_GUARDED_BY(mutex_) = 0;
  bool wrote_record_ ABSL_GUARDED_BY(mutex_) = false;  // since it was opened
  // Of a durable set without copies, by place; none of the first.
  std::vector<std::unique_ptr<CommitCounter>> counters_ ABSL_GUARDED_BY(mutex_);

  // Of the commit under way, one at a time.
  uint64_t record_number_ = 0;  // of a set without copies

  LocalKeys keys_;  // with several bricks

  // Of a replicated set.
  std::unique_ptr<MapKeeper> keeper_;
  bool holds_map_ = false;
  std::atomic<uint64_t> copying_{0};  // how many places are being brought up to date (Mirror)

  // Behind what their threads use.
  std::vector<std::unique_ptr<Place>> members_;
  std::vector<Mirror*> mirrors_;  // the same, of a replicated set

  // Of a replicated set: watch() of all places, keep() and repair() of each.
  Mutex threads_mutex_;
  CondVar threads_stop_;
  bool stopping_ ABSL_GUARDED_BY(threads_mutex_) = false;
  std::vector<Thread> threads_;
};

}  // namespace brickfs
