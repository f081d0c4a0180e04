// SPDX-License-Identifier: Apache-2.0
// What the journal of a shared volume keeps of its members, for whoever has the volume after this process.
//
// Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "fs/inode/member_register.h"
#include "transport/base/interruption.h"
#include "transport/base/result.h"

namespace brickfs {

// So long at most a member answers from memory behind what it has last heard of whoever had the volume.
constexpr std::chrono::milliseconds kMembersRelyFor{3'300};

class MemberJournal {
 public:
  virtual ~MemberJournal() = default;

  // Those that there are, in the order of their sessions; behind a mount those whom the former coordinator had.
  virtual std::vector<KnownMember> members() const = 0;
  // It is on the bricks, on success. Calls in its name (OperationContext::call) are noted from then on. Others as
  // FileOperations: EROFS, ESTALE, EINTR. Behind an error end_member() is called for it, too.
  virtual Status begin_member(const MemberRow& row, const Interruption* by) = 0;
  virtual void end_member(uint64_t session) = 0;
  // All members that the mount found have come, or will not come: unlinked files that none of them holds go.
  virtual void end_grace() = 0;
};

}  // namespace brickfs
