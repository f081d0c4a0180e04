// SPDX-License-Identifier: Apache-2.0
// The coordinator's side of bytes that members have written to the bricks themselves, and keep until a commit has
// covered them: which those are, and the asking for them when a brick that has restarted is to be brought up to date.
//
// Each such write has a number, in the order in which they came to be the volume's. What a member is told is up to
// which all of its numbers are committed.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fs/base/ids.h"
#include "fs/shared/join.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/volume/lent_bytes.h"

namespace brickfs::shared {

class KeptBytes {
 public:
  // `call`: that member is to ask what is wanted of it. Not called any more once it has ended.
  explicit KeptBytes(std::function<void(SessionId session)> call) : call_(std::move(call)) {}
  ~KeptBytes();

  struct Kept {
    uint64_t number = 0;
    std::shared_ptr<LentBytes> bytes;  // when it goes, they are committed, or were never the volume's
  };
  // In these units, which the member finds by `tag`. `name`: the member's, for people.
  Kept keep(SessionId session, const std::string& name, uint64_t tag, std::span<const UnitRun> runs);
  // All of its numbers below are.
  uint64_t committed(SessionId session) const;
  bool any_uncommitted() const;

  // Tags whose bytes are wanted, until they are given.
  std::vector<uint64_t> wanted(SessionId session) const;
  // Null: the member has them no more.
  void give(SessionId session, uint64_t tag, const std::span<const std::byte>* bytes);
  // The member is gone, and what it kept.
  void end(SessionId session);

 private:
  class OfMember;
  class Bytes;
  std::shared_ptr<OfMember> find(SessionId session) const;

  const std::function<void(SessionId session)> call_;
  mutable Mutex mutex_;
  std::map<SessionId, std::shared_ptr<OfMember>> members_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::shared
