// SPDX-License-Identifier: Apache-2.0
// The pages that a member's kernel keeps: of files that programs opened when the machine coordinated, and read by pages
// until they are closed. The coordinator has each change of such a file recalled before and behind it, so there is no
// lease to be asked for. What is not recalled any more, as the member's leases are over, goes by itself.
//
// Threads: any, but none that serves requests; has one of its own.
#pragma once

#include <set>
#include <thread>
#include <vector>

#include "fs/base/ids.h"
#include "fs/shared/held.h"
#include "fs/shared/own_kernel.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"

namespace brickfs::shared {

class KernelPages {
 public:
  // Both outlive stop().
  KernelPages(OwnKernel& kernel, const Held& held, std::vector<Ino> files);
  ~KernelPages() { stop(); }
  KernelPages(const KernelPages&) = delete;
  KernelPages& operator=(const KernelPages&) = delete;

  std::vector<Ino> files() const;
  // The kernel has none any more on return.
  void recall(Ino ino);
  // Of all files, soon: what was told of them is another coordinator's, or was missed.
  void drop_soon();
  void forget(Ino ino);
  // The kernel is asked for nothing from its return on. Idempotent.
  void stop();

 private:
  void run();
  void drop(Ino ino);

  OwnKernel& kernel_;
  const Held& held_;
  Interruption ending_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::set<Ino> files_ ABSL_GUARDED_BY(mutex_);
  bool drops_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  size_t dropping_ ABSL_GUARDED_BY(mutex_) = 0;  // threads
  std::thread thread_;
};

}  // namespace brickfs::shared
