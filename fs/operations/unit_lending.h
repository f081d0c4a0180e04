// SPDX-License-Identifier: Apache-2.0
// Units of the volume that members of a shared one fill on the bricks themselves. They are lent to them: in use, in no
// file, in no row of the journal or a checkpoint, and free for whoever has the volume after this process. Filled ones
// become a file's content by FileOperations::write_units(); all others are taken back.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fs/base/ids.h"
#include "transport/base/interruption.h"
#include "transport/base/result.h"
#include "transport/brick/calls.h"
#include "transport/volume/lent_bytes.h"
#include "transport/volume/readable_brick.h"

namespace brickfs {

// A range of a file, and the lent units that have been written to be it: its bytes, and zeros up to the end of the last
// unit.
struct FilledRange {
  uint64_t offset = 0;        // a multiple of kUnitBytes; of appends: not looked at
  uint64_t length_bytes = 0;  // ends at a multiple of it, or where the file is to end
  bool appends = false;
  bool mapped = false;                    // as of FileOperations::write()
  std::span<const UnitRun> runs;          // in the order of the file, each within a block
  std::span<const LentPlace> written;     // of each place that they are in: which bricks, in which life
  std::shared_ptr<LentBytes> bytes = {};  // what was written, until it is committed
};

constexpr size_t kMostFilledRuns = 64;  // of one range: it is one transaction

class UnitLending {
 public:
  virtual ~UnitLending() = default;

  // At most so many blocks, whole, one run each, which this client may write to from now on; none, if there is little
  // room, or nothing is ahead, or a brick is older than that.
  virtual std::vector<UnitRun> lend_units(uint64_t blocks, ClientId client, const Interruption* by) = 0;
  // Lent units that nobody writes to any more: where there are copies, which may differ, zeros are written to them.
  // Errors as of a write.
  virtual Status clear_units(std::span<const UnitRun> runs, const Interruption* by) = 0;
  // Nothing of a block that was lent is lent any more. Before its last units are free.
  virtual void end_lending(UnitRun block) = 0;
  virtual void free_units(std::span<const UnitRun> runs) = 0;
  // The client has access to no brick of the volume any more, and none of its transfers is under way. Waits for no
  // brick that is away. An error: it is not known of all.
  virtual Status expel_client(ClientId client) = 0;
  // The bricks of each place that who fills units writes to, as LentPlace has them; none of a place: not now.
  virtual std::vector<LentPlace> writable_places() const = 0;
  virtual uint64_t lent_units() const = 0;
  // Called by who is short of room, with no lock held: has unused units given back, and waits a while for that. Null:
  // nobody is asked.
  virtual void ask_back_by(std::function<void(const Interruption* by)> ask_back) = 0;
};

}  // namespace brickfs
