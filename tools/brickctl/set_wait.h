// SPDX-License-Identifier: Apache-2.0
// Waits until replicas that come are in sync, and those that leave are gone. The holder of the volume does that; if
// there is none, or it is dead, this process becomes it until then, as a mount would. Why it cannot yet is said on
// standard error.
//
// Threads: of one; the open set has its own.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "tools/brickctl/commands.h"
#include "tools/brickctl/set_plan.h"
#include "transport/base/progress_bar.h"
#include "transport/brick/source.h"
#include "transport/membership/set_map.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// Who waits for a change of the map goes on without it for so long.
constexpr std::chrono::milliseconds kWithoutTheMap{60'000};

class SetWait {
 public:
  SetWait(const Command& command, const Source& source, MapStore& store, SetPlan plan)
      : command_(command), source_(source), store_(store), plan_(std::move(plan)) {}

  // EINTR: by a signal. Else, with one line in `why`: the map cannot be had for a long time, or nobody has the volume
  // and it cannot be opened, or it can never be opened.
  Status run(std::string* why);

 private:
  using Clock = std::chrono::steady_clock;

  bool is_done(const SetMap& map) const;
  void show(const SetMap& map);
  Status take_part(const SetMap& map, std::string* why);
  Status open(std::string* why);
  void say_waiting(int code, const std::string& why);
  void say_troubles(const SetMap& map);

  const Command& command_;
  const Source& source_;
  MapStore& store_;
  const SetPlan plan_;
  ProgressBar bar_;
  std::map<MemberId, uint64_t> totals_;  // as last seen
  uint64_t generation_ = 0;
  Clock::time_point changed_at_ = Clock::now();
  Clock::time_point try_at_{};
  int said_ = 0;  // why it waits, as an errno
  std::map<MemberId, std::string> said_troubles_;
  std::unique_ptr<VolumeSet> set_;  // while this process is the holder
};

}  // namespace brickfs
