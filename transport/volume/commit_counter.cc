// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/commit_counter.h"

#include "transport/volume/set_membership.h"

namespace brickfs {

Status CommitCounter::before_commit(VolumeClient& member, const Interruption* by) {
  const uint64_t slots = raw(first_block_of(place_).start) + StoredCommitCount::kOffset[0];
  if (doubtful_) TRY(member.commit_bytes(slots, 2 * kSetSlotBytes));
  doubtful_ = false;
  // Never to the slot of the last one: the record may say that it is there.
  ++highest_;
  if (highest_ % 2 == last_ % 2) ++highest_;
  StoredCommitCount stored = encode_commit_count(set_, place_, highest_);
  const Piece piece{slots + highest_ % 2 * kSetSlotBytes, {{reinterpret_cast<std::byte*>(&stored), sizeof(stored), 0}}};
  TRY(member.write_with_commit(piece, Stage::kData, by));
  written_ = highest_;
  return {};
}

}  // namespace brickfs
