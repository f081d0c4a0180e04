// SPDX-License-Identifier: Apache-2.0
// Calls about the process that makes all others: user, umask, limits.
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/posix/diff_call.h"

namespace brickfs::posix {
namespace {

Outcome run_become(const Call& call, Side&) {
  Process::get().become(static_cast<uint32_t>(call.flags));
  return {};
}

Outcome run_umask(const Call& call, Side&) { return outcome_of(umask(call.mode & 0777)); }

Outcome run_limit(const Call& call, Side&) {
  const rlim_t most = call.flags == 0 ? RLIM_INFINITY : static_cast<rlim_t>(call.flags);
  const rlimit limit{most, RLIM_INFINITY};
  return outcome_of(setrlimit(RLIMIT_FSIZE, &limit));
}

}  // namespace

std::span<const Operation> process_operations() {
  static const std::vector<Operation> all = {
      {"become", 6, 0, {0, 0, 1, 2, 3, 4, 5}, {}, "become({F})", run_become, true},
      {"umask", 2, kMode, {}, {}, "umask({m} & 0777)", run_umask, true},
      {"limit", 1, 0, {0, 0, 20000, 100}, {}, "limit({F})", run_limit, true},
  };
  return all;
}

}  // namespace brickfs::posix
