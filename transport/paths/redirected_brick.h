// SPDX-License-Identifier: Apache-2.0
// A brick behind two paths: the one wanted and a way around it. When the wanted path fails, the next
// open() goes the other way and says why; once the wanted path has worked again for some time, the session is offered
// to be begun anew there (ERESTART to set_on_lost()), which costs its user a reconnection between operations.
//
// What counts as a failure of the path are all errors of open() but the brick's own answers (ENOENT, EBUSY, ESTALE,
// EINVAL), and sessions that are lost again and again soon after they began. The path that failed is not tried first
// again until it has been found healthy.
//
// Nobody's lease or uncommitted bytes depend on the path: both are the brick's and the client's, and the session
// resumes.
//
// A handle names the session it is of, so that one of another path, or of a former session, is refused here (EACCES)
// and reaches no transport.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "transport/brick/brick.h"
#include "transport/paths/path_watch.h"

namespace brickfs {

struct BrickPaths {
  std::unique_ptr<Brick> wanted;
  std::unique_ptr<Brick> around;  // its memory needs no registration (tcp): local keys are those of `wanted`
  std::function<std::unique_ptr<Brick>()> make_probe;     // another end, by the path of `wanted`
  std::function<void(const Session& session)> on_wanted;  // told of each session by the wanted path; may be null
  struct Names {                                          // for people
    std::string wanted;
    std::string around;
  };
  Names names;
};

// Brick::open() may take the time of both paths' timeouts.
std::unique_ptr<Brick> make_redirected_brick(BrickPaths paths, PathTimes times = {});

}  // namespace brickfs
