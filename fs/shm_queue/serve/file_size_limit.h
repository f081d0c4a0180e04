// SPDX-License-Identifier: Apache-2.0
// RLIMIT_FSIZE of another process, as it is at the moment.
//
// Threads: one.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(pid_t process) : process_(process) {}  // 0: not known
  // A file may end there. False, too, if nobody can say: the process has ended.
  bool allows(uint64_t end);

 private:
  Result<uint64_t> read();

  const pid_t process_;
  UniqueFd limits_;  // /proc/PID/limits, once it is needed
};

}  // namespace brickfs
