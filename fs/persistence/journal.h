// SPDX-License-Identifier: Apache-2.0
// The journal: transactions in order, on a chain of blocks, written in batches by one committer thread (group commit).
// Format: docs/format.md, section "Journal". One batch is under way at a time; a batch verifies as a whole or not at
// all.
//
// written: on the brick (survives this client). durable: committed too (on a durable brick, survives the brick).
// The committer writes at once whatever waits, commits when somebody syncs, when the volume wants it, and soon after
// by itself.
//
// Threads: any. append() never waits; the rest may.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fs/base/ids.h"
#include "fs/base/wake_later.h"
#include "fs/inode/rows.h"
#include "fs/persistence/journal_reader.h"
#include "transport/base/interruption.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

class Space;

class Journal final : private WakeLater::Sleeper {
 public:
  // From the committer, must not wait.
  struct Hooks {
    std::function<void(Lsn)> on_durable;
    std::function<void()> on_block_added;  // the chain has grown: CheckpointThread::journal_grew
  };

  Journal(VolumeSet& volume, Space& space);
  ~Journal();  // without stop(): what is not written yet is lost, as in a crash
  // Goes on where read_journal() ended (or a new file system begins: `next` 1, `fresh` just allocated). `seed`:
  // Superblock::seed(). Takes a spare block from Space, which must have been started.
  Status start(uint64_t seed, const JournalEnd& end, Hooks hooks);

  // Before an operation takes any lock: waits while too much is pending, or the chain is beyond its limit. The
  // journal's error once it has failed (no space left for it), or the volume's (fenced, brick lost its data), whoever
  // met with that first: the file system is then read-only. EINTR.
  Status admit(const Interruption* by = nullptr);  // ENOSPC, too: all LSNs have been given
  bool admits() const;                             // it would neither wait nor fail
  // While holding the locks of all inodes that the rows are about, so that journal order is operation order.
  // At most limits::kTransactionBytes of rows; not empty. `later`: if the committer sleeps, it is woken up when
  // that goes; null: at once.
  Lsn append(const Transaction& transaction, WakeLater* later = nullptr);
  WakeLater::Sleeper& committer() { return *this; }
  // Everything before the call is durable: every append(), and all data written to the volume. An error that is not
  // also error() is a passing one (soft timeout, the brick's store is full): nothing is lost, a later sync may succeed.
  // EINTR: it becomes durable without the caller.
  Status sync(const Interruption* by = nullptr);
  // Everything appended before the call is written, or the error why not. EINTR.
  Status await_written(const Interruption* by = nullptr);
  Lsn last() const;  // highest appended
  Lsn written() const;
  Lsn durable() const;
  Status error() const;
  void want_commit();  // the volume's replay bound nears; does not wait

  // For a checkpoint. Ends the current block: all that is appended later goes to blocks behind the returned position.
  struct Position {
    Lsn next{};            // of the first transaction behind it
    BlockAddress block{};  // that begins with it
  };
  Result<Position> rotate();
  // The chain before `position` is not needed any more (the superblock says so, durably): its blocks are freed.
  Status drop_before(const Position& position);
  // A longer chain makes admit() wait for a checkpoint. No limit to begin with: UINT64_MAX.
  void set_chain_limit(uint64_t blocks);
  uint64_t chain_blocks() const;  // with the one being written, without the spare

  // Everything is durable (or the error why not); the committer has ended. Idempotent.
  Status stop();

 private:
  class Impl;
  void wake() override;

  std::unique_ptr<Impl> impl_;
};

}  // namespace brickfs
