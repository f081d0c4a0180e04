// SPDX-License-Identifier: Apache-2.0
// Brings a restarted durable brick to what its client knows to be there: the blocks, then the bytes that were
// written and not committed, also those that others keep (LentBytes; zeros for what they keep no more). Runs alone: no
// call is under way, no write waits half done. May be begun again at any point.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/volume/block_ledger.h"
#include "transport/volume/handle_cache.h"
#include "transport/volume/replay_log.h"

namespace brickfs {

class Replay {
 public:
  // `before_commit` (may be null): makes durable on other bricks what the bytes refer to; called before any of them may
  // become durable here.
  Replay(Brick& brick, ReplayLog& log, HandleCache& handles, BlockLedger& ledger, std::function<Status()> before_commit)
      : brick_(brick), log_(log), handles_(handles), ledger_(ledger), before_commit_(std::move(before_commit)) {}

  // ENODATA: committed blocks are missing. Else as the brick's calls answer.
  Status run();

 private:
  using Records = std::span<const ReplayLog::Record* const>;

  Status repair_blocks();
  Status rewrite(Records records);
  Status add(const ReplayLog::Record& record, Records before);
  Result<HandleCache::Lease> map(BlockAddress block, Records before);
  Status empty_memory(Records before);
  std::shared_ptr<std::byte> bytes_of(const ReplayLog::Record& record);
  Status flush();
  bool overlaps(const ReplayLog::Record& record) const;

  Brick& brick_;
  ReplayLog& log_;
  HandleCache& handles_;
  BlockLedger& ledger_;
  const std::function<Status()> before_commit_;

  // The batch being filled.
  std::vector<const ReplayLog::Record*> posted_;
  std::vector<HandleCache::Lease> leases_;
  uint64_t posted_bytes_ = 0;
  std::vector<std::shared_ptr<std::byte>> bytes_;
  std::map<std::string, uint64_t> lost_bytes_;  // by whose they were
};

}  // namespace brickfs
