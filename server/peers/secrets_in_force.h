// SPDX-License-Identifier: Apache-2.0
// The secrets that a brick takes, any of them, while it serves: they may be changed, and then there are two for a
// while. Who is at a handshake goes on with those that he began with. Threads: any.
#pragma once

#include <utility>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/brick/proof.h"

namespace brickfs {

class SecretsInForce {
 public:
  explicit SecretsInForce(std::vector<Secret> secrets) : secrets_(std::move(secrets)) {}
  std::vector<Secret> get() const {
    MutexLock lock(mutex_);
    return secrets_;
  }
  void set(std::vector<Secret> secrets) {
    MutexLock lock(mutex_);
    secrets_ = std::move(secrets);
  }

 private:
  mutable Mutex mutex_;
  std::vector<Secret> secrets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
