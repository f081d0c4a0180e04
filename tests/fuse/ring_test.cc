// SPDX-License-Identifier: Apache-2.0
// A ring on what is no FUSE device: the kernel refuses its entries.
#include "fs/fuse/serve/ring.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "fs/fuse/cache/kernel_cache.h"
#include "fs/fuse/serve/ring_queue.h"
#include "tests/support/mounted_volume.h"
#include "transport/base/unique_fd.h"

namespace brickfs {
namespace {

TEST(RingOfFuse, ReportsThatEntriesAreRefusedAndNeverWaitsOnceStopped) {
  const UniqueFd device(eventfd(0, EFD_CLOEXEC)), stopped(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  MountedVolume volume;
  KernelCache cache(*volume);
  OperationCounters operations;
  FuseRingQueue queue;
  auto entry = FuseRingRequest::make(volume->volume(), cache, operations, 0, queue);
  ASSERT_TRUE(entry.ok());
  auto made = FuseRing::make(device.get(), stopped.get(), 4);
  if (!made.ok()) GTEST_SKIP() << "no io_uring for this process";
  FuseRing& ring = **made;
  ASSERT_TRUE(ring.offer(**entry).ok());
  EXPECT_EQ(ring.offered(), 1u);
  std::vector<FuseRingRequest*> requests;
  EXPECT_EQ(ring.receive(true, requests).code(), EOPNOTSUPP);
  EXPECT_EQ(ring.offered(), 0u);
  const uint64_t one = 1;
  ASSERT_EQ(::write(stopped.get(), &one, sizeof(one)), 8);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ring.receive(true, requests).code(), EINTR) << i;
  EXPECT_TRUE(requests.empty());
}

}  // namespace
}  // namespace brickfs
