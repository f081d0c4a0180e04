// SPDX-License-Identifier: Apache-2.0
// One volume on several machines: what members and the coordinator see of each other, and what goes when one leaves.
#include "tests/support/shared_volume.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "transport/membership/coordinator_name.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::eventually;

TEST_F(SharedVolume, WhatOneDoesTheOthersSee) {
  share();
  const auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino ino = make_file(*a, "file");
  ASSERT_TRUE(write_text(*a, ino, 0, "hello from a").ok());
  const auto found = b->lookup(kRootIno, "file", {});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->size_bytes, 12u);
  EXPECT_EQ(read_text(*b, found->ino, 6, 100), "from a");
  EXPECT_EQ(read_text(*own_, found->ino, 0, 5), "hello");
  ASSERT_TRUE(write_text(*b, ino, 0, ", and b", true).ok());
  EXPECT_EQ(read_text(*a, ino, 0, 100), "hello from a, and b");
  EXPECT_EQ(b->create(kRootIno, "file", S_IFREG | 0644, root_caller(), {}).code(), EEXIST);
  ASSERT_TRUE(b->rename(kRootIno, "file", kRootIno, "other", Rename::kReplace, nullptr, {}).ok());
  EXPECT_EQ(a->lookup(kRootIno, "file", {}).code(), ENOENT);
  const std::string value = "value";
  ASSERT_TRUE(a->set_xattr(ino, "user.key", std::as_bytes(std::span(value)), 0, root_caller(), {}).ok());
  EXPECT_EQ(b->get_xattr(ino, "user.key", {})->size(), 5u);
  EXPECT_EQ(coordinator_->members().size(), 2u);
}

// What a machine knows of the others' changes: as many had ended before it looked, and as many had begun when it had.
struct Changes {
  std::atomic<int64_t> begun{0};
  std::atomic<int64_t> ended{0};
};

// Each machine changes things of its own, one of them at a time, and all look at all of them. A thing's n-th change
// leaves n to be seen: in its time, in an extended attribute, and in whether a name is there.
TEST_F(SharedVolume, NobodySeesWhatWasOverWhenHeLooked) {
  share();
  const auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  constexpr size_t kMachines = 3;
  const std::array<FileOperations*, kMachines> machines = {own_.get(), a.get(), b.get()};
  std::array<std::array<Ino, kMachines>, kMachines> inos;  // of that one's file, as that machine has found it
  std::array<Changes, kMachines> changes;
  for (size_t i = 0; i < kMachines; ++i) make_file(*machines[i], "file" + std::to_string(i));
  for (size_t i = 0; i < kMachines; ++i)
    for (size_t k = 0; k < kMachines; ++k)
      inos[i][k] = machines[k]->lookup(kRootIno, "file" + std::to_string(i), {})->ino;
  std::atomic<bool> stop{false};
  const auto change = [&](size_t i) {
    const std::string name = "name" + std::to_string(i);
    for (int64_t n = 1; !stop; ++n) {
      ++changes[i].begun;
      AttributeChange time;
      time.mtime = TimeNs{n};
      ASSERT_TRUE(machines[i]->set_attributes(inos[i][i], time, root_caller(), {}).ok());
      const std::string value = std::to_string(n);
      const auto bytes = std::as_bytes(std::span(value));
      ASSERT_TRUE(machines[i]->set_xattr(inos[i][i], "user.n", bytes, 0, root_caller(), {}).ok());
      if (n % 2 == 1) {
        ASSERT_TRUE(machines[i]->link(inos[i][i], kRootIno, name, {}).ok());
      } else {
        ASSERT_TRUE(machines[i]->unlink(kRootIno, name, {}).ok());
      }
      ++changes[i].ended;
      if (n % 8 == 0) std::this_thread::sleep_for(milliseconds(2));  // so that something is held
    }
  };
  std::atomic<uint64_t> looks{0};
  const auto look = [&](size_t k) {
    for (size_t i = 0; !stop; i = (i + 1) % kMachines, ++looks) {
      const int64_t ended = changes[i].ended;
      const auto attributes = machines[k]->get_attributes(inos[i][k], {});
      const auto value = machines[k]->get_xattr(inos[i][k], "user.n", {});
      const auto found = machines[k]->lookup(kRootIno, "name" + std::to_string(i), {});
      const int64_t begun = changes[i].begun;
      ASSERT_TRUE(attributes.ok());
      if (ended > 0) {
        EXPECT_GE(static_cast<int64_t>(attributes->mtime), ended) << i << " seen by " << k;
        EXPECT_LE(static_cast<int64_t>(attributes->mtime), begun);
        ASSERT_TRUE(value.ok());
        const std::string text(reinterpret_cast<const char*>(value->data()), value->size());
        EXPECT_GE(std::stoll(text), ended) << i << " seen by " << k;
      }
      if (ended == begun) {
        EXPECT_EQ(found.ok(), ended % 2 == 1) << i << " seen by " << k;
      }
      if (found.ok()) machines[k]->forget(found->ino, 1);
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kMachines; ++i) {
    threads.emplace_back(change, i);
    threads.emplace_back(look, i);
  }
  std::this_thread::sleep_for(seconds(3));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(coordinator_->leases().counts().recalls, 0u);
  EXPECT_EQ(coordinator_->leases().counts().lapsed, 0u);
}

// What is held is answered without a call.
TEST_F(SharedVolume, WhatIsHeldIsAnsweredFromMemory) {
  share();
  const auto member = join();
  ASSERT_TRUE(member);
  const Ino ino = make_file(*own_, "file");
  ASSERT_TRUE(eventually([&] {
    const auto before = coordinator_->members()[0].calls;
    EXPECT_TRUE(member->lookup(kRootIno, "file", {}).ok());
    EXPECT_TRUE(member->get_attributes(ino, {}).ok());
    EXPECT_EQ(member->get_xattr(ino, "user.none", {}).code(), ENODATA);
    EXPECT_EQ(member->lookup(kRootIno, "none", {}).code(), ENOENT);
    std::vector<std::string> names;
    const auto take = [&](const DirectoryEntry& entry) {
      names.emplace_back(entry.name);
      return true;
    };
    EXPECT_TRUE(member->read_directory(kRootIno, 0, true, take, Touch::kNothing, {}).ok());
    EXPECT_EQ(names.size(), 3u);
    return coordinator_->members()[0].calls == before;
  }));
  EXPECT_TRUE(own_->unlink(kRootIno, "file", {}).ok());
  EXPECT_EQ(member->lookup(kRootIno, "file", {}).code(), ENOENT);
}

TEST_F(SharedVolume, LongTransfersGoInParts) {
  share();
  const auto member = join();
  ASSERT_TRUE(member);
  const Ino ino = make_file(*member, "file");
  std::string text(3 * kMostData + 17, 'a');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  ASSERT_TRUE(write_text(*member, ino, 5, text).ok());
  EXPECT_EQ(read_text(*member, ino, 5, text.size() + 100), text);
}

TEST_F(SharedVolume, ALongListingIsWhole) {
  share();
  const auto member = join();
  ASSERT_TRUE(member);
  constexpr int kFiles = 3 * kMostEntries + 5;
  for (int i = 0; i < kFiles; ++i) make_file(*own_, "file" + std::to_string(i));
  std::vector<std::string> names;
  const auto take = [&](const DirectoryEntry& entry) {
    names.emplace_back(entry.name);
    return true;
  };
  ASSERT_TRUE(member->read_directory(kRootIno, 0, true, take, Touch::kNothing, {}).ok());
  EXPECT_EQ(names.size(), kFiles + 2u);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::unique(names).size(), 0u);
}

TEST_F(SharedVolume, AFileStaysWhileAMemberRefersToIt) {
  share();
  const auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino ino = make_file(*a, "file");
  ASSERT_TRUE(write_text(*a, ino, 0, "here").ok());
  ASSERT_TRUE(b->unlink(kRootIno, "file", {}).ok());
  EXPECT_EQ(read_text(*a, ino, 0, 100), "here");
  EXPECT_EQ(a->get_attributes(ino, {})->nlink, 0u);
  a->forget(ino, 1);
  EXPECT_TRUE(eventually([&] { return b->get_attributes(ino, {}).code() == ESTALE; }));
}

TEST_F(SharedVolume, WhatItRefersToAMemberHoldsWithoutACall) {
  share();
  CoordinatorLink* link = nullptr;
  const auto a = join(&link);
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino ino = make_file(*a, "file");
  ASSERT_TRUE(a->hold(ino).ok());
  for (const CallCounters::Call& call : link->calls()) EXPECT_NE(call.name, "hold");
  a->forget(ino, 1);
  ASSERT_TRUE(b->unlink(kRootIno, "file", {}).ok());
  EXPECT_TRUE(a->get_attributes(ino, {}).ok()) << "one of two references is left";
  EXPECT_EQ(b->hold(Ino{12'345}).code(), ESTALE) << "of others the coordinator is asked";
}

TEST_F(SharedVolume, LocksHoldBetweenMachines) {
  share();
  auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino ino = make_file(*a, "file");
  LockRequest lock{ino, {0, 1, LockKind::kRange}, 1, {0, 9, LockMode::kExclusive, 42}};
  EXPECT_TRUE(a->set_lock(lock, false, {}).ok());
  EXPECT_EQ(b->set_lock(lock, false, {}).code(), EAGAIN) << "the same number of an owner on another machine";
  const auto found = b->find_lock(lock, {});
  ASSERT_TRUE(found.ok() && *found);
  EXPECT_EQ((*found)->pid, 0u);
  Interruption interruption;
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(100));
    interruption.raise();
  });
  EXPECT_EQ(b->set_lock(lock, true, {.interruption = &interruption}).code(), EINTR);
  later.join();
  Status got = Error(EINVAL);
  std::thread waiter([&] { got = b->set_lock(lock, true, {}); });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_TRUE(a->unmount().ok()) << "which gives all of its locks back";
  waiter.join();
  EXPECT_TRUE(got.ok());
}

TEST_F(SharedVolume, WhoLeavesLetsGoOfWhatHeHeld) {
  share();
  auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino ino = make_file(*a, "file");
  ASSERT_TRUE(b->unlink(kRootIno, "file", {}).ok());
  ASSERT_TRUE(b->get_attributes(ino, {}).ok());
  EXPECT_TRUE(a->unmount().ok());
  EXPECT_TRUE(eventually([&] { return b->get_attributes(ino, {}).code() == ESTALE; }));
  EXPECT_TRUE(eventually([&] { return coordinator_->members().size() == 1; }));
}

TEST(SharedVolumeName, TellsWhereTheCoordinatorIs) {
  const std::string name = name_of_coordinator("host (pid 12)", {"10.0.0.1", 4711});
  EXPECT_EQ(name, "host (pid 12) shares at 10.0.0.1:4711");
  EXPECT_EQ(address_of_coordinator(name)->host, "10.0.0.1");
  EXPECT_EQ(address_of_coordinator(name)->port, 4711);
  const auto six = address_of_coordinator(name_of_coordinator(std::string(127, 'x'), {"fe80::1", 1}));
  EXPECT_EQ(six->host, "fe80::1");
  for (const char* const nobody :
       {"host (pid 12)", "x shares at ", "x shares at :1", "x shares at a:0", "x shares at a:b"})
    EXPECT_FALSE(address_of_coordinator(nobody)) << nobody;
}

}  // namespace
}  // namespace brickfs::shared
