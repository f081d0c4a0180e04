// SPDX-License-Identifier: Apache-2.0
// The kernel of a machine's own mount, as the sharing of the volume needs it: what it keeps is not what there is when
// others change it.
//
// Threads: any, but none that serves requests.
#pragma once

#include <vector>

#include "fs/base/ids.h"
#include "fs/shared/served_call.h"
#include "transport/base/interruption.h"

namespace brickfs::shared {

class OwnKernel {
 public:
  virtual ~OwnKernel() = default;
  // There are members from now on (or none any more): names and attributes are told for no longer than they hold. On
  // return nothing of before is relied on. Waits for requests under way: called by a thread that holds nothing.
  virtual void set_shared(bool shared) = 0;
  // Pages of those bytes are not relied on any more on return, or `by` is raised.
  virtual void drop(const ChangedFile& changed, const Interruption* by) = 0;
  // From its return on files are opened as a member's, past the kernel's pages. Waits as set_shared() does.
  virtual void become_member() = 0;
  // Those that programs have open by pages yet.
  virtual std::vector<Ino> open_by_pages() const = 0;
};

}  // namespace brickfs::shared
