// SPDX-License-Identifier: Apache-2.0
// Locks on ranges of files: reads share, writes and changes of layout (truncate, punch ...) exclude. Held across the
// network wait of a data operation, so that nobody frees units that a transfer is still on, and no two writes
// allocate the same hole. A logical lock, not a mutex: may be given back from any thread.
// Fair: who waits blocks later overlapping requests. Ranges are in file units; all of a file: [0, UINT64_MAX).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "fs/base/ids.h"
#include "transport/base/interruption.h"
#include "transport/base/result.h"

namespace brickfs {

class RangeLocks {
 public:
  enum class Mode { kShared, kExclusive };

  // Given back on destruction.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    ~Hold();

   private:
    friend class RangeLocks;
    RangeLocks* locks_ = nullptr;
    Ino ino_{};
    uint64_t id_ = 0;
  };

  RangeLocks();
  ~RangeLocks();
  // Waits. Before any inode lock is taken. For two files: the lower number first.
  Hold lock(Ino ino, uint64_t first_unit, uint64_t end_unit, Mode mode);
  Result<Hold> lock(Ino ino, uint64_t first_unit, uint64_t end_unit, Mode mode, const Interruption* by);  // EINTR
  // Nothing: it would have to wait.
  std::optional<Hold> try_lock(Ino ino, uint64_t first_unit, uint64_t end_unit, Mode mode);

 private:
  struct Shard;
  void unlock(Ino ino, uint64_t id);
  std::unique_ptr<Shard[]> shards_;
};

}  // namespace brickfs
