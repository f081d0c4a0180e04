// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_store_history.h"

#include <algorithm>
#include <optional>

namespace brickfs {
namespace {

struct Place {
  size_t life = 0;
  size_t write = 0;
};

std::string text(size_t block, size_t stamp) {
  return "block " + std::to_string(block) + ", stamp " + std::to_string(stamp);
}

std::optional<Place> place_of(const std::vector<BlockLife>& lives, size_t stamp, uint64_t value, size_t now) {
  for (size_t life = 0; life < lives.size(); ++life) {
    const auto& writes = lives[life].writes[stamp];
    for (size_t i = 0; i < writes.size(); ++i) {
      if (writes[i].value == value && writes[i].at <= now) return Place{life, i};
    }
  }
  return std::nullopt;
}

// What must be durable at some moment: alloc and free up to one before it, and of each stamp so many writes.
class Floor {
 public:
  Floor(const VolumeHistory& history, size_t now) : history_(history), now_(now) {
    for (const StampCommit& commit : history.commits) {
      if (commit.done && commit.over <= now) raise(commit, UINT32_MAX);
    }
  }
  // A stamp is on the disk. Empty, or why it cannot be.
  std::string see(size_t block, size_t stamp, uint64_t value);
  std::string judge(size_t block, const FoundBlock& found) const;

 private:
  struct Count {
    size_t block, life, stamp, writes;
  };
  // The commit has got as far as this round: what was before it holds, and its rounds before that.
  void raise(const StampCommit& commit, uint32_t round) {
    began_ = std::max(began_, commit.began);
    any_ = true;
    for (const auto& named : commit.named) {
      if (named.round < round) counts_.push_back({named.block, named.life, named.stamp, named.writes});
    }
  }
  size_t count(size_t block, size_t life, size_t stamp) const {
    size_t most = 0;
    for (const Count& count : counts_) {
      if (count.block == block && count.life == life && count.stamp == stamp) most = std::max(most, count.writes);
    }
    return most;
  }
  std::string judge_life(size_t block, size_t life, const FoundBlock& found) const;

  const VolumeHistory& history_;
  const size_t now_;
  size_t began_ = 0;
  bool any_ = false;
  std::vector<Count> counts_;
};

std::string Floor::see(size_t block, size_t stamp, uint64_t value) {
  if (value == 0) return {};
  if (value == kNoStamp) return text(block, stamp) + " has bytes that nobody wrote there";
  const auto place = place_of(history_.blocks[block], stamp, value, now_);
  if (!place) return text(block, stamp) + " has what was written elsewhere (" + std::to_string(value) + ")";
  const StampWrite& write = history_.blocks[block][place->life].writes[stamp][place->write];
  if (write.stored_at <= now_) return {};
  const StampCommit* by = nullptr;                      // the first that may have stored it
  uint32_t round = 0;                                   // of which the earlier ones hold, if no other commit may have
  for (const StampCommit& commit : history_.commits) {  // in the order in which they began
    if (commit.began > now_ || commit.over < write.at) continue;
    for (const auto& named : commit.named) {
      if (named.block != block || named.life != place->life || named.stamp != stamp) continue;
      if (commit.at_once && place->write >= named.writes) continue;
      round = by != nullptr ? 0 : commit.at_once ? UINT32_MAX : named.round;
      if (by == nullptr) by = &commit;
    }
  }
  if (by != nullptr) {
    raise(*by, round);
    return {};
  }
  return text(block, stamp) + " is in the store, but was never named in a commit";
}

std::string Floor::judge_life(size_t block, size_t life, const FoundBlock& found) const {
  for (size_t stamp = 0; stamp < kStamps; ++stamp) {
    const size_t least = count(block, life, stamp);
    size_t have = 0;
    if (found.stamps[stamp] != 0) {
      const auto place = place_of(history_.blocks[block], stamp, found.stamps[stamp], now_);
      if (!place || place->life != life) return text(block, stamp) + " is of another life of the block";
      have = place->write + 1;
    }
    if (have < least) return text(block, stamp) + " was committed and is lost or older";
  }
  return {};
}

std::string Floor::judge(size_t block, const FoundBlock& found) const {
  const auto& lives = history_.blocks[block];
  size_t least = 0;  // of the changes alloc, free, alloc ...
  size_t most = 0;
  for (const BlockLife& life : lives) {
    for (const auto& [began, ended] :
         {std::pair{life.alloc_began, life.alloc_ended}, std::pair{life.free_began, life.free_ended}}) {
      if (any_ && ended <= began_) ++least;
      if (began <= now_ && began != kNever) ++most;
    }
  }
  std::string why = found.exists ? "block " + std::to_string(block) + " was freed, or never allocated, and exists"
                                 : "block " + std::to_string(block) + " was allocated and is gone";
  for (size_t changes = least; changes <= most; ++changes) {
    if ((changes % 2 == 1) != found.exists) continue;
    if (!found.exists) return {};
    std::string wrong = judge_life(block, changes / 2, found);
    if (wrong.empty()) return {};
    why = std::move(wrong);
  }
  return why;
}

std::string text(const SpareVolume& spare) {
  if (!spare.exists) return "no such volume";
  return "a volume of " + std::to_string(spare.size_blocks) + " blocks with " + std::to_string(spare.used_blocks);
}

}  // namespace

bool SpareHistory::changes_between(size_t before, size_t now) const {
  const auto within = [&](size_t moment) { return moment > before && moment <= now; };
  return std::ranges::any_of(changes,
                             [&](const Change& change) { return within(change.began) || within(change.ended); });
}

// As it was after the last change that is over, or any that has begun since.
std::string SpareHistory::judge(const SpareVolume& found, size_t now) const {
  std::string allowed;
  for (size_t i = changes.size(); i-- > 0;) {
    if (changes[i].began > now) continue;
    if (changes[i].makes == found) return {};
    allowed += (allowed.empty() ? "" : ", or ") + text(changes[i].makes);
    if (changes[i].ended <= now) break;
  }
  return "there is " + text(found) + ", not " + allowed;
}

bool VolumeHistory::exists(size_t block) const {
  return !blocks[block].empty() && blocks[block].back().free_began == kNever;
}

bool VolumeHistory::changes_between(size_t before, size_t now) const {
  const auto within = [&](size_t moment) { return moment > before && moment <= now; };
  const auto changes = [&](const BlockLife& life) {
    if (within(life.alloc_began) || within(life.alloc_ended) || within(life.free_began) || within(life.free_ended))
      return true;
    return std::ranges::any_of(life.writes, [&](const auto& writes) {
      return std::ranges::any_of(writes,
                                 [&](const StampWrite& write) { return within(write.at) || within(write.stored_at); });
    });
  };
  return std::ranges::any_of(blocks, [&](const auto& lives) { return std::ranges::any_of(lives, changes); }) ||
         std::ranges::any_of(commits,
                             [&](const StampCommit& commit) { return within(commit.began) || within(commit.over); }) ||
         std::ranges::any_of(epochs, [&](const auto& epoch) { return within(epoch.first); });
}

StampCommit VolumeHistory::commit_of_all(size_t now) const {
  StampCommit commit{.began = now, .named = {}};
  for (size_t block = 0; block < kStoreBlocksUsed; ++block) {
    if (!exists(block)) continue;
    const BlockLife& life = blocks[block].back();
    for (size_t stamp = 0; stamp < kStamps; ++stamp) {
      commit.named.push_back({block, blocks[block].size() - 1, stamp, life.writes[stamp].size(), 0});
    }
  }
  return commit;
}

void VolumeHistory::note_stored(size_t block, size_t now) {
  if (blocks[block].empty()) return;
  for (auto& writes : blocks[block].back().writes) {
    for (StampWrite& write : writes) write.stored_at = std::min(write.stored_at, now);
  }
}

std::string VolumeHistory::judge(const FoundBlocks& found, size_t now) const {
  Floor floor(*this, now);
  for (size_t block = 0; block < kStoreBlocksUsed; ++block) {
    for (size_t stamp = 0; stamp < kStamps; ++stamp) {
      if (std::string why = floor.see(block, stamp, found[block].stamps[stamp]); !why.empty()) return why;
    }
  }
  for (size_t block = 0; block < kStoreBlocksUsed; ++block) {
    if (std::string why = floor.judge(block, found[block]); !why.empty()) return why;
  }
  return {};
}

std::string VolumeHistory::judge_epoch(uint64_t found, size_t now) const {
  for (const auto& [at, epoch] : epochs) {
    if (at <= now && epoch > found) return "epoch " + std::to_string(epoch) + " was granted, and is forgotten";
  }
  return {};
}

VolumeHistory VolumeHistory::that_begins_with(const FoundBlocks& found, uint64_t epoch, size_t now) {
  VolumeHistory history;
  for (size_t block = 0; block < kStoreBlocksUsed; ++block) {
    if (!found[block].exists) continue;
    BlockLife life{.alloc_began = 0, .alloc_ended = 0, .writes = {}};
    for (size_t stamp = 0; stamp < kStamps; ++stamp) {
      if (found[block].stamps[stamp] != 0) life.writes[stamp].push_back({found[block].stamps[stamp], 0, 0});
    }
    history.blocks[block].push_back(std::move(life));
  }
  StampCommit held = history.commit_of_all(0);
  held.over = now;
  held.done = true;
  history.commits.push_back(std::move(held));
  history.epochs.emplace_back(now, epoch);
  return history;
}

}  // namespace brickfs
