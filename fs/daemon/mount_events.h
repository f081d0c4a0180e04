// SPDX-License-Identifier: Apache-2.0
// What whoever has started a brickfs is told.
#pragma once

#include <functional>
#include <string>

namespace brickfs {

// Told from the thread that serves.
struct MountEvents {
  std::function<void()> ready;  // it serves
  std::function<void(const std::string& why)>
      waiting;  // before that, of a mount with `bg`: it is not mounted yet, and tried again
};

}  // namespace brickfs
