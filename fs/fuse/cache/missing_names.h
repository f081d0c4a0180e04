// SPDX-License-Identifier: Apache-2.0
// Names in the root directory that the kernel was told not to exist, which it remembers: to be taken back when somebody
// else has the volume. (Below other directories it asks for theirs first.) Bounded: what finds no room is not to be
// remembered by the kernel either.
//
// Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "transport/base/mutex.h"

namespace brickfs {

class MissingNames {
 public:
  static constexpr size_t kMost = 4096;

  // False: there is no room.
  bool note(std::string_view name) {
    MutexLock lock(mutex_);
    if (names_.size() == kMost) return names_.contains(std::string(name));
    names_.emplace(name);
    return true;
  }
  std::vector<std::string> take() {
    MutexLock lock(mutex_);
    std::vector<std::string> taken(names_.begin(), names_.end());
    names_.clear();
    return taken;
  }

 private:
  Mutex mutex_;
  std::unordered_set<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
