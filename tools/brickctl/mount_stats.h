// SPDX-License-Identifier: Apache-2.0
// What a mount does, counted by its brickfs: a subject of stats_loop.h.
#pragma once

#include <chrono>
#include <string>

#include "fs/mount/status/mount_state.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/operation_table.h"
#include "transport/base/result.h"

namespace brickfs {

class MountStats {
 public:
  struct Sample {
    MountState state;
    std::chrono::steady_clock::time_point at;
  };
  static constexpr const char* kKeys = "t: time  c: count  m: mean  n: name";

  explicit MountStats(std::string path) : path_(std::move(path)) {}

  // As ask_mount().
  Result<Sample> look(std::string* why) const;
  // Between two looks; `before` null: since the mount. `with_share`: each operation's part of the time.
  std::string text(const Sample* before, const Sample& now, SortBy by, bool with_share) const;
  Json json(const Sample* before, const Sample& now) const;

 private:
  const std::string path_;
};

}  // namespace brickfs
