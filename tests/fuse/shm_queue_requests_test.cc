// SPDX-License-Identifier: Apache-2.0
#include "fs/shm_queue/serve/shm_queue_requests.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/support/fuse_bed.h"
#include "transport/base/thread.h"

namespace brickfs {
namespace {

constexpr uint32_t kBytes = 1 * kMiB;

// What a program shares with its mount, and the mount's end of it.
class ShmQueueRequestsOfFuse : public ::testing::Test {
 protected:
  ShmQueueRequestsOfFuse() : memory_(shm_queue::kControlBytes + kBytes) {
    registration_ = *bed_.volume().register_memory(memory_);
    requests_ =
        std::make_unique<ShmQueueRequests>(bed_.session(), getpid(), memory_, registration_.local_key(), by_kernel_);
  }

  Result<size_t> write(Ino ino, uint64_t offset, size_t length, std::byte value) {
    const std::vector<std::byte> bytes(length, value);
    const LocalSlice from{const_cast<std::byte*>(bytes.data()), static_cast<uint32_t>(length), 0};
    return bed_.filesystem().write(ino, offset, {&from, 1}, false, nullptr);
  }
  const shm_queue::Answer& answer() const {
    return reinterpret_cast<const shm_queue::ControlArea*>(memory_.data())->answers[0];
  }

  FuseBed bed_;
  std::vector<std::byte> memory_;
  RegisteredMemory registration_;
  const std::atomic<bool> by_kernel_{false};
  std::unique_ptr<ShmQueueRequests> requests_;
};

// The program has ended, its bytes are still on their way.
TEST_F(ShmQueueRequestsOfFuse, KeepTheirFilesBytesUntilTheyHaveMoved) {
  Filesystem& filesystem = bed_.filesystem();
  const Ino file = make_file(filesystem, "file");
  ASSERT_TRUE(write(file, 0, kBytes, std::byte{0x11}).ok());
  const Ino other = make_file(filesystem, "other");
  const Ino filler = make_file(filesystem, "filler");
  for (uint64_t at = 0; write(filler, at, kUnitBytes, std::byte{0x22}).ok();) at += kUnitBytes;
  ASSERT_TRUE(filesystem.sync_all().ok());
  ASSERT_EQ(write(other, 0, kUnitBytes, std::byte{0x33}).code(), ENOSPC);

  absl::Notification begun, goes_on;
  BrickFaults& faults = bed_.brick().faults();
  const auto wait = [&] {
    begun.Notify();
    goes_on.WaitForNotification();
  };
  faults.plan({{.call = faults.calls(), .kind = PlannedFault::Kind::kDelayed}}, nullptr, wait, nullptr);
  const uint32_t number = *requests_->add_file({.ino = file, .writes = true});
  Thread program([&] {
    shm_queue::Entry entry{};
    entry.operation = shm_queue::Operation::kWrite;
    entry.file = number;
    entry.length = kBytes;
    EXPECT_TRUE(requests_->serve({&entry, 1}).ok());
  });
  ASSERT_TRUE(begun.WaitForNotificationWithTimeout(absl::Seconds(10)));
  ASSERT_TRUE(filesystem.unlink(kRootIno, "file").ok());
  filesystem.forget(file, 1);
  ASSERT_TRUE(filesystem.sync_all().ok());
  EXPECT_EQ(write(other, 0, kUnitBytes, std::byte{0x33}).code(), ENOSPC);

  goes_on.Notify();
  program.join();
  EXPECT_EQ(answer().number, kBytes);
  EXPECT_EQ(filesystem.get_attributes(file).code(), ESTALE);
  ASSERT_TRUE(filesystem.sync_all().ok());
  EXPECT_TRUE(write(other, 0, kUnitBytes, std::byte{0x33}).ok());
}

}  // namespace
}  // namespace brickfs
