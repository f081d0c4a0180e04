// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "fs/fuse/serve/worker.h"
#include "tests/support/fuse_bed.h"

namespace brickfs {
namespace {

constexpr uint32_t kPage = 4096;

// Requests as the device's source collects them, and what the kernel hears of them.
class SmallRequestsOfFuse : public ::testing::Test {
 protected:
  explicit SmallRequestsOfFuse(const FuseSession::Rules& rules = {}) : bed_(rules), queue_(bed_.kernel().device()) {
    source_ = std::make_unique<FuseDeviceSource>(bed_.volume(), bed_.session().cache(), bed_.session().operations(),
                                                 queue_, interrupts_, bed_.kernel().device(),
                                                 std::move(*FuseBuffers::make(bed_.volume())), false);
    file_ = make_file(bed_.filesystem(), "file");
    const std::vector<std::byte> content(4 * kPage, std::byte{0x11});
    const LocalSlice from{const_cast<std::byte*>(content.data()), static_cast<uint32_t>(content.size()), 0};
    EXPECT_TRUE(bed_.filesystem().write(file_, 0, std::span(&from, 1), false, nullptr).ok());
    EXPECT_TRUE(bed_.filesystem().sync_all().ok());
  }

  std::vector<FuseRequest*> receive() {
    std::vector<FuseRequest*> requests;
    EXPECT_TRUE(source_->receive(requests).ok());
    return requests;
  }
  static std::vector<std::byte> page(std::byte value) { return std::vector<std::byte>(kPage, value); }

  FuseBed bed_;
  FuseDeviceQueue queue_;
  std::unique_ptr<FuseDeviceSource> source_;
  FuseInterrupts interrupts_{bed_.volume(), nullptr};
  Ino file_;
};

TEST_F(SmallRequestsOfFuse, AreAnsweredWhenAllBytesHaveMoved) {
  FakeKernel& kernel = bed_.kernel();
  const uint64_t reading = kernel.request_read(raw(file_), 0, kPage);
  const uint64_t writing = kernel.request_write(raw(file_), kPage, page(std::byte{0x22}));
  const uint64_t at_end = kernel.request_read(raw(file_), 4 * kPage - 10, kPage);
  const uint64_t behind = kernel.request_read(raw(file_), 5 * kPage, kPage);
  const auto requests = receive();
  ASSERT_EQ(requests.size(), 4u);
  {
    SmallRequests small(bed_.session());
    for (FuseRequest* const request : requests) EXPECT_TRUE(small.add(*request));
    EXPECT_EQ(small.added(), requests);
    EXPECT_TRUE(bed_.is_silent());
    EXPECT_TRUE(small.try_to_finish());
  }
  EXPECT_EQ(bed_.take(reading).payload, page(std::byte{0x11}));
  EXPECT_EQ(load<fuse_write_out>(bed_.take(writing).payload).size, kPage);
  EXPECT_EQ(bed_.take(at_end).payload.size(), 10u);
  EXPECT_EQ(bed_.take(behind).payload.size(), 0u);
  for (FuseRequest* const request : requests) EXPECT_TRUE(request->is_answered());
  EXPECT_EQ(read(bed_.filesystem(), file_, kPage, kPage), page(std::byte{0x22}));
}

TEST_F(SmallRequestsOfFuse, DeclineWhatIsMoreThanMovingBytes) {
  FakeKernel& kernel = bed_.kernel();
  kernel.request_write(raw(file_), 4 * kPage, page(std::byte{1}));
  kernel.request_write(raw(file_), 0, page(std::byte{1}), FUSE_WRITE_LOCKOWNER | FUSE_WRITE_KILL_SUIDGID);
  kernel.request_read(99, 0, kPage);
  const auto requests = receive();
  ASSERT_EQ(requests.size(), 3u);
  SmallRequests small(bed_.session());
  for (FuseRequest* const request : requests) {
    EXPECT_FALSE(small.add(*request)) << request->header().unique;
    EXPECT_FALSE(request->is_answered());
  }
  for (FuseRequest* const request : requests) request->answer(Error(EIO));
}

TEST_F(SmallRequestsOfFuse, AreNotAnsweredWhenTheBrickIsAway) {
  FakeKernel& kernel = bed_.kernel();
  const uint64_t reading = kernel.request_read(raw(file_), 0, kPage);
  const uint64_t writing = kernel.request_write(raw(file_), kPage, page(std::byte{0x22}));
  const auto requests = receive();
  ASSERT_EQ(requests.size(), 2u);
  bed_.brick().faults().refuse(true);
  bed_.brick().faults().lose();
  {
    SmallRequests small(bed_.session());
    for (FuseRequest* const request : requests) ASSERT_TRUE(small.add(*request));
    EXPECT_FALSE(small.try_to_finish());
  }
  {
    Interruption raised;
    raised.raise();
    SmallRequests small(bed_.session(), {.interruption = &raised});
    for (FuseRequest* const request : requests) ASSERT_TRUE(small.add(*request)) << "nothing is held any more";
    EXPECT_FALSE(small.finish());
  }
  EXPECT_TRUE(bed_.is_silent());
  bed_.brick().faults().refuse(false);
  {
    const Interruption none;
    SmallRequests small(bed_.session(), {.interruption = &none});
    for (FuseRequest* const request : requests) ASSERT_TRUE(small.add(*request));
    EXPECT_TRUE(small.finish());
  }
  EXPECT_EQ(bed_.take(reading).payload, page(std::byte{0x11}));
  EXPECT_EQ(bed_.take(writing).header.error, 0);
}

class SmallRequestsWrittenBack : public SmallRequestsOfFuse {
 protected:
  SmallRequestsWrittenBack() : SmallRequestsOfFuse({.writeback_cache = true}) {}
};

// What a write that fails leaves of the file's length is asked for while the others are held.
TEST_F(SmallRequestsWrittenBack, DoNotWaitForEachOtherWhenTheyFail) {
  FakeKernel& kernel = bed_.kernel();
  const uint64_t one = kernel.request_write(raw(file_), 0, page(std::byte{0x22}), FUSE_WRITE_CACHE);
  const uint64_t last = kernel.request_write(raw(file_), 3 * kPage, page(std::byte{0x22}), FUSE_WRITE_CACHE);
  const auto requests = receive();
  ASSERT_EQ(requests.size(), 2u);
  bed_.brick().faults().refuse(true);
  bed_.brick().faults().lose();
  bed_.volume().give_up_outage();
  SmallRequests small(bed_.session());
  for (FuseRequest* const request : requests) ASSERT_TRUE(small.add(*request));
  EXPECT_TRUE(small.finish());
  EXPECT_EQ(bed_.take(one).header.error, -EIO);
  EXPECT_EQ(bed_.take(last).header.error, -EIO);
}

// As a single one does: what the kernel reads into its pages is noted, and a direct write has them dropped.
TEST_F(SmallRequestsOfFuse, TellTheKernelOfPages) {
  FakeKernel& kernel = bed_.kernel();
  fuse_read_in in{};
  in.size = kPage;  // for the page cache
  const uint64_t reading = kernel.request_with(FUSE_READ, raw(file_), in);
  const uint64_t other = kernel.request_read(raw(file_), 2 * kPage, kPage);
  const auto serve = [&](const std::vector<FuseRequest*>& requests) {
    SmallRequests small(bed_.session());
    for (FuseRequest* const request : requests) ASSERT_TRUE(small.add(*request));
    ASSERT_TRUE(small.try_to_finish());
    for (FuseRequest* const request : requests) {
      if (request->release()) {
        EXPECT_TRUE(source_->give_back(*request).ok());
      }
    }
  };
  serve(receive());
  EXPECT_EQ(bed_.take(reading).header.error, 0);
  EXPECT_EQ(bed_.take(other).header.error, 0);
  EXPECT_TRUE(bed_.filesystem().is_cached(file_, 0, kPage));
  const uint64_t writing = kernel.request_write(raw(file_), 0, page(std::byte{0x22}));
  const uint64_t third = kernel.request_read(raw(file_), 2 * kPage, kPage);
  serve(receive());
  int notices = 0;
  for (int answers = 0; answers < 2;) {
    const auto answer = kernel.answer();
    ASSERT_TRUE(answer.has_value());
    if (answer->header.unique == 0) {
      EXPECT_EQ(load<fuse_notify_inval_inode_out>(answer->payload).ino, raw(file_));
      ++notices;
      continue;
    }
    EXPECT_TRUE(answer->header.unique == writing || answer->header.unique == third);
    if (answer->header.unique == writing) {
      EXPECT_EQ(notices, 1) << "before its answer";
    }
    ++answers;
  }
  EXPECT_FALSE(bed_.filesystem().is_cached(file_, 0, kPage));
}

}  // namespace
}  // namespace brickfs
