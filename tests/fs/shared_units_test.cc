// SPDX-License-Identifier: Apache-2.0
// Members of a shared volume that write to its brick themselves, into units that the coordinator lends them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
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
#include "tests/support/eventually.h"
#include "tests/support/mounted_volume.h"
#include "tests/support/restarting_brick.h"
#include "tests/support/sharing_bed.h"
#include "transport/volume/volume_set.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr uint64_t kRecord = 1 * kMiB;
constexpr uint64_t kBlocks = 160;

// Content that tells which record it is.
std::vector<uint64_t> record(uint64_t number, uint64_t bytes = kRecord) {
  return std::vector<uint64_t>(bytes / sizeof(uint64_t), number);
}

LocalSlice slice_of(std::vector<uint64_t>& words) {
  return {reinterpret_cast<std::byte*>(words.data()), static_cast<uint32_t>(words.size() * sizeof(uint64_t)), 0};
}

Status write(FileOperations& files, Ino ino, uint64_t offset, std::vector<uint64_t> words, bool append = false) {
  const LocalSlice from = slice_of(words);
  const auto written = files.write(ino, offset, std::span(&from, 1), append, nullptr, false, {});
  return written.ok() ? Status() : Status(written.error());
}

std::vector<uint64_t> read(FileOperations& files, Ino ino, uint64_t offset, uint64_t bytes = kRecord) {
  std::vector<uint64_t> words(bytes / sizeof(uint64_t), UINT64_MAX);
  const LocalSlice into = slice_of(words);
  const auto got = files.read(ino, offset, std::span(&into, 1), Touch::kAtime, {});
  EXPECT_TRUE(got.ok());
  words.resize(got.ok() ? *got / sizeof(uint64_t) : 0);
  return words;
}

// The coordinator's files, of which it is not known whether what was done is on the bricks.
class UnsureFiles final : public ForwardedFiles {
 public:
  explicit UnsureFiles(FileOperations& files) : files_(files) {}
  Status await_written(const OperationContext& context) override {
    const int code = fails_with;
    return code != 0 ? Status(Error(code, "as it was told")) : files_.await_written(context);
  }
  // From now on a member's units wait, until the coordinator has died.
  Result<uint64_t> write_units(Ino ino, const FilledRange& filled, const Caller* unprivileged,
                               const OperationContext& context) override {
    if (!is_dying) return files_.write_units(ino, filled, unprivileged, context);
    for (is_asked = true; Interruption::check(context.interruption).ok();) std::this_thread::sleep_for(milliseconds(1));
    return Error(EINTR, "it is dead");
  }
  std::atomic<int> fails_with{0};
  std::atomic<bool> is_dying{false};
  std::atomic<bool> is_asked{false};

 private:
  FileOperations& files() const override { return files_; }
  FileOperations& files_;
};

class SharedUnits : public ::testing::TestWithParam<bool> {  // durable or not
 protected:
  struct Member {
    std::shared_ptr<BrickFaults> faults;
    CoordinatorLink* link = nullptr;
    std::unique_ptr<MemberFiles> files;
  };

  SharedUnits() : brick_(kBlocks, GetParam() ? 2 * kBlocks : 0) { mount(); }
  ~SharedUnits() override {
    for (Member& member : members_) member.files.reset();
    if (coordinator_) coordinator_->stop();
    filesystem_.reset();
  }

  void mount() {
    VolumeOptions options;
    options.open.client = client_ = ClientId{static_cast<uint64_t>(client_) + 1};
    auto volume = VolumeSet::open(brick_.make_brick(), options, nullptr);
    ASSERT_TRUE(volume.ok()) << volume.error().what();
    std::string why;
    auto mounted = Filesystem::mount(std::move(*volume), {.shared = true}, &why);
    ASSERT_TRUE(mounted.ok()) << why;
    filesystem_ = std::move(*mounted);
    auto coordinator = Coordinator::listen("127.0.0.1", 0, "home", secret_of(kTestSecret), lease_);
    ASSERT_TRUE(coordinator.ok());
    coordinator_ = std::move(*coordinator);
    own_ = std::make_unique<LeasedFiles>(*filesystem_, coordinator_->leases());
    served_ = std::make_unique<UnsureFiles>(*own_);
    coordinator_->serve({*served_, filesystem_.get(), client_, nullptr, filesystem_.get()});
    port_ = coordinator_->port();
  }
  // Who is not heard of for that is expelled.
  void mount_with_lease(milliseconds lease) {
    lease_ = lease;
    take_over();
  }
  // The coordinator dies, and another one takes the volume.
  void take_over() {
    coordinator_->stop();
    own_.reset();
    filesystem_.reset();
    mount();
  }

  Member& join() {
    const ClientId client{100 + members_.size()};
    CoordinatorLink::Config config = member_config(port_, client);
    config.request.name = "member " + std::to_string(members_.size());
    config.seek = [this](const CoordinatorLink::Lost&) -> Result<CoordinatorLink::Sought> {
      return CoordinatorLink::Sought{CoordinatorLink::Sought::Kind::kMoved, {"127.0.0.1", port_}};
    };
    std::string why;
    auto joined = CoordinatorLink::join(std::move(config), &why);
    EXPECT_TRUE(joined.ok()) << why;
    Member& member = members_.emplace_back();
    member.link = joined->get();
    member.faults = std::make_shared<BrickFaults>([this] { return make_embedded_brick(brick_.service()); });
    member.files = std::make_unique<MemberFiles>(std::move(*joined), follow(member.faults, client), false, false);
    return member;
  }
  // Without a word: as its host does that loses power.
  void kill(Member& member) {
    member.link->interrupt();
    member.files.reset();
  }

  // Until its writes go to the brick.
  static void write_directly(Member& member, Ino ino, uint64_t offset, const std::vector<uint64_t>& words) {
    const uint64_t before = member.files->unit_counts().writes;
    EXPECT_TRUE(testing::eventually([&] {
      EXPECT_TRUE(write(*member.files, ino, offset, words).ok());
      return member.files->unit_counts().writes > before;
    })) << "nothing is written to the brick";
  }
  uint64_t free_units() { return filesystem_->stat().free_units; }
  // It has made nothing durable, and does again. It is not stopped before its writer has let it go.
  void restart_brick_under(Member& writer) {
    writer.faults->refuse(true);
    writer.faults->lose();
    brick_.restart();
    brick_.faults().answer_all(BrickCall::kCommit, 0);
    writer.faults->refuse(false);
  }

  RestartingBrick brick_;
  milliseconds lease_ = seconds(60);
  ClientId client_{7};
  std::atomic<uint16_t> port_{0};
  std::unique_ptr<Filesystem> filesystem_;
  std::unique_ptr<LeasedFiles> own_;
  std::unique_ptr<UnsureFiles> served_;
  std::unique_ptr<Coordinator> coordinator_;
  std::deque<Member> members_;
};

INSTANTIATE_TEST_SUITE_P(Bricks, SharedUnits, ::testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "Durable" : "Volatile"); });

TEST_P(SharedUnits, WhatIsWrittenToTheBrickIsSeenByAllAndStays) {
  Member& a = join();
  Member& b = join();
  const Ino ino = make_file(*a.files, "file");
  ASSERT_TRUE(b.files->lookup(kRootIno, "file", {}).ok());
  for (uint64_t i = 0; i < 4; ++i) write_directly(a, ino, i * kRecord, record(i));
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read(*b.files, ino, i * kRecord), record(i));
    EXPECT_EQ(read(*own_, ino, i * kRecord), record(i));
  }
  EXPECT_EQ(write(*a.files, ino, (uint64_t{1} << 63) - kRecord, record(9)).code(), EFBIG);
  write_directly(b, ino, kRecord, record(17));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(read(*a.files, ino, kRecord), record(17));
    EXPECT_EQ(read(*a.files, ino, 0), record(0));
  }
  EXPECT_EQ(b.files->get_attributes(ino, {})->size_bytes, 4 * kRecord);
  EXPECT_EQ(b.files->get_attributes(ino, {})->blocks_512, 4 * kRecord / 512) << "what was there is free";
  take_over();
  EXPECT_EQ(read(*a.files, ino, kRecord), record(17));
  EXPECT_EQ(read(*own_, ino, 3 * kRecord), record(3));
}

// Against a copy in memory: parts of units, holes, ends of all kinds, appending, truncation.
TEST_P(SharedUnits, AFileIsAsAnyOther) {
  constexpr uint64_t kWords = 512 * 1'024;
  constexpr uint64_t kUnitWords = kUnitBytes / sizeof(uint64_t);
  Member& a = join();
  const Ino ino = make_file(*a.files, "file");
  std::vector<uint64_t> model;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::minstd_rand random(seed);
  write_directly(a, ino, 0, record(1));
  model = record(1);
  for (uint64_t round = 2; round < 300; ++round) {
    const bool aligned = random() % 4 != 0;
    uint64_t offset = random() % kWords;
    uint64_t length = 1 + random() % (kRecord / sizeof(uint64_t));
    if (aligned) offset = offset / kUnitWords * kUnitWords;
    if (aligned && random() % 2 == 0) length = round_up(length, kUnitWords);
    const std::vector<uint64_t> words(length, round);
    if (random() % 8 == 0) {
      AttributeChange change;
      change.size_bytes = offset * sizeof(uint64_t);
      ASSERT_TRUE(a.files->set_attributes(ino, change, root_caller(), {}).ok());
      model.resize(offset, 0);
      continue;
    }
    const bool append = random() % 8 == 0 && model.size() < 2 * kWords;
    if (append) offset = model.size();
    ASSERT_TRUE(write(*a.files, ino, offset * sizeof(uint64_t), words, append).ok());
    if (model.size() < offset + length) model.resize(offset + length, 0);
    std::ranges::copy(words, model.begin() + static_cast<std::ptrdiff_t>(offset));
    if (round % 16 != 0) continue;
    ASSERT_EQ(read(*own_, ino, 0, model.size() * sizeof(uint64_t)), model) << round;
  }
  EXPECT_GT(a.files->unit_counts().writes, 20u);
  EXPECT_EQ(read(*a.files, ino, 0, model.size() * sizeof(uint64_t)), model);
  take_over();
  EXPECT_EQ(read(*own_, ino, 0, model.size() * sizeof(uint64_t)), model);
}

TEST_P(SharedUnits, WritesAreDoneOnceOverSeveralCoordinators) {
  constexpr uint64_t kPart = 128 * kKiB;
  struct Log {
    Member& member;
    Ino ino = kNoIno;
    std::atomic<uint64_t> records{0};
  };
  std::array<Log, 2> logs{{{join()}, {join()}}};
  for (Log& log : logs) log.ino = make_file(*log.member.files, log.member.link == logs[0].member.link ? "a" : "b");
  std::atomic<bool> stop{false};
  const auto work = [&](Log& log) {
    while (!stop && log.records < 700) {
      ASSERT_TRUE(write(*log.member.files, log.ino, 0, record(log.records + 1, kPart), true).ok());
      ++log.records;
      std::this_thread::sleep_for(milliseconds(2));
    }
  };
  std::vector<std::thread> threads;
  for (Log& log : logs) threads.emplace_back(work, std::ref(log));
  const auto go_on = [&] {
    const uint64_t before = logs[0].records;
    EXPECT_TRUE(testing::eventually([&] { return logs[0].records > before + 30; }));
  };
  for (int i = 0; i < 3; ++i) {
    go_on();
    take_over();
  }
  go_on();
  // Whether there are units for a write is a matter of time.
  const auto direct = [](const Log& log) { return log.member.files->unit_counts().writes; };
  EXPECT_TRUE(testing::eventually([&] { return direct(logs[0]) + direct(logs[1]) > 0; }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (Log& log : logs) {
    ASSERT_EQ(log.member.files->get_attributes(log.ino, {})->size_bytes, log.records * kPart);
    for (uint64_t i = 0; i < log.records; ++i)
      ASSERT_EQ(read(*own_, log.ino, i * kPart, kPart), record(i + 1, kPart)) << i;
  }
}

// The bytes are on the brick, and no file has them: the next coordinator is asked, who has lent nothing.
TEST_P(SharedUnits, ACoordinatorThatDiesBehindAWriteToTheBrick) {
  Member& a = join();
  const Ino ino = make_file(*a.files, "file");
  write_directly(a, ino, 0, record(0));
  served_->is_dying = true;
  std::atomic<uint64_t> records{1};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (; !stop && records < 100; ++records) ASSERT_TRUE(write(*a.files, ino, 0, record(records), true).ok());
  });
  EXPECT_TRUE(testing::eventually([&] { return served_->is_asked.load(); }));
  const uint64_t before = records;
  take_over();
  EXPECT_TRUE(testing::eventually([&] { return records > before; }));
  stop = true;
  writer.join();
  EXPECT_EQ(a.files->get_attributes(ino, {})->size_bytes, records * kRecord);
  for (uint64_t i = 0; i < records; ++i) ASSERT_EQ(read(*own_, ino, i * kRecord), record(i)) << i;
}

// It has not been heard of for a moment, and is expelled: until then nobody is told that the volume is full.
TEST_P(SharedUnits, WhoIsShortOfRoomWaitsForUnitsOfAMemberThatIsGone) {
  mount_with_lease(seconds(4));
  Member& a = join();
  const Ino of_a = make_file(*a.files, "a");
  write_directly(a, of_a, 0, record(1));
  ASSERT_GT(filesystem_->lent_units(), 0u);
  a.link->interrupt();
  const Ino own = make_file(*own_, "own");
  for (uint64_t written = 0; free_units() >= kRecord / kUnitBytes; ++written) {
    const Status done = write(*own_, own, written * kRecord, record(written));
    ASSERT_TRUE(done.ok()) << "though " << free_units() << " units are free";
  }
  EXPECT_TRUE(coordinator_->members().empty());
}

TEST_P(SharedUnits, WhoIsShortOfRoomHasLentUnitsBack) {
  Member& a = join();
  Member& b = join();
  const Ino of_a = make_file(*a.files, "a");
  const Ino of_b = make_file(*b.files, "b");
  write_directly(a, of_a, 0, record(1));
  write_directly(b, of_b, 0, record(2));
  const Ino own = make_file(*own_, "own");
  uint64_t written = 0;
  while (free_units() >= kRecord / kUnitBytes) {
    const Status done = write(*own_, own, written * kRecord, record(written));
    ASSERT_TRUE(done.ok()) << "though " << free_units() << " units are free";
    ++written;
  }
  EXPECT_EQ(read(*b.files, of_a, 0), record(1));
  EXPECT_EQ(read(*a.files, of_b, 0), record(2));
  for (uint64_t i = 0; i < written; ++i) ASSERT_EQ(read(*own_, own, i * kRecord), record(i));
  EXPECT_EQ(write(*a.files, of_a, 64 * kRecord, record(3)).code(), ENOSPC);
}

TEST_P(SharedUnits, WhatAMemberHadIsFreeWhenItIsGone) {
  Member& a = join();
  const uint64_t free = free_units();
  const Ino ino = make_file(*a.files, "file");
  write_directly(a, ino, 0, record(1));
  ASSERT_GT(filesystem_->lent_units(), 0u);
  EXPECT_TRUE(a.files->unmount().ok());
  EXPECT_TRUE(testing::eventually([&] { return filesystem_->lent_units() == 0; }));
  EXPECT_EQ(free_units(), free - kRecord / kUnitBytes);
  Member& b = join();
  EXPECT_EQ(read(*b.files, ino, 0), record(1));
  EXPECT_TRUE(b.files->unmount().ok());
  coordinator_->stop();
  EXPECT_TRUE(filesystem_->unmount().ok());
}

// A member that is not heard of is expelled, and what it may write later lands nowhere.
TEST_P(SharedUnits, ALateWriteOfAMemberThatWasExpelledHarmsNobody) {
  mount_with_lease(milliseconds(1'500));
  Member& a = join();
  const Ino ino = make_file(*a.files, "file");
  write_directly(a, ino, 0, record(1));
  std::atomic<bool> is_held{false};
  std::atomic<bool> may_go_on{false};
  a.faults->set_before_transfers([&] {
    is_held = true;
    while (!may_go_on) std::this_thread::sleep_for(milliseconds(5));
  });
  std::thread late([&] { (void)write(*a.files, ino, 0, record(666)); });
  EXPECT_TRUE(testing::eventually([&] { return is_held.load(); }));
  a.link->interrupt();
  EXPECT_TRUE(testing::eventually([&] { return coordinator_->members().empty(); }));
  EXPECT_TRUE(testing::eventually([&] { return filesystem_->lent_units() == 0; })) << "the brick has let go of it";
  const Ino other = make_file(*own_, "other");
  uint64_t written = 0;
  for (; free_units() >= kRecord / kUnitBytes; ++written)
    ASSERT_TRUE(write(*own_, other, written * kRecord, record(2)).ok());
  may_go_on = true;
  late.join();
  EXPECT_EQ(read(*own_, ino, 0), record(1));
  for (uint64_t i = 0; i < written; ++i) ASSERT_EQ(read(*own_, other, i * kRecord), record(2)) << i;
  a.files.reset();
}

TEST_P(SharedUnits, ABrickThatRestartsGetsWhatMembersHaveWritten) {
  if (!GetParam()) GTEST_SKIP() << "what is volatile is gone";
  Member& a = join();
  const Ino ino = make_file(*a.files, "file");
  ASSERT_TRUE(filesystem_->sync_all().ok());
  brick_.faults().answer_all(BrickCall::kCommit, EIO);
  for (uint64_t i = 0; i < 4; ++i) write_directly(a, ino, i * kRecord, record(i));
  restart_brick_under(a);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(read(*own_, ino, i * kRecord), record(i));
  write_directly(a, ino, 0, record(5));
  EXPECT_EQ(read(*own_, ino, 0), record(5));
}

// The volume has taken them: an error behind that is none by which the member lets go of its bytes.
TEST_P(SharedUnits, BytesOfAWriteThatWasDoneAreKeptThoughItsAnswerIsAnError) {
  if (!GetParam()) GTEST_SKIP() << "what is volatile is gone";
  Member& a = join();
  const Ino ino = make_file(*a.files, "file");
  write_directly(a, ino, 0, record(1));
  ASSERT_TRUE(filesystem_->sync_all().ok());
  brick_.faults().answer_all(BrickCall::kCommit, EIO);
  const uint64_t passed_on = a.files->unit_counts().passed_on;
  served_->fails_with = ENOSPC;
  EXPECT_EQ(write(*a.files, ino, 0, record(2)).code(), EIO);
  served_->fails_with = 0;
  ASSERT_EQ(a.files->unit_counts().passed_on, passed_on + 1) << "it went to the brick, and failed behind that";
  ASSERT_EQ(read(*own_, ino, 0), record(2));
  restart_brick_under(a);
  EXPECT_EQ(read(*own_, ino, 0), record(2));
  EXPECT_TRUE(write(*a.files, ino, 0, record(3)).ok()) << "nor is it expelled";
}

// It lives, and has not what it should keep: so it is told, as one whose programs have lost something.
TEST_P(SharedUnits, AMemberThatDoesNotHaveItsBytesIsExpelled) {
  if (!GetParam()) GTEST_SKIP() << "what is volatile is gone";
  Member& a = join();
  const Ino ino = make_file(*a.files, "file");
  write_directly(a, ino, 0, record(1));
  ASSERT_TRUE(filesystem_->sync_all().ok());
  brick_.faults().answer_all(BrickCall::kCommit, EIO);
  write_directly(a, ino, 0, record(2));
  a.link->set_units(nullptr);
  restart_brick_under(a);
  EXPECT_EQ(read(*own_, ino, 0), record(0));
  EXPECT_TRUE(testing::eventually([&] { return coordinator_->members().empty(); }));
  EXPECT_TRUE(testing::eventually([&] { return a.link->final_error().code() == ESTALE; }));
  EXPECT_EQ(coordinator_->expelled(), 1u);
}

TEST_P(SharedUnits, WithAMemberAndABrickWhatTheyHadIsZeros) {
  if (!GetParam()) GTEST_SKIP() << "what is volatile is gone";
  mount_with_lease(milliseconds(1'500));
  Member& a = join();
  const Ino ino = make_file(*a.files, "file");
  const Ino own = make_file(*own_, "own");
  write_directly(a, ino, 0, record(1));
  ASSERT_TRUE(filesystem_->sync_all().ok());
  brick_.faults().answer_all(BrickCall::kCommit, EIO);
  write_directly(a, ino, kRecord, record(2));
  ASSERT_TRUE(write(*own_, own, 0, record(3)).ok());
  kill(a);
  EXPECT_TRUE(testing::eventually([&] { return coordinator_->members().empty(); })) << "it is expelled";
  brick_.restart();
  brick_.faults().answer_all(BrickCall::kCommit, 0);
  EXPECT_EQ(read(*own_, ino, 0), record(1));
  EXPECT_EQ(read(*own_, ino, kRecord), record(0));
  EXPECT_EQ(read(*own_, own, 0), record(3));
}

// It hears of no brick and of no member: nobody can tell whether they are there, and nothing waits for them alone.
TEST_P(SharedUnits, NobodyIsExpelledByACoordinatorThatIsItselfCutOff) {
  if (GetParam()) GTEST_SKIP() << "the same";
  mount_with_lease(milliseconds(2'500));  // a member says once a second that it is there
  Member& a = join();
  Member& b = join();
  brick_.faults().refuse(true);
  brick_.faults().lose();
  kill(a);
  EXPECT_TRUE(testing::eventually([&] { return coordinator_->expelled() == 1; })) << "another one is heard of";
  kill(b);
  std::this_thread::sleep_for(2 * lease_);
  EXPECT_EQ(coordinator_->expelled(), 1u);
  brick_.faults().refuse(false);
  EXPECT_TRUE(testing::eventually([&] { return coordinator_->expelled() == 2; })) << "the brick is back, and b is not";
}

// A member is not believed.
TEST_P(SharedUnits, UnitsThatAreNotLentToItAMemberDoesNotWrite) {
  Member& a = join();
  Member& b = join();
  const Ino ino = make_file(*a.files, "file");
  write_directly(a, ino, 0, record(1));
  Result<Lent> lent = Error(EAGAIN);
  ASSERT_TRUE(testing::eventually([&] {
    lent = a.link->ask(GetUnits{1}, {});
    return lent.ok() && !lent->runs.empty();
  }));
  const auto part = filesystem_->layout(ino, 0, 1)->parts.at(0);
  WriteUnits asked;
  asked.ino = ino;
  asked.length = kUnitBytes;
  asked.lender = lent->lender;
  asked.places = lent->places;
  const UnitRun mine{lent->runs[0].first, 1};
  const auto code = [&](Member& member, std::vector<UnitRun> runs) {
    asked.runs = std::move(runs);
    asked.length = asked.runs.size() * kUnitBytes;
    return member.link->ask(asked, {}).code();
  };
  EXPECT_EQ(code(b, {mine}), EAGAIN) << "another's";
  EXPECT_EQ(code(a, {{part.address / kUnitBytes, 1}}), EAGAIN) << "a file's";
  EXPECT_EQ(code(a, {{mine.first, 1}, {mine.first, 1}}), EAGAIN) << "twice";
  EXPECT_EQ(code(a, {{lent->runs[0].first + kUnitsPerBlock - 1, 2}}), EAGAIN) << "in two blocks";
  EXPECT_EQ(code(a, {{UINT64_MAX, 1}}), EAGAIN);
  asked.lender ^= 1;
  EXPECT_EQ(code(a, {mine}), EAGAIN) << "a former coordinator's";
  asked.lender ^= 1;
  EXPECT_EQ(code(a, {mine}), 0);
  EXPECT_EQ(code(a, {mine}), EAGAIN) << "used before";
  EXPECT_EQ(read(*own_, ino, kUnitBytes, kUnitBytes), record(1, kUnitBytes));
}

}  // namespace
}  // namespace brickfs::shared
