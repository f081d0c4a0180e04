// SPDX-License-Identifier: Apache-2.0
// Going to the background. The child does all the work and tells the waiting parent how it went; it opens the network
// only after the fork (a registered pool and its device do not survive one).
#pragma once

#include <optional>
#include <string>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class Daemon {
 public:
  struct Outcome {
    int exit_code = 0;
    std::string line;  // for standard error, if not empty
  };

  // Returns twice: in the child with nothing, in the parent with the outcome once the child has told it (or has died).
  Result<std::optional<Outcome>> fork_and_wait();

  // In the child, once: the parent prints the line, if there is one, and exits with 0; from now on there is no
  // terminal, no working directory and no standard error.
  void tell_ready(std::string line = {});
  // In the child, instead: the parent prints the line and exits with the code.
  void tell_failure(const Outcome& outcome) { tell(outcome); }

 private:
  void tell(const Outcome& outcome);

  UniqueFd to_parent_;
};

}  // namespace brickfs
