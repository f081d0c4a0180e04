// SPDX-License-Identifier: Apache-2.0
// Which requests a worker serves at once, passes to others, and waits with; and how it ends. Its source is a script.
#include "fs/fuse/serve/worker.h"

#include <gtest/gtest.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/fuse_bed.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint32_t kUnit = 4096;

// Answers are kept.
class ScriptedRequest final : public FuseRequest {
 public:
  ScriptedRequest(VolumeAccess& volume, FuseSession& session)
      : FuseRequest(std::move(*FuseBuffers::make_small(volume)), session.cache(), session.operations()) {}

  void come(std::span<const std::byte> message) {
    const std::span<std::byte> room = buffers().request();
    ASSERT_LE(message.size(), room.size());
    std::copy(message.begin(), message.end(), room.begin());
    begin(room.first(message.size()));
  }
  int answers() const { return answers_; }
  int error() const { return error_; }
  const std::vector<std::byte>& payload() const { return payload_; }

 private:
  ssize_t send(std::span<const iovec> parts) override {
    error_ = -static_cast<const fuse_out_header*>(parts[0].iov_base)->error;
    payload_.clear();
    for (const iovec& part : parts.subspan(1)) {
      const auto* const bytes = static_cast<const std::byte*>(part.iov_base);
      payload_.insert(payload_.end(), bytes, bytes + part.iov_len);
    }
    ++answers_;
    return 1;
  }
  Answer put_aside() override {
    return [](int, std::span<const std::byte>) {};
  }

  std::atomic<int> answers_{0};
  std::atomic<int> error_{0};
  std::vector<std::byte> payload_;
};

// What each receive() brings. At the end of it the connection ends, or what is said.
class ScriptedSource final : public RequestSource {
 public:
  struct Round {
    std::vector<FuseRequest*> requests;
    Status status;
  };
  std::deque<Round> rounds;
  Status end = Error(ENODEV, "the end");
  int idle_workers = 0;  // that take one each
  bool hides = false;
  std::atomic<bool> may_end_now{true};
  std::function<void()> on_receive;
  std::vector<FuseRequest*> left;  // for last()

  std::vector<FuseRequest*> passed;
  std::vector<const FuseRequest*> alone;
  std::atomic<int> begun_alone{0};  // for other threads
  std::vector<FuseRequest*> given_back;
  bool closed = false;

  Status receive(std::vector<FuseRequest*>& requests) override {
    if (on_receive) on_receive();
    if (rounds.empty()) return end;
    Round round = std::move(rounds.front());
    rounds.pop_front();
    requests.insert(requests.end(), round.requests.begin(), round.requests.end());
    return round.status;
  }
  bool pass(FuseRequest& request) override {
    if (idle_workers == 0) return false;
    --idle_workers;
    passed.push_back(&request);
    return true;
  }
  void begin_alone(const FuseRequest& request) override {
    alone.push_back(&request);
    ++begun_alone;
  }
  Status give_back(FuseRequest& request) override {
    given_back.push_back(&request);
    return {};
  }
  bool hides_requests() const override { return hides; }
  bool may_end() const override { return may_end_now; }
  FuseRequest* last() override {
    if (left.empty()) return nullptr;
    FuseRequest* const request = left.back();
    left.pop_back();
    return request;
  }
  void close() override { closed = true; }
};

class WorkerOfFuse : public ::testing::Test {
 protected:
  WorkerOfFuse() {
    auto source = std::make_unique<ScriptedSource>();
    source_ = source.get();
    worker_ = std::make_unique<FuseWorker>(bed_.session(), bed_.dispatcher(), std::move(source));
    file_ = make_file(bed_.filesystem(), "file");
    content_ = std::vector<std::byte>(8 * kUnit, std::byte{0x11});
    const LocalSlice from{content_.data(), static_cast<uint32_t>(content_.size()), 0};
    EXPECT_TRUE(bed_.filesystem().write(file_, 0, std::span(&from, 1), false, nullptr).ok());
    EXPECT_TRUE(bed_.filesystem().sync_all().ok());
  }
  ~WorkerOfFuse() override { bed_.brick().faults().refuse(false); }

  ScriptedRequest& make(std::span<const std::byte> body, uint32_t opcode, uint64_t node) {
    requests_.push_back(std::make_unique<ScriptedRequest>(bed_.volume(), bed_.session()));
    fuse_in_header header{};
    header.len = static_cast<uint32_t>(sizeof(header) + body.size());
    header.opcode = opcode;
    header.nodeid = node;
    header.unique = 2 * requests_.size();
    std::vector<std::byte> message(sizeof(header));
    std::memcpy(message.data(), &header, sizeof(header));
    message.insert(message.end(), body.begin(), body.end());
    requests_.back()->come(message);
    return *requests_.back();
  }
  ScriptedRequest& read_of(uint64_t unit, uint32_t bytes = kUnit) {
    fuse_read_in in{};
    in.offset = unit * kUnit;
    in.size = bytes;
    in.read_flags = FUSE_READ_LOCKOWNER;
    return make(bytes_of(in), FUSE_READ, raw(file_));
  }
  ScriptedRequest& write_of(uint64_t unit, std::byte value, uint32_t flags = FUSE_WRITE_LOCKOWNER) {
    fuse_write_in in{};
    in.offset = unit * kUnit;
    in.size = kUnit;
    in.write_flags = flags;
    std::vector<std::byte> body(sizeof(in) + kUnit, value);
    std::memcpy(body.data(), &in, sizeof(in));
    return make(body, FUSE_WRITE, raw(file_));
  }
  ScriptedRequest& statfs() { return make({}, FUSE_STATFS, 1); }

  void round(std::vector<FuseRequest*> requests) { source_->rounds.push_back({std::move(requests), {}}); }
  Status run() { return worker_->serve(stopping_); }
  // Each was answered once and given back once, but for those that went to others.
  void expect_all_served() {
    for (const auto& request : requests_) {
      const bool is_passed = std::count(source_->passed.begin(), source_->passed.end(), request.get()) > 0;
      EXPECT_EQ(request->answers(), is_passed ? 0 : 1) << request->header().unique;
      EXPECT_EQ(std::count(source_->given_back.begin(), source_->given_back.end(), request.get()), is_passed ? 0 : 1)
          << request->header().unique;
    }
    EXPECT_TRUE(source_->closed);
    EXPECT_FALSE(worker_->busy());
  }
  void let_brick_be_away() {
    bed_.brick().faults().refuse(true);
    bed_.brick().faults().lose();
  }
  static void await(const std::function<bool()>& come) {
    const auto latest = steady_clock::now() + std::chrono::seconds(30);
    while (!come() && steady_clock::now() < latest) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_TRUE(come());
  }

  FuseBed bed_;
  Ino file_;
  std::vector<std::byte> content_;
  std::vector<std::unique_ptr<ScriptedRequest>> requests_;
  std::atomic<bool> stopping_{false};
  ScriptedSource* source_ = nullptr;
  std::unique_ptr<FuseWorker> worker_;
};

TEST_F(WorkerOfFuse, SmallOnesTravelTogether) {
  auto& first = read_of(0);
  auto& second = write_of(1, std::byte{0x22});
  auto& third = read_of(2);
  round({&first, &second, &third});
  EXPECT_TRUE(run().ok());
  expect_all_served();
  EXPECT_TRUE(source_->alone.empty());
  EXPECT_EQ(first.payload(), std::vector<std::byte>(kUnit, std::byte{0x11}));
  EXPECT_EQ(load<fuse_write_out>(second.payload()).size, kUnit);
  EXPECT_EQ(read(bed_.filesystem(), file_, kUnit, kUnit), std::vector<std::byte>(kUnit, std::byte{0x22}));
}

TEST_F(WorkerOfFuse, ReadsTakeOneBatch) {
  round({&read_of(0), &read_of(1), &read_of(2)});
  const uint64_t batches = bed_.brick().faults().calls(BrickCall::kTransfer);
  EXPECT_TRUE(run().ok());
  expect_all_served();
  EXPECT_EQ(bed_.brick().faults().calls(BrickCall::kTransfer) - batches, 1u);
}

TEST_F(WorkerOfFuse, WhatCannotGoTogetherIsServedBehindThem) {
  auto& small = read_of(0);
  auto& longer = write_of(8, std::byte{0x22});  // behind the end of the file
  auto& killer = write_of(1, std::byte{0x33}, FUSE_WRITE_LOCKOWNER | FUSE_WRITE_KILL_SUIDGID);
  auto& other = statfs();
  round({&small, &longer, &killer, &other});
  EXPECT_TRUE(run().ok());
  expect_all_served();
  EXPECT_EQ(source_->alone, (std::vector<const FuseRequest*>{&other, &longer, &killer}));
  EXPECT_EQ(read(bed_.filesystem(), file_, 8 * kUnit, kUnit), std::vector<std::byte>(kUnit, std::byte{0x22}));
  EXPECT_EQ(read(bed_.filesystem(), file_, kUnit, kUnit), std::vector<std::byte>(kUnit, std::byte{0x33}));
}

TEST_F(WorkerOfFuse, OthersGetWhatTheyHaveTimeFor) {
  auto& small = read_of(0);
  auto& longer = write_of(8, std::byte{0x22});
  auto& still_longer = write_of(9, std::byte{0x33});
  auto& other = statfs();
  round({&small, &longer, &still_longer, &other});
  source_->idle_workers = 5;
  EXPECT_TRUE(run().ok());
  expect_all_served();
  EXPECT_EQ(source_->passed, (std::vector<FuseRequest*>{&other, &longer})) << "it has something to do, too";
}

TEST_F(WorkerOfFuse, KeepsOneForItselfUnlessItHidesOthers) {
  auto& first = statfs();
  auto& second = statfs();
  round({&first, &second});
  source_->idle_workers = 5;
  EXPECT_TRUE(run().ok());
  expect_all_served();
  EXPECT_EQ(source_->passed, std::vector<FuseRequest*>{&first});
  source_->hides = true;
  auto& third = statfs();
  round({&third});
  EXPECT_TRUE(run().ok());
  EXPECT_EQ(source_->passed, (std::vector<FuseRequest*>{&first, &third}));
}

TEST_F(WorkerOfFuse, ASmallOneThatIsToBeServedAloneIs) {
  auto& only = read_of(0);
  only.serve_alone();
  round({&only});
  EXPECT_TRUE(run().ok());
  expect_all_served();
  EXPECT_EQ(source_->alone, std::vector<const FuseRequest*>{&only});
  EXPECT_EQ(only.payload().size(), kUnit);
}

// Those that the brick is needed for wait together behind those that do without it.
TEST_F(WorkerOfFuse, WaitsForTheBrickOnceForAll) {
  auto& reading = read_of(0);
  auto& writing = write_of(1, std::byte{0x22});
  auto& other = statfs();
  let_brick_be_away();
  round({&reading, &writing, &other});
  std::thread thread([this] { EXPECT_TRUE(run().ok()); });
  await([&] { return other.answers() == 1; });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(reading.answers() + writing.answers(), 0);
  EXPECT_TRUE(worker_->busy());
  bed_.brick().faults().refuse(false);
  thread.join();
  expect_all_served();
  EXPECT_EQ(reading.error(), 0);
  EXPECT_EQ(reading.payload(), std::vector<std::byte>(kUnit, std::byte{0x11}));
  EXPECT_EQ(read(bed_.filesystem(), file_, kUnit, kUnit), std::vector<std::byte>(kUnit, std::byte{0x22}));
}

TEST_F(WorkerOfFuse, OneThatIsInterruptedGoesAndTheOthersWaitOn) {
  auto& first = read_of(0);
  auto& second = read_of(1);
  auto& third = write_of(2, std::byte{0x22});
  let_brick_be_away();
  round({&first, &second, &third});
  std::thread thread([this] { EXPECT_TRUE(run().ok()); });
  await([&] { return source_->begun_alone > 0; });
  second.waiter().interrupt(second.header().unique, [&] { second.answer_interrupted(); });
  await([&] { return second.answers() == 1; });
  EXPECT_EQ(second.error(), EINTR);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(first.answers() + third.answers(), 0);
  bed_.brick().faults().refuse(false);
  thread.join();
  expect_all_served();
  EXPECT_EQ(first.error(), 0);
  EXPECT_EQ(third.error(), 0);
}

// While the worker waits with what it does first, whoever interrupts another of its requests answers that.
TEST_F(WorkerOfFuse, WhatIsSetAsideCanBeInterrupted) {
  auto& small = read_of(0);
  auto& blocks = make({}, FUSE_FSYNC, raw(file_));
  let_brick_be_away();
  auto& changed = write_of(8, std::byte{0x22});
  changed.serve_alone();
  round({&small, &changed, &blocks});
  std::thread thread([this] { EXPECT_TRUE(run().ok()); });
  await([&] { return source_->begun_alone > 0; });
  small.waiter().interrupt(small.header().unique, [&] { small.answer_interrupted(); });
  await([&] { return small.answers() == 1; });
  EXPECT_EQ(small.error(), EINTR);
  EXPECT_EQ(changed.answers(), 0);
  bed_.brick().faults().refuse(false);
  thread.join();
  expect_all_served();
}

TEST_F(WorkerOfFuse, WhatWasAnsweredByOthersIsOnlyGivenBack) {
  auto& request = statfs();
  request.answer(Error(EIO));
  round({&request});
  EXPECT_TRUE(run().ok());
  expect_all_served();
}

TEST_F(WorkerOfFuse, SaysHowLongItHidesRequests) {
  auto& reading = read_of(0);
  source_->hides = true;
  source_->on_receive = [&] { EXPECT_EQ(worker_->hides_requests_for().count(), 0); };
  round({&reading});
  EXPECT_TRUE(run().ok());
  expect_all_served();
  EXPECT_EQ(worker_->hides_requests_for().count(), 0);
}

TEST_F(WorkerOfFuse, EndsAsItsSourceDoes) {
  EXPECT_TRUE(run().ok()) << "the connection has ended";
  source_->end = Error(EOPNOTSUPP, "will not");
  auto& request = statfs();
  source_->rounds.push_back({{&request}, Error(EINTR, "nothing more")});
  EXPECT_EQ(run().code(), EOPNOTSUPP);
  expect_all_served();
}

TEST_F(WorkerOfFuse, ServesWhatIsLeftWhenItIsStopped) {
  auto& received = statfs();
  auto& left = read_of(0);
  round({&received});
  source_->left = {&left};
  source_->may_end_now = false;
  source_->end = Error(EINTR, "nothing");
  stopping_ = true;
  source_->on_receive = [&] {
    if (source_->rounds.empty()) source_->may_end_now = true;
  };
  EXPECT_TRUE(run().ok());
  expect_all_served();
  EXPECT_EQ(left.payload().size(), kUnit);
}

TEST_F(WorkerOfFuse, GoesWhenItIsNotNeededAnyMore) {
  auto& request = statfs();
  round({&request});
  round({&request});
  int asked = 0;
  EXPECT_TRUE(worker_->serve(stopping_, [&] { return ++asked == 1; }).ok());
  EXPECT_EQ(source_->rounds.size(), 1u);
  EXPECT_EQ(request.answers(), 1);
}

// A lost volume refuses small ones, too.
TEST_F(WorkerOfFuse, RefusesAllOfALostVolume) {
  auto& first = read_of(0);
  auto& second = read_of(1);
  bed_.brick().faults().fence();
  (void)bed_.filesystem().sync_all();
  ASSERT_FALSE(bed_.dispatcher().refusal().ok());
  round({&first, &second});
  EXPECT_TRUE(run().ok());
  expect_all_served();
  EXPECT_EQ(first.error(), bed_.dispatcher().refusal().code());
  EXPECT_EQ(second.error(), first.error());
}

}  // namespace
}  // namespace brickfs
