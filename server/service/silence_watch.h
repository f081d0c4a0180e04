// SPDX-License-Identifier: Apache-2.0
// Cuts silent holders off, on a thread of its own: to end a session may take long, and nobody else is to wait for that.
#pragma once

#include "server/service/brick_service.h"
#include "transport/base/mutex.h"
#include "transport/base/thread.h"

namespace brickfs {

class SilenceWatch {
 public:
  // service.expire_silent() once a second, as long as this lives.
  explicit SilenceWatch(BrickService& service) : service_(service) {}
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;
  ~SilenceWatch();

 private:
  void run();

  BrickService& service_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_{[this] { run(); }};
};

}  // namespace brickfs
