// SPDX-License-Identifier: Apache-2.0
// What is wrong or slow with a mount or a brick, and what to do about it: for people, and for scripts by exit code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fs/mount/status/mount_state.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/membership/set_map.h"

namespace brickfs {

enum class Severity {
  kNote,     // could be better, or is good to know
  kWarning,  // works, and will not for long, or slowly
  kBroken,   // operations wait or fail
};
std::string_view name_of(Severity severity);  // "note", "warning", "broken"

struct Trouble {
  Severity severity = Severity::kNote;
  std::string about;   // "link", "store", "commit", "space", "memory", "requests", "volume", "mount", "copies",
                       // "etcd"
  std::string what;    // and since when and why, as far as it is known
  std::string advice;  // what to do
};

// The worst come first.
std::vector<Trouble> troubles_of(const MountState& state);
std::vector<Trouble> troubles_of(const BrickStat& stat, const std::string& source);  // of a brick, with its volume
// Of bricks of a replicated set: where another copy of each place is in sync, the volume goes on.
void weigh_by_copies(const std::vector<CopyState>& copies, std::vector<Trouble>& troubles);
// Copies that are not in sync.
std::vector<Trouble> troubles_of(uint64_t copies_wanted, const std::vector<CopyState>& copies);
// Of one that cannot be opened by an observer; `what`: why.
Trouble trouble_of_refusal(Error error, std::string what);
// The brick is silent to its holder, and answers somebody who only looks.
Trouble trouble_of_stuck_call();
// All that a mount without a state (not root's, or asked by somebody else than root) says: its attribute brickfs.link.
std::vector<Trouble> troubles_of_link_text(std::string_view text);

void sort_by_severity(std::vector<Trouble>& troubles);

}  // namespace brickfs
