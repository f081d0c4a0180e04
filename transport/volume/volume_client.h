// SPDX-License-Identifier: Apache-2.0
// A client's view of one volume, by volume address, over a Brick whose session may come and go. It maps blocks on
// demand and keeps their handles, reconnects, and replays what was written but not committed when the brick has
// restarted. What the file system is built on: to it the volume is memory that is sometimes slow.
//
// Replay (durable bricks whose life is not this process's): bytes are kept from the completion of a write until a
// commit covers them. On a new boot id: free what was freed and allocate what was allocated since the last commit, as
// the comparison with list() shows; write the kept bytes again in their order; only then let waiting calls go on.
//
// Errors of every call: EIO (soft timeout passed; or the brick lost its data: a volatile one with a new boot id),
// ESTALE (fenced), ECANCELED (interrupt()). Such an end is final for EIO by data loss, ESTALE and ECANCELED. With
// `hard`, calls otherwise wait.
//
// Threads: every call from any thread at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/limits.h"
#include "transport/volume/commit_group.h"
#include "transport/volume/handle_cache.h"
#include "transport/volume/link_state.h"
#include "transport/volume/local_keys.h"
#include "transport/volume/piece.h"
#include "transport/volume/replay_log.h"
#include "transport/volume/stage.h"
#include "transport/volume/volume_counters.h"
#include "transport/volume/volume_link.h"

namespace brickfs {

struct VolumeOptions {
  OpenRequest open;
  bool embedded = false;      // brick and client die together: keep nothing for replay
  bool accept_older = false;  // of a set: a place of which there is no brick that is not older than it was
  bool is_copy = false;       // that it is removed is a loss (EIO), and not the end of it all (ESTALE)
  std::optional<std::chrono::milliseconds> soft;  // give up after this; none: hard
  uint64_t replay_bytes = limits::kReplayBytes;
  std::string name;  // begins what the log says of the brick: "tcp://b:20470: ", or nothing where there is one only
  // The kept bytes have passed half of their bound: commit soon, or writers will wait, and then commit
  // themselves. Called from a writer; must not block.
  std::function<void()> on_commit_wanted;
  // One brick of several: what a commit makes durable here refers to what is on others. Called by every commit, whoever
  // asked for it, once what it covers has been told from what comes later; returns when all that this refers to is
  // durable elsewhere. It may write_with_commit(). Its error is the commit's. Null: refers to nothing elsewhere.
  std::function<Status(const Interruption* by)> before_commit;
  // A commit has ended, and what was written with it is durable. Null: nobody wants to know.
  std::function<void()> after_commit;
  // As before_commit for a brick that is being brought up to date after a restart, when some of that must become
  // durable to go on. Called by the link's thread, which must not be waited for in it.
  std::function<Status()> before_replay_commit;
  // Of a durable brick that has restarted, before anything is done there: ENODATA, it is not what it was. Null: it is.
  std::function<Status(Brick&)> check_restarted;
};

class BlockLedger;
class TransferRound;

class VolumeClient final {
 public:
  // Opens the session (errors as Brick::open; `holder` too).
  static Result<std::unique_ptr<VolumeClient>> open(std::unique_ptr<Brick> brick, VolumeOptions options,
                                                    Holder* holder);
  ~VolumeClient();  // without close(): as if the process had crashed

  Session session() const;
  BootId boot() const { return link_->boot(); }  // session()'s
  LinkState link_state(Asking asking = Asking::kYes) const;
  // Brick::known_at(): this client has had the lease since, if the brick has it.
  std::chrono::steady_clock::time_point known_at() const { return link_->known_at(); }
  bool is_away() const { return link_->is_away(); }  // calls would wait now, or fail
  const VolumeCounters& counters() const { return counters_; }
  // What every call fails with, once the end is final. Does not wait, nor ask the brick.
  Status final_error() const;

  // ENOSPC, EDQUOT, EEXIST as the brick answers. Ranges of any count: split into calls here.
  Status alloc(BlockRange blocks);
  Status free(BlockRange blocks);
  // All that there is, by a client that goes. Nothing is committed before, which could wait for others: of what is not
  // committed nobody wants anything any more.
  Status free_all();
  Result<std::vector<BlockRange>> list();  // all of it, ascending, maximal runs
  Result<BrickStat> stat();
  // Maps for writing what is not yet, so that later writes need no control call. Best effort.
  void map_ahead(BlockRange blocks);

  // Block until all pieces are done. Pieces of one call are posted together and may land in any order.
  // EINTR: interrupted while the brick did not answer; of bytes being written nothing is known.
  Status read(std::span<const Piece> pieces, const Interruption* by = nullptr);
  // `staged`: whose memory the pieces are, if that is so; else it must not change until they are done.
  Status write(std::span<const Piece> pieces, Stage stage, const Interruption* by = nullptr,
               const StagedWrite* staged = nullptr);
  // The same (of data) if it can be done at once: with nothing waited for but the brick's answers, and nothing tried
  // again. Else an error: the session is away or has just been lost, no room is left, a handle was refused, it is too
  // much. Bytes to be written are then undefined.
  Status try_read(std::span<const Piece> pieces);
  Status try_write(std::span<const Piece> pieces);
  // The same write on several volumes: posted on each before any is waited for, where that can be done at once.
  struct Copy {
    VolumeClient* volume;
    Status status{};      // the answer. EAGAIN: it was not done at once (try_write)
    bool posted = false;  // else nothing of it has reached the brick
  };
  static constexpr size_t kMostCopies = 2 * limits::kReplicas;
  static void try_write_all(std::span<Copy> copies, const StagedWrite& staged, Stage stage);

  // Every write(), alloc() and free() that had returned before the call is durable (on a volatile brick: visible to
  // whoever mounts next), stage by stage. EIO, ENOSPC from the brick's store: nothing is forgotten, a later commit
  // tries again.
  Status commit(const Interruption* by = nullptr);
  // Nothing was written, allocated or freed that a commit has not covered. False where this is not known.
  bool is_clean() const;
  // Within before_commit(): of the commit under way, not of the next one. ENOMEM, to be returned from there: the commit
  // makes room, and asks again.
  Status write_with_commit(const Piece& piece, Stage stage, const Interruption* by);
  // Kept for replay: what was written and is not committed, and what goes with it. 0 where nothing is kept.
  uint64_t uncommitted_bytes() const;
  // Of a durable brick: the blocks that may differ from what it has written or allocated here, if it restarts now and
  // nothing is written to it again.
  BlockSet uncommitted_blocks() const;
  // commit() of whole blocks whoever wrote them, stage after stage: what a new holder does about suspect blocks.
  Status commit_blocks(std::span<const BlockRange> data, std::span<const BlockRange> journal,
                       std::span<const BlockRange> superblock);
  // The same of some bytes, which nothing else has to be before.
  Status commit_bytes(uint64_t address, uint64_t length_bytes);
  // The same with nothing waited for but the brick's answer. EAGAIN: the session is away, or has just been lost.
  Status try_commit_bytes(uint64_t address, uint64_t length_bytes);

  // --- what others write here (transport/volume/lent_bytes.h)
  // `client` may follow and write until it is expelled, also when the session is another or the brick has restarted.
  // EUSERS, EOPNOTSUPP as calls::Admit.
  Status admit(ClientId client, const Interruption* by = nullptr);
  // As calls::Expel, at once. EAGAIN, EIO: the brick is away, or has just gone; it is to be tried again.
  Status expel(ClientId client);
  // The ranges, which another has written to the brick in this boot and lease, count as written here from now on.
  // EAGAIN: it is in another; nothing is adopted. Else as write().
  Status adopt(std::span<const LentRange> ranges, BootId boot, Epoch epoch, const std::shared_ptr<LentBytes>& bytes,
               const Interruption* by);

  // As Brick::make_visible(), at once: ENOTCONN.
  Status make_visible();

  Result<RegisteredMemory> register_memory(std::span<std::byte> memory);
  // The keys that pieces carry from now on are the volume's, of which this is one brick. Before others use this.
  void share_keys(LocalKeys& keys, size_t place);

  // As VolumeLink::give_up_silent(): for interrupted calls, which wait for the brick's answer.
  void give_up_silent(std::chrono::milliseconds silence) { link_->give_up_silent(silence); }
  // While the brick is away: every waiting and later call fails as after a soft timeout, until it is back. Otherwise
  // nothing.
  void give_up_outage() { link_->give_up_outage(); }
  // Every waiting and later call fails with ECANCELED; for forced unmounts. Idempotent.
  void interrupt(bool uncommitted_matters = true);
  void expect_no_restart() { link_->expect_no_restart(); }  // as VolumeLink
  // Before the destructor, if another's thread may be waiting in a call: it ends with ECANCELED.
  void abandon() { link_->abandon(); }
  // Gives the lease up. Commit before. Every later call is ECANCELED.
  Status close();

 private:
  VolumeClient(std::unique_ptr<Brick> brick, VolumeOptions options);
  Status begin(Holder* holder);
  bool tracks_blocks() const;

  // Does `call` within a session, again in the next one when it is lost meanwhile.
  template <typename Call>
  auto in_session(Patience& patience, Call&& call) -> decltype(call(std::declval<Brick&>()));
  Status alloc_once(BlockRange blocks, Patience& patience);
  // `committed`: the generation up to which writes do not keep a handle, as HandleCache::retire().
  Status free_parts(BlockRange blocks, Patience& patience, std::optional<uint64_t> committed = std::nullopt);
  Status free_once(BlockRange blocks, Patience& patience, std::optional<uint64_t> committed);
  Status restore(Brick& brick, bool restarted);

  // volume_data.cc
  Status write(TransferRound& round, Stage stage, Patience& patience);
  enum class Shortage { kMakeRoom, kTell };  // what follows from ENOMEM
  Status transfer(TransferRound& round, Stage stage, ReplayLog::Room& room, Patience& patience,
                  Shortage shortage = Shortage::kMakeRoom);
  Status transfer_at_once(TransferRound& round, ReplayLog::Room& room);
  struct Posted;
  Status post_at_once(Posted& write, Stage stage);
  Status finish(Posted& write);
  void check_session(const VolumeLink::Guard& guard);
  void drop_handles(const VolumeLink::Guard& guard, const BlockSet& blocks);
  Status gather(const VolumeLink::Guard& guard, TransferRound& round);
  Result<HandleCache::Lease> map(const VolumeLink::Guard& guard, BlockAddress block, uint64_t most, Access access);
  Status post(const VolumeLink::Guard& guard, TransferRound& round, Stage stage, ReplayLog::Room& room);
  Result<ReplayLog::Room> reserve(uint64_t bytes, Stage stage, Patience& patience);
  Status make_room(Patience& patience);
  Result<bool> unmap_cold(uint64_t blocks, bool writable, Patience& patience);
  bool bounds_writable() const { return log_->keep() == ReplayLog::Keep::kBytes || options_.open.writes; }
  void bound_writable(Patience& patience);
  void bound_followed(Patience& patience);
  Status run_commit(const Interruption* by);
  Status prepare_commit(const Interruption* by);
  Status commit_turned_over(Patience& patience);

  Status admit_again(Brick& brick);

  const VolumeOptions options_;
  VolumeCounters counters_;
  std::atomic<bool> bounding_{false};
  uint64_t most_followed_ = UINT64_MAX;  // blocks that one who follows keeps mapped. Fixed by begin()
  CommitGroup commits_;
  std::unique_ptr<BlockLedger> ledger_;
  std::unique_ptr<HandleCache> handles_;
  std::unique_ptr<ReplayLog> log_;
  std::unique_ptr<VolumeLink> link_;  // its thread uses the others
  LocalKeys::Own keys_;

  Mutex admitted_mutex_;  // leaf
  CondVar admitting_changed_;
  absl::flat_hash_set<ClientId> admitted_ ABSL_GUARDED_BY(admitted_mutex_);
  absl::flat_hash_set<ClientId> admitting_ ABSL_GUARDED_BY(admitted_mutex_);  // of those: the brick is being asked
};

}  // namespace brickfs
