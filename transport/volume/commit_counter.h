// SPDX-License-Identifier: Apache-2.0
// How many commits a member of a striped set has had, by which a store is known that was replaced by its older copy.
// The client counts them in the member's first block, each with the commit that it is the number of; the commit record
// on place 0 has of each member the number of the last one that had ended (transport/volume/set_format.h). So a member
// durably has what the record says, or more; with less its store is an older one.
//
// Threads: before_commit() and after_commit() within commits of the member, which come one at a time; last() any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/base/result.h"
#include "transport/membership/set_id.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

class CommitCounter {
 public:
  // `highest`: that the member has, or is known to have had. `recorded`: by place 0; 0: nothing is.
  CommitCounter(const SetId& set, size_t place, uint64_t highest, uint64_t recorded)
      : set_(set), place_(place), highest_(highest), doubtful_(highest > recorded), last_(recorded) {}

  // As those of VolumeOptions.
  Status before_commit(VolumeClient& member, const Interruption* by);
  void after_commit() { last_ = written_; }

  // Of the last commit that has ended, by this client or those before; 0: none is known.
  uint64_t last() const { return last_; }

 private:
  const SetId set_;
  const size_t place_;
  uint64_t highest_;      // that anybody may have written
  bool doubtful_;         // of what the former client has written some may not be durable
  uint64_t written_ = 0;  // with the commit under way
  std::atomic<uint64_t> last_;
};

}  // namespace brickfs
