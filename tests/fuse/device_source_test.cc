// SPDX-License-Identifier: Apache-2.0
// Before which requests the receiver of /dev/fuse hands over.
#include "fs/fuse/serve/device_source.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/support/fuse_bed.h"
#include "tests/support/mounted_volume.h"
#include "tests/support/restarting_brick.h"

namespace brickfs {
namespace {

// It gets an fsync, and nothing else waits.
bool hands_over_before_fsync(uint64_t store_blocks) {
  RestartingBrick brick(64, store_blocks);
  FuseBed bed({}, brick.make_brick());
  const Ino file = make_file(bed.filesystem(), "file");
  FuseDeviceQueue queue(bed.kernel().device());
  FuseInterrupts interrupts(bed.volume(), nullptr);
  FuseDeviceSource source(bed.volume(), bed.session().cache(), bed.session().operations(), queue, interrupts,
                          bed.kernel().device(), std::move(*FuseBuffers::make(bed.volume())), false);
  const uint64_t unique = bed.kernel().request_with(FUSE_FSYNC, raw(file), fuse_fsync_in{});
  std::vector<FuseRequest*> requests;
  EXPECT_TRUE(source.receive(requests).ok());
  EXPECT_EQ(requests.size(), 1u);
  source.begin_alone(*requests.front());
  bed.dispatcher().serve(*requests.front());
  EXPECT_EQ(bed.take(unique).header.error, 0);
  EXPECT_TRUE(requests.front()->release());
  queue.stop();
  FuseDeviceQueue::Member other(queue);
  EXPECT_EQ(queue.wait_for_turn(other).code(), EINTR);  // it does not wait any more
  const bool is_free = queue.is_receiver(other);
  source.close();
  return is_free;
}

TEST(FuseDeviceSource, OthersReceiveWhileTheBricksDiskIsWaitedFor) { EXPECT_TRUE(hands_over_before_fsync(64)); }

// To wake another, and to be woken for the next one, would take longer than the fsync.
TEST(FuseDeviceSource, AnFsyncOnAVolatileBrickWakesNobody) { EXPECT_FALSE(hands_over_before_fsync(0)); }

}  // namespace
}  // namespace brickfs
