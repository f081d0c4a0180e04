// SPDX-License-Identifier: Apache-2.0
// Members of a shared volume that read from its brick, while others change what they read.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fs/operations/forwarded_files.h"
#include "fs/shared/coordinator.h"
#include "fs/shared/leased_files.h"
#include "fs/shared/member_files.h"
#include "server/service/embedded_brick.h"
#include "tests/support/faulty_brick.h"
#include "tests/support/mounted_volume.h"
#include "tests/support/sharing_bed.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr auto kRunFor = milliseconds(1'500);

// A unit of a file: which file it is of, which unit, and how often that was written.
struct Stamp {
  uint64_t file = 0;
  uint64_t unit = 0;
  uint64_t round = 0;
  bool operator==(const Stamp&) const = default;
};
using Unit = std::array<Stamp, 4096 / sizeof(Stamp)>;

// A coordinator's file system that may be so slow with a write that nobody waits for it.
class SlowFiles final : public ForwardedFiles {
 public:
  explicit SlowFiles(FileOperations& files) : files_(files) {}
  Result<uint64_t> write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                         const Caller* unprivileged, bool mapped, const OperationContext& context) override {
    ++writes;
    while (is_held_up) std::this_thread::sleep_for(milliseconds(5));
    return files_.write(ino, offset, from, append, unprivileged, mapped, context);
  }
  std::atomic<bool> is_held_up{false};
  std::atomic<int> writes{0};

 private:
  FileOperations& files() const override { return files_; }
  FileOperations& files_;
};

class SharedData : public ::testing::Test {
 protected:
  SharedData() : faults_(std::make_shared<BrickFaults>([this] { return make_embedded_brick(volume_.brick()); })) {
    auto coordinator = Coordinator::listen("127.0.0.1", 0, "home", secret_of(kTestSecret), seconds(60));
    EXPECT_TRUE(coordinator.ok());
    coordinator_ = std::move(*coordinator);
    own_ = std::make_unique<LeasedFiles>(slow_, coordinator_->leases());
    coordinator_->serve({*own_, nullptr, ClientId{7}, nullptr, &*volume_});
  }
  ~SharedData() override {
    members_.clear();
    coordinator_->stop();
  }

  MemberFiles& join() {
    std::string why;
    auto joined = CoordinatorLink::join(member_config(coordinator_->port(), ClientId{100 + members_.size()}), &why);
    EXPECT_TRUE(joined.ok()) << why;
    auto open = follow(faults_, ClientId{200 + members_.size()});
    members_.push_back(std::make_unique<MemberFiles>(std::move(*joined), std::move(open), false, false));
    return *members_.back();
  }

  static void write(FileOperations& files, Ino ino, const Stamp& stamp) {
    Unit unit;
    unit.fill(stamp);
    const LocalSlice from{reinterpret_cast<std::byte*>(unit.data()), sizeof(unit), 0};
    const auto written = files.write(ino, stamp.unit * sizeof(unit), std::span(&from, 1), false, nullptr, false, {});
    EXPECT_TRUE(written.ok()) << written.error().what();
  }
  // None: there is less. All of a unit is of one write: they are as large.
  static std::optional<Stamp> read(FileOperations& files, Ino ino, uint64_t number) {
    Unit unit;
    const LocalSlice into{reinterpret_cast<std::byte*>(unit.data()), sizeof(unit), 0};
    const auto got = files.read(ino, number * sizeof(unit), std::span(&into, 1), Touch::kAtime, {});
    EXPECT_TRUE(got.ok());
    if (!got.ok() || *got < sizeof(unit)) return std::nullopt;
    EXPECT_TRUE(std::ranges::all_of(unit, [&](const Stamp& stamp) { return stamp == unit.front(); })) << "torn";
    return unit.front();
  }
  static Ino look_up(FileOperations& files, const std::string& name) {
    const auto found = files.lookup(kRootIno, name, {});
    EXPECT_TRUE(found.ok());
    return found.ok() ? found->ino : kNoIno;
  }
  static void await_direct_reads(MemberFiles& member, Ino ino) {
    const uint64_t before = member.data_counts().reads;
    const auto until = steady_clock::now() + seconds(20);
    while (member.data_counts().reads == before && steady_clock::now() < until) read(member, ino, 0);
    EXPECT_GT(member.data_counts().reads, before) << "nothing is read from the brick";
  }

  MountedVolume volume_;
  SlowFiles slow_{*volume_};
  std::shared_ptr<BrickFaults> faults_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<LeasedFiles> own_;
  std::vector<std::unique_ptr<MemberFiles>> members_;
};

TEST_F(SharedData, WhatOneWritesTheOthersReadFromTheBrick) {
  MemberFiles& a = join();
  MemberFiles& b = join();
  const Ino ino = make_file(a, "file");
  look_up(b, "file");
  for (uint64_t unit = 0; unit < 16; ++unit) write(a, ino, {1, unit, 1});
  await_direct_reads(b, ino);
  await_direct_reads(a, ino);
  const auto writers = std::array<FileOperations*, 3>{&a, &b, own_.get()};
  for (uint64_t round = 2; round < 50; ++round) {
    const uint64_t unit = round % 16;
    write(*writers[round % 3], ino, {1, unit, round});
    for (FileOperations* const reader : writers) EXPECT_EQ(read(*reader, ino, unit), (Stamp{1, unit, round}));
  }
  await_direct_reads(b, ino);
  const uint64_t passed_on = b.data_counts().passed_on;
  for (uint64_t unit = 0; unit < 16; ++unit) EXPECT_TRUE(read(b, ino, unit));
  EXPECT_EQ(b.data_counts().passed_on, passed_on) << "a file that nobody changes is read from the brick alone";
}

TEST_F(SharedData, NobodyReadsAnythingOlderThanAWriteThatReturned) {
  constexpr uint64_t kUnits = 8;
  MemberFiles& a = join();
  MemberFiles& b = join();
  MemberFiles& c = join();
  const Ino ino = make_file(a, "file");
  for (MemberFiles* const other : {&b, &c}) look_up(*other, "file");
  std::array<std::atomic<uint64_t>, kUnits> returned{};
  for (uint64_t unit = 0; unit < kUnits; ++unit) write(a, ino, {1, unit, 0});
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  // Each unit has one writer.
  const auto write_units = [&](FileOperations& files, uint64_t first) {
    for (uint64_t round = 1; !stop; ++round) {
      for (uint64_t unit = first; unit < kUnits; unit += 2) {
        write(files, ino, {1, unit, round});
        returned[unit] = round;
      }
      std::this_thread::sleep_for(
          milliseconds(round % 64 == 0 ? 100 : round % 4));  // so that something is read under a lease
    }
  };
  const auto read_units = [&](FileOperations& files, unsigned seed) {
    std::minstd_rand random(seed);
    while (!stop) {
      const uint64_t unit = random() % kUnits;
      const uint64_t least = returned[unit];
      const auto found = read(files, ino, unit);
      ASSERT_TRUE(found);
      ASSERT_EQ(found->unit, unit);
      ASSERT_GE(found->round, least);
    }
  };
  threads.emplace_back(write_units, std::ref(static_cast<FileOperations&>(*own_)), 0);
  threads.emplace_back(write_units, std::ref(static_cast<FileOperations&>(a)), 1);
  for (unsigned i = 0; i < 2; ++i) {
    threads.emplace_back(read_units, std::ref(static_cast<FileOperations&>(b)), i);
    threads.emplace_back(read_units, std::ref(static_cast<FileOperations&>(c)), 10 + i);
  }
  threads.emplace_back(read_units, std::ref(static_cast<FileOperations&>(a)), 20);
  std::this_thread::sleep_for(kRunFor);
  const auto until = steady_clock::now() + seconds(20);
  while (b.data_counts().reads == 0 && steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(10));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(b.data_counts().reads, 0u);
}

// Units go from one file to the other all the time.
TEST_F(SharedData, NobodyReadsAnothersBytesOfUnitsThatAreUsedAgain) {
  constexpr uint64_t kUnits = 64;
  MemberFiles& a = join();
  MemberFiles& b = join();
  std::atomic<bool> stop{false};
  const Ino stays = make_file(*own_, "stays");
  for (MemberFiles* const member : {&a, &b}) look_up(*member, "stays");
  write(*own_, stays, {raw(stays), 0, 0});
  std::thread writer([&] {
    for (uint64_t round = 1; !stop; ++round) {
      FileOperations& files = round % 2 == 0 ? static_cast<FileOperations&>(*own_) : a;
      AttributeChange empty;
      empty.size_bytes = 0;
      EXPECT_TRUE(files.set_attributes(stays, empty, root_caller(), {}).ok());
      EXPECT_TRUE(files.sync_all({}).ok());  // its units are free now
      const Ino other = make_file(files, "other");
      for (uint64_t unit = 0; unit < kUnits; ++unit) write(files, other, {raw(other), unit, round});
      for (uint64_t unit = 0; unit < kUnits; ++unit) write(files, stays, {raw(stays), unit, round});
      EXPECT_TRUE(files.unlink(kRootIno, "other", {}).ok());
      files.forget(other, 1);
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  std::minstd_rand random(1);
  await_direct_reads(b, stays);
  // Long enough for units that were found to be another file's when they are read.
  faults_->set_before_transfers([&] { std::this_thread::sleep_for(milliseconds(random() % 60)); });
  const auto until = steady_clock::now() + kRunFor;
  while (steady_clock::now() < until) {
    const uint64_t unit = random() % kUnits;
    const auto found = read(b, stays, unit);
    if (!found) continue;
    ASSERT_EQ(found->file, raw(stays));
    ASSERT_EQ(found->unit, unit);
  }
  stop = true;
  writer.join();
}

// That it is over is known when the coordinator says so, not when nobody waits for it any more.
TEST_F(SharedData, WhatAGivenUpWriteChangedIsReadFromTheBrickAgainBehindIt) {
  MemberFiles& a = join();
  const Ino ino = make_file(a, "file");
  write(a, ino, {1, 0, 1});
  await_direct_reads(a, ino);
  slow_.is_held_up = true;
  Unit unit;
  unit.fill({1, 0, 2});
  const LocalSlice from{reinterpret_cast<std::byte*>(unit.data()), sizeof(unit), 0};
  Interruption killed;
  killed.raise();
  const auto given_up = a.write(ino, 0, std::span(&from, 1), false, nullptr, false, {.interruption = &killed});
  EXPECT_EQ(given_up.code(), EINTR);
  EXPECT_EQ(slow_.writes, 2) << "it is under way";
  const uint64_t reads = a.data_counts().reads;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(read(a, ino, 0), (Stamp{1, 0, 1}));
  EXPECT_EQ(a.data_counts().reads, reads);
  slow_.is_held_up = false;
  await_direct_reads(a, ino);
  EXPECT_EQ(read(a, ino, 0), (Stamp{1, 0, 2}));
}

TEST_F(SharedData, ABrickThatIsAwayFromTheMemberAloneIsReadByTheCoordinator) {
  MemberFiles& a = join();
  const Ino ino = make_file(a, "file");
  write(a, ino, {1, 0, 1});
  await_direct_reads(a, ino);
  faults_->refuse(true);
  faults_->lose();
  const auto begun = steady_clock::now();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(read(a, ino, 0), (Stamp{1, 0, 1}));
  EXPECT_LT(steady_clock::now() - begun, seconds(10));
  faults_->refuse(false);
  await_direct_reads(a, ino);
}

}  // namespace
}  // namespace brickfs::shared
