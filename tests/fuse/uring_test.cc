// SPDX-License-Identifier: Apache-2.0
// io_uring on what is no FUSE device: the kernel refuses its entries.
#include "fs/fuse/serve/uring.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "fs/fuse/cache/kernel_cache.h"
#include "fs/fuse/serve/uring_request.h"
#include "tests/support/mounted_volume.h"
#include "transport/base/unique_fd.h"

namespace brickfs {
namespace {

TEST(UringOfFuse, ReportsThatEntriesAreRefusedAndNeverWaitsOnceStopped) {
  const UniqueFd device(eventfd(0, EFD_CLOEXEC)), stopped(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  MountedVolume volume;
  KernelCache cache(*volume);
  OperationCounters operations;
  FuseUringQueue queue;
  auto entry = FuseUringRequest::make(volume->volume(), cache, operations, 0, queue);
  ASSERT_TRUE(entry.ok());
  auto made = FuseUring::make(device.get(), stopped.get(), 4);
  if (!made.ok()) GTEST_SKIP() << "no io_uring for this process";
  FuseUring& uring = **made;
  ASSERT_TRUE(uring.offer(**entry).ok());
  EXPECT_EQ(uring.offered(), 1u);
  std::vector<FuseUringRequest*> requests;
  EXPECT_EQ(uring.receive(true, requests).code(), EOPNOTSUPP);
  EXPECT_EQ(uring.offered(), 0u);
  const uint64_t one = 1;
  ASSERT_EQ(::write(stopped.get(), &one, sizeof(one)), 8);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(uring.receive(true, requests).code(), EINTR) << i;
  EXPECT_TRUE(requests.empty());
}

}  // namespace
}  // namespace brickfs
