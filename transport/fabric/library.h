// SPDX-License-Identifier: Apache-2.0
// libfabric, loaded when the first fabric:// is used, and never let go. The libraries that it is linked with take the
// signals of the process for themselves (PSM's: of crashes and interruptions, for a file with a backtrace) and a good
// part of a second: programs without fabric:// have none of that, and those with it have their signals as they were.
//
// Its functions that are none of an object's (fi_getinfo(3), ...) are called through this; the others are inline.
//
// Threads: any.
#pragma once

#include <rdma/fabric.h>

#undef count_of  // a macro of theirs
#undef container_of

#include <string>

#include "transport/base/result.h"

namespace brickfs::fabric {

struct Library {
  decltype(&::fi_getinfo) get_info;
  decltype(&::fi_freeinfo) free_info;
  decltype(&::fi_dupinfo) duplicate_info;
  decltype(&::fi_fabric) open_fabric;
  decltype(&::fi_strerror) error_text;
};

// Loads it with the first call. EPROTONOSUPPORT: it is not there, with one line in `why`, which may be null.
Status load_library(std::string* why);
// It has been loaded: of who has an object of it.
const Library& library();

}  // namespace brickfs::fabric
