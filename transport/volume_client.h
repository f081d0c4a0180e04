// SPDX-License-Identifier: Apache-2.0
// A client's view of one volume, by volume address, over a Brick whose session may come and go. It maps blocks on demand
// and keeps their handles, reconnects, and replays what was written but not committed when the brick has restarted. What
// the file system is built on: to it the volume is memory that is sometimes slow.
//
// Replay (durable bricks whose life is not this process's): bytes are kept from the completion of a write until a
// commit covers them. On a new boot id: free what was freed and allocate what was allocated since the last commit, as the
// comparison with list() shows; write the kept bytes again in their order; only then let waiting calls go on.
//
// Errors of every call: EIO (soft timeout passed; or the brick lost its data: a volatile one with a new boot id), ESTALE (fenced),
// ECANCELED (interrupt()). Such an end is final for EIO by data loss, ESTALE and ECANCELED. With `hard`, calls otherwise wait.
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

#include "transport/base/result.h"
#include "transport/brick.h"
#include "transport/limits.h"

namespace brickfs {

// What a write is part of; a commit makes stages durable in this order, so that what refers never outlives what it refers to.
enum class Stage : uint8_t { kData = 0, kJournal = 1, kSuperblock = 2 };

struct VolumeOptions {
  OpenRequest open;
  bool embedded = false;                 // brick and client die together: keep nothing for replay
  std::optional<std::chrono::milliseconds> soft;  // give up after this; none: hard
  uint64_t replay_bytes = limits::kReplayBytes;
  // The kept bytes have passed half of their bound: commit soon, or writers will wait. Called from a writer; must not block.
  std::function<void()> on_commit_wanted;
};

// `local` of a piece has any number of slices; the volume splits at blocks, handles and transfer limits.
struct Piece {
  uint64_t address = 0;               // volume address
  std::vector<LocalSlice> local;      // their total is the length; every touched block is allocated
};

struct LinkState {
  enum class Kind { kConnected, kWaiting, kFailed } kind = Kind::kConnected;
  Error error{0};                     // why, unless connected
  std::string text;                   // for people
};

class VolumeClient {
 public:
  // Opens the session (errors as Brick::open; `holder` too).
  static Result<std::unique_ptr<VolumeClient>> open(std::unique_ptr<Brick> brick, VolumeOptions options, Holder* holder);
  virtual ~VolumeClient() = default;   // without close(): as if the process had crashed

  virtual Session session() const = 0;
  virtual LinkState link_state() const = 0;

  // ENOSPC, EDQUOT, EEXIST as the brick answers. Ranges of any count: split into calls here.
  virtual Status alloc(BlockRange blocks) = 0;
  virtual Status free(BlockRange blocks) = 0;
  virtual Result<std::vector<BlockRange>> list() = 0;   // all of it, ascending, maximal runs
  virtual Result<BrickStat> stat() = 0;
  // Maps for writing what is not yet, so that later writes need no control call. Best effort.
  virtual void map_ahead(BlockRange blocks) = 0;

  // Block until all pieces are done. Pieces of one call are posted together and may land in any order.
  virtual Status read(std::span<const Piece> pieces) = 0;
  virtual Status write(std::span<const Piece> pieces, Stage stage) = 0;

  // Every write(), alloc() and free() that had returned before the call is durable (on a volatile brick: visible to
  // whoever mounts next), stage by stage. EIO, ENOSPC from the brick's store: nothing is forgotten, a later commit tries again.
  virtual Status commit() = 0;
  // commit() of whole blocks whoever wrote them, stage after stage: what a new holder does about suspect blocks.
  virtual Status commit_blocks(std::span<const BlockRange> data, std::span<const BlockRange> journal,
                               std::span<const BlockRange> superblock) = 0;

  virtual Result<RegisteredMemory> register_memory(std::span<std::byte> memory) = 0;

  // Every waiting and later call fails with ECANCELED; for forced unmounts. Idempotent.
  virtual void interrupt() = 0;
  // Gives the lease up. Commit before. Every later call is ECANCELED.
  virtual Status close() = 0;
};

}  // namespace brickfs
