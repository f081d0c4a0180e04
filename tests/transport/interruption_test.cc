// SPDX-License-Identifier: Apache-2.0
// Calls of a VolumeClient that wait for the brick and are interrupted, and bricks that are silent.
#include "transport/base/interruption.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "tests/support/brick_contract.h"
#include "tests/support/volume_io.h"
#include "transport/volume/commit_group.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::blocks;
using testing::Bytes;
using testing::eventually;
using testing::open_volume;
using testing::remote_options;

// A brick that can fall silent: calls and transfers then wait until it speaks again, or the session is abandoned.
class SilentBrick final : public Brick {
 public:
  SilentBrick(std::unique_ptr<Brick> brick, std::atomic<bool>& silent) : brick_(std::move(brick)), silent_(silent) {}

  Result<Session> open(const OpenRequest& request, Holder* holder) override {
    if (silent_) return Error(ETIMEDOUT, "silent");
    cut_ = false;
    return brick_->open(request, holder);
  }
  Status close() override { return brick_->close(); }
  void abandon() override {
    cut_ = true;
    while (waiting_ > 0) std::this_thread::sleep_for(1ms);
    brick_->abandon();
  }
  Result<calls::Answer> call(const calls::Request& request) override {
    if (!speaks()) return Error(ENOTCONN, "abandoned");
    return brick_->call(request);
  }
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) override {
    return brick_->register_memory(memory);
  }
  void submit(Batch& batch) override {
    if (speaks()) return brick_->submit(batch);
    batch.begin(1);
    batch.finish_one(ENOTCONN);
  }
  Status wait(Batch& batch) override { return batch.complete() ? batch.status() : brick_->wait(batch); }
  milliseconds silence(Asking) override {
    if (!silent_) return 0ms;
    if (since_.load() == steady_clock::time_point()) since_ = steady_clock::now();
    return std::chrono::duration_cast<milliseconds>(steady_clock::now() - since_.load()) + 1ms;
  }
  void set_on_lost(std::function<void(Error)> callback) override { brick_->set_on_lost(std::move(callback)); }

 private:
  bool speaks() {
    ++waiting_;
    while (silent_ && !cut_) std::this_thread::sleep_for(1ms);
    --waiting_;
    return !cut_;
  }

  const std::unique_ptr<Brick> brick_;
  std::atomic<bool>& silent_;
  std::atomic<bool> cut_{false};
  std::atomic<int> waiting_{0};
  std::atomic<steady_clock::time_point> since_{};
};

class InterruptedCalls : public ::testing::Test {
 protected:
  void open(std::optional<milliseconds> soft = std::nullopt) {
    VolumeOptions options = remote_options();
    options.soft = soft;
    auto volume =
        VolumeClient::open(std::make_unique<SilentBrick>(brick_.faults().make_brick(), silent_), options, nullptr);
    ASSERT_TRUE(volume.ok());
    volume_ = std::move(*volume);
    ASSERT_TRUE(volume_->alloc(blocks(1, 1)).ok());
    ASSERT_TRUE(testing::write(*volume_, 2 * kMiB, data_).ok());
  }
  std::future<Status> begin_read(const Interruption* by) {
    return std::async(std::launch::async, [this, by] {
      Bytes into(data_.size());
      const Piece piece{2 * kMiB, {{into.data(), static_cast<uint32_t>(into.size()), 0}}};
      const Status status = volume_->read(std::span(&piece, 1), by);
      return status.ok() && into != data_ ? Status(Error(EILSEQ, "other bytes")) : status;
    });
  }
  static bool waits(std::future<Status>& call) { return call.wait_for(200ms) == std::future_status::timeout; }

  std::atomic<bool> silent_{false};
  RestartingBrick brick_{8, 16};
  Bytes data_ = Bytes(5000, std::byte{7});
  std::unique_ptr<VolumeClient> volume_;
};

TEST_F(InterruptedCalls, EndWhileTheBrickIsAwayAndOthersGoOn) {
  open();
  brick_.faults().refuse(true);
  brick_.faults().lose();
  Interruption one;
  Interruption other;
  auto interrupted = begin_read(&one);
  auto goes_on = begin_read(&other);
  EXPECT_TRUE(waits(interrupted));
  one.raise();
  EXPECT_EQ(interrupted.get().code(), EINTR);
  EXPECT_TRUE(waits(goes_on)) << "it is a hard mount";
  brick_.faults().refuse(false);
  EXPECT_TRUE(goes_on.get().ok());
}

TEST_F(InterruptedCalls, EndWithTheSessionOfASilentBrickAndOthersAreDoneAgain) {
  open();
  silent_ = true;
  Interruption one;
  auto interrupted = begin_read(&one);
  auto goes_on = begin_read(nullptr);
  EXPECT_TRUE(waits(interrupted));
  one.raise();
  EXPECT_TRUE(waits(interrupted)) << "its buffer is still being read into";
  volume_->give_up_silent(10s);
  EXPECT_TRUE(waits(interrupted)) << "not silent for so long";
  volume_->give_up_silent(1ms);
  EXPECT_EQ(interrupted.get().code(), EINTR);
  EXPECT_TRUE(waits(goes_on));
  silent_ = false;
  EXPECT_TRUE(goes_on.get().ok());
}

TEST_F(InterruptedCalls, GoOnWhileTheBrickAnswers) {
  open();
  Interruption one;
  one.raise();
  volume_->give_up_silent(1ms);
  EXPECT_EQ(volume_->link_state().kind, LinkState::Kind::kConnected);
  EXPECT_TRUE(begin_read(&one).get().ok());
}

TEST_F(InterruptedCalls, ACommitThatWasInterruptedIsDoneByTheNextOne) {
  open();
  brick_.faults().refuse(true);
  brick_.faults().lose();
  Interruption one;
  // More than is kept for replay: the writer waits for a commit, that is, does it.
  Bytes bytes(2 * kMiB, std::byte{3});
  auto interrupted = std::async(std::launch::async, [&] {
    const Piece piece{2 * kMiB, {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
    Status status;
    while (status.ok()) status = volume_->write(std::span(&piece, 1), Stage::kData, &one);
    return status;
  });
  auto committing = std::async(std::launch::async, [&] { return volume_->commit(); });
  EXPECT_TRUE(waits(interrupted));
  one.raise();
  EXPECT_EQ(interrupted.get().code(), EINTR);
  EXPECT_TRUE(waits(committing));
  brick_.faults().refuse(false);
  EXPECT_TRUE(committing.get().ok());
}

// timeo is what it says, also with a call under way.
TEST_F(InterruptedCalls, ASoftMountsTimeIsThatOfASilentBrickToo) {
  open(1'000ms);
  silent_ = true;
  const auto began = steady_clock::now();
  auto gives_up = begin_read(nullptr);
  EXPECT_EQ(gives_up.wait_for(20s), std::future_status::ready);
  EXPECT_GE(steady_clock::now() - began, 950ms);
  EXPECT_EQ(volume_->link_state().text.find("operations wait"), std::string::npos) << volume_->link_state().text;
  silent_ = false;
  EXPECT_EQ(gives_up.get().code(), EIO);
}

TEST_F(InterruptedCalls, SilenceIsTold) {
  open();
  silent_ = true;
  EXPECT_EQ(volume_->link_state().kind, LinkState::Kind::kConnected);
  EXPECT_TRUE(eventually([&] { return volume_->link_state().kind == LinkState::Kind::kSilent; }));
  EXPECT_NE(volume_->link_state().text.find("has not answered for "), std::string::npos) << volume_->link_state().text;
  silent_ = false;
}

TEST(CommitGroup, WhoRunsACommitAndIsInterruptedLeavesItToOthers) {
  CommitGroup group;
  Interruption one;
  std::promise<void> running;
  std::promise<void> interrupt;
  auto first = std::async(std::launch::async, [&] {
    return group.commit(
        [&]() -> Status {
          running.set_value();
          interrupt.get_future().wait();
          return Error(EINTR, "interrupted");
        },
        &one);
  });
  running.get_future().wait();
  std::atomic<int> runs{0};
  auto second = std::async(std::launch::async, [&] {
    return group.commit([&] {
      ++runs;
      return Status();
    });
  });
  std::this_thread::sleep_for(20ms);
  interrupt.set_value();
  EXPECT_EQ(first.get().code(), EINTR);
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace brickfs
