// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/single_place.h"

#include "transport/volume/set_membership.h"

namespace brickfs {

std::vector<std::string> SinglePlace::full_bricks() {
  if (volume_->is_away()) return {};
  const auto stat = volume_->stat();
  if (!stat.ok() || stat->allocatable_blocks > 0) return {};
  return {std::string()};
}

Status SinglePlace::settle(std::span<const BlockRange> data, std::span<const BlockRange> journal,
                           std::span<const BlockRange> superblock) {
  TRY(volume_->commit_blocks(data, journal, superblock));
  if (volume_->session().boot == boot_) return {};
  return Error(EIO, "a brick has restarted while it was read: mount again");
}

Status SinglePlace::clear_torn_commit_record() { return brickfs::clear_torn_commit_record(*volume_); }

}  // namespace brickfs
