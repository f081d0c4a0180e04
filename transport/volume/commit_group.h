// SPDX-License-Identifier: Apache-2.0
// Commits one at a time, shared by all who ask: each caller is covered by one that began after its call. Frees do not
// overlap with commits, since a commit must not name a block that is going.
// Threads: any.
#pragma once

#include <cstdint>
#include <functional>

#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

class CommitGroup {
 public:
  // `run` does one commit; called by one of the callers, without locks. EINTR: this caller was interrupted; if it was
  // at a commit, the others do without that one.
  Status commit(const std::function<Status()>& run, const Interruption* by = nullptr);

  // For `run`: while it lives, frees may come in again; its end waits for them. Nothing that a free takes away may be
  // known from before.
  class Pause {
   public:
    explicit Pause(CommitGroup& group);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    CommitGroup& group_;
  };

  // While it lives no commit runs (or it pauses). Waits for the one that does; commits that wait let it in first.
  class FreeTurn {
   public:
    explicit FreeTurn(CommitGroup& group);
    ~FreeTurn();
    FreeTurn(const FreeTurn&) = delete;
    FreeTurn& operator=(const FreeTurn&) = delete;

   private:
    CommitGroup& group_;
  };

 private:
  Mutex mutex_;
  CondVar changed_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;  // the one that runs
  uint64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  Status last_ ABSL_GUARDED_BY(mutex_);
  uint64_t frees_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t frees_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t frees_due_ ABSL_GUARDED_BY(mutex_) = 0;  // waited while the last commit ran: before the next one
};

}  // namespace brickfs
