// SPDX-License-Identifier: Apache-2.0
// The coordinator's side of one call of a member: the operation is done, and its answer made, with the references to
// inodes that it gave and took.
//
// Threads: one for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fs/operations/file_operations.h"
#include "fs/shared/calls.h"
#include "fs/shared/leases.h"
#include "fs/shared/unit_lender.h"
#include "transport/base/result.h"

namespace brickfs::shared {

// What a member's call changed of a file, which the coordinator's own kernel may have in its caches.
struct ChangedFile {
  Ino ino{};
  // Bytes that were written, or of a hole that was made.
  uint64_t offset = 0;
  uint64_t length = 0;
};

struct ServedAnswer {
  int status = 0;  // 0 or an errno
  std::vector<std::byte> fields;
  std::span<const std::byte> data;  // in the caller's room
  // References that the answer gives. Of an answer that is not sent they are to be taken back.
  std::vector<Ino> given;
  std::vector<ChangedFile> changed;
  bool may_be_done_again = false;
};

// Called before the change: what the own kernel has of those bytes, and a program has stored to it, comes before.
using AboutToChange = std::function<void(const ChangedFile&)>;

// `context.machine`: the member, as the leases and the locks of its programs are told from those of others. `room`: of
// kMostData, for the bytes of a Read. Requests that are about the member itself (Forget, Hold, Leave, Cancel,
// AwaitRecalls ...) are not done here: EPROTO.
struct Asker {
  ClientId client{};  // as the bricks know it
  const std::string& name;
  uint64_t successor = 0;  // as it is told (State)
};
ServedAnswer serve_call(FileOperations& files, Leases& leases, UnitLender* lender, const Asker& asker,
                        const Decoded& call, std::span<std::byte> room, const AboutToChange& about_to_change,
                        const OperationContext& context);

}  // namespace brickfs::shared
