// SPDX-License-Identifier: Apache-2.0
// One place of a set: where the blocks of its groups are. Either one brick (SinglePlace), or replicas on several
// (Mirror). It has VolumeClient's calls, for the blocks of this place.
//
// Errors as VolumeClient. Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/base/interruption.h"
#include "transport/base/result.h"
#include "transport/volume/lent_bytes.h"
#include "transport/volume/readable_brick.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

class Place {
 public:
  virtual ~Place() = default;

  // The brick that is asked where any will do.
  virtual VolumeClient& first() const = 0;
  virtual Session session() const = 0;  // what is less where replicas differ
  virtual LinkState link_state() const = 0;
  virtual bool is_away() const = 0;  // calls would wait now, or fail
  virtual Status final_error() const = 0;
  virtual LatencyCounts counts(VolumeCall call) const = 0;  // of all bricks

  virtual Status alloc(BlockRange blocks) = 0;
  virtual Status free(BlockRange blocks) = 0;
  virtual Result<std::vector<BlockRange>> list() = 0;
  virtual Result<BrickStat> stat() = 0;
  virtual void map_ahead(BlockRange blocks) = 0;
  // The bricks that have room for no other block.
  virtual std::vector<std::string> full_bricks() = 0;

  // Bricks of which each shows all that has been written here to whoever reads it, as long as it is in the life that is
  // told. None: not now. Of replicas all that whoever takes the volume could go by.
  virtual std::vector<ReadableBrick> readable() = 0;

  virtual Status read(std::span<const Piece> pieces, const Interruption* by = nullptr) = 0;
  virtual Status write(std::span<const Piece> pieces, Stage stage, const Interruption* by = nullptr) = 0;
  virtual Status try_read(std::span<const Piece> pieces) = 0;
  virtual Status try_write(std::span<const Piece> pieces) = 0;

  // As VolumeSet's, of this place: all ranges and blocks are here, and `bricks` are what has been written to.
  virtual Status begin_lending(BlockRange blocks, ClientId to, const Interruption* by) = 0;
  virtual void end_lending(BlockRange blocks) = 0;
  virtual Status adopt(std::span<const LentRange> ranges, std::span<const ReadableBrick> bricks,
                       const std::shared_ptr<LentBytes>& bytes, const Interruption* by) = 0;
  virtual Status expel(ClientId client) = 0;

  virtual Status commit(const Interruption* by = nullptr) = 0;
  virtual bool is_clean() const = 0;
  virtual uint64_t uncommitted_bytes() const = 0;

  // False: the last client may have crashed and left replicas that differ. Until settle() nothing may be changed.
  virtual bool is_settled() const = 0;
  // It is only read, and is not settled in this mount.
  virtual void stay_unsettled() = 0;
  // Blocks that the last client has written and perhaps not committed, as they were when this was opened: a brick that
  // restarts meanwhile has none any more, and has lost them.
  virtual uint64_t suspect_blocks() const = 0;
  // Makes durable what the last client has written and perhaps not committed, whole blocks, stage after stage; replicas
  // become equal to the first one, stage after stage, too. So a crash on the way leaves each of them such as a crash
  // under that client could have left it. EIO: the brick of the first one has restarted since it was opened, and so
  // lost what had been read of it.
  virtual Status settle(std::span<const BlockRange> data, std::span<const BlockRange> journal,
                        std::span<const BlockRange> superblock) = 0;
  // Of place 0, on each replica (set_membership.h). When it is settled.
  virtual Status clear_torn_commit_record() = 0;

  virtual void give_up_silent(std::chrono::milliseconds silence) = 0;
  virtual void give_up_outage() = 0;
  virtual void interrupt() = 0;
  virtual void expect_no_restart() = 0;
  virtual void abandon() = 0;
  virtual Status close() = 0;
};

}  // namespace brickfs
