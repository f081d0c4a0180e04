// SPDX-License-Identifier: Apache-2.0
// One volume on several machines: members' calls, and the coordinator that does them, over TCP on this host.
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "fs/shared/coordinator.h"
#include "fs/shared/leased_files.h"
#include "fs/shared/member_files.h"
#include "tests/support/mounted_volume.h"
#include "transport/membership/coordinator_name.h"
#include "transport/tcp/greet.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kLongLease = seconds(60);

Secret secret_of(std::string_view text) { return {SecretBytes(text)}; }

bool comes_true(const std::function<bool()>& condition) {
  const auto until = steady_clock::now() + seconds(30);
  while (!condition() && steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(5));
  return condition();
}

LocalSlice slice(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), static_cast<uint32_t>(text.size()), 0};
}

Status write_text(FileOperations& files, Ino ino, uint64_t offset, std::string text, bool append = false) {
  const LocalSlice from = slice(text);
  const auto written = files.write(ino, offset, std::span(&from, 1), append, nullptr);
  if (!written.ok()) return written.error();
  EXPECT_EQ(*written, text.size());
  return {};
}

std::string read_text(FileOperations& files, Ino ino, uint64_t offset, size_t length) {
  std::string text(length, 'x');
  const LocalSlice into = slice(text);
  const auto got = files.read(ino, offset, std::span(&into, 1));
  EXPECT_TRUE(got.ok());
  text.resize(got.ok() ? *got : 0);
  return text;
}

template <typename T>
Status status_of(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

class SharedVolume : public ::testing::Test {
 protected:
  void share(milliseconds lease = kLongLease, OwnKernel* kernel = nullptr) {
    auto coordinator = Coordinator::listen("127.0.0.1", 0, "home", secret_of("a secret"), lease);
    ASSERT_TRUE(coordinator.ok());
    coordinator_ = std::move(*coordinator);
    own_ = std::make_unique<LeasedFiles>(*volume_, coordinator_->leases());
    coordinator_->serve({*own_, &*volume_, client_, kernel}, grace_);
  }
  CoordinatorLink::Config config(std::string_view secret = "a secret") {
    CoordinatorLink::Config config;
    config.address = {"127.0.0.1", coordinator_->port()};
    config.secret = secret_of(secret);
    config.request.client = ClientId{++clients_};
    config.request.volume = "home";
    config.request.name = "a member";
    config.seek = [this](const CoordinatorLink::Lost&) -> Result<CoordinatorLink::Sought> {
      using Sought = CoordinatorLink::Sought;
      const uint16_t port = next_port_;
      if (port != 0) return Sought{Sought::Kind::kMoved, {"127.0.0.1", port}};
      return Sought{holds_ ? Sought::Kind::kHolds : Sought::Kind::kEnded, {}, "it has ended"};
    };
    return config;
  }
  std::unique_ptr<MemberFiles> join(CoordinatorLink** link = nullptr) {
    std::string why;
    auto joined = CoordinatorLink::join(config(), &why);
    EXPECT_TRUE(joined.ok()) << why;
    if (!joined.ok()) return nullptr;
    if (link != nullptr) *link = joined->get();
    return std::make_unique<MemberFiles>(std::move(*joined), nullptr, false, false);
  }
  Ino make(FileOperations& files, std::string_view name) {
    const auto made = files.create(kRootIno, name, S_IFREG | 0644, root_caller());
    EXPECT_TRUE(made.ok());
    return made.ok() ? made->ino : kNoIno;
  }

  // The coordinator dies with its file system; another one takes the volume.
  void take_over() {
    coordinator_->stop();
    volume_.crash_and_mount();
    client_ = ClientId{raw_of(client_) + 1};
    share();
    next_port_ = coordinator_->port();
  }
  static uint64_t raw_of(ClientId client) { return static_cast<uint64_t>(client); }

  MountedVolume volume_{MountedVolume::Options{.mount = {.shared = true}}};
  ClientId client_{7};
  milliseconds grace_ = seconds(30);
  std::atomic<uint16_t> next_port_{0};
  std::unique_ptr<LeasedFiles> own_;  // what the coordinator's programs go by
  std::unique_ptr<Coordinator> coordinator_;
  uint64_t clients_ = 100;
  std::atomic<bool> holds_{true};
};

TEST_F(SharedVolume, WhatOneDoesTheOthersSee) {
  share();
  const auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino ino = make(*a, "file");
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
  for (size_t i = 0; i < kMachines; ++i) make(*machines[i], "file" + std::to_string(i));
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

TEST_F(SharedVolume, ACallThatWasGivenUpBeforeItCameIsNotDone) {
  share();
  JoinRequest request = config().request;
  const auto connect = [&](uint32_t slot) {
    auto greeted = *tcp::greet(config().address, steady_clock::now() + seconds(10));
    request.slot = slot;
    const auto joined =
        shared::join(*greeted.channel, greeted.nonces, secret_of("a secret"), request, greeted.deadline);
    EXPECT_TRUE(joined.ok());
    request.session = joined->session;
    request.token = joined->token;
    return std::move(greeted.channel);
  };
  const auto ask = [&](Channel& channel, uint64_t number, const auto& asked) {
    wire::CallHeader header;
    header.kind = kind_of<std::decay_t<decltype(asked)>>();
    header.id = number;
    EXPECT_TRUE(channel.send(header, encode(asked)).ok());
    return channel.receive(steady_clock::now() + seconds(10));
  };
  const auto keeper = connect(0);
  const auto other = connect(3);
  const auto cancelled = ask(*keeper, 1, Cancel{3, 1, true});
  ASSERT_TRUE(cancelled.ok());
  EXPECT_TRUE(decode<Cancelled>(cancelled->body)->is_over) << "it will never be done";
  const Make make{Make::How::kFile, kRootIno, "file", S_IFREG | 0644, 0, "", to_who(root_caller())};
  EXPECT_NE(ask(*other, 1, make)->header.status, 0);
  EXPECT_EQ(own_->lookup(kRootIno, "file", {}).code(), ENOENT);
  EXPECT_EQ(ask(*other, 2, make)->header.status, 0);
}

// What is held is answered without a call.
TEST_F(SharedVolume, WhatIsHeldIsAnsweredFromMemory) {
  share();
  const auto member = join();
  ASSERT_TRUE(member);
  const Ino ino = make(*own_, "file");
  ASSERT_TRUE(comes_true([&] {
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
  const Ino ino = make(*member, "file");
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
  for (int i = 0; i < kFiles; ++i) make(*own_, "file" + std::to_string(i));
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
  const Ino ino = make(*a, "file");
  ASSERT_TRUE(write_text(*a, ino, 0, "here").ok());
  ASSERT_TRUE(b->unlink(kRootIno, "file", {}).ok());
  EXPECT_EQ(read_text(*a, ino, 0, 100), "here");
  EXPECT_EQ(a->get_attributes(ino, {})->nlink, 0u);
  a->forget(ino, 1);
  EXPECT_TRUE(comes_true([&] { return b->get_attributes(ino, {}).code() == ESTALE; }));
}

TEST_F(SharedVolume, WhatItRefersToAMemberHoldsWithoutACall) {
  share();
  CoordinatorLink* link = nullptr;
  const auto a = join(&link);
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino ino = make(*a, "file");
  ASSERT_TRUE(a->hold(ino).ok());
  for (const CallCounters::Call& call : link->calls()) EXPECT_NE(call.name, "hold");
  a->forget(ino, 1);
  ASSERT_TRUE(b->unlink(kRootIno, "file", {}).ok());
  EXPECT_TRUE(a->get_attributes(ino, {}).ok()) << "one of two references is left";
  EXPECT_EQ(b->hold(Ino{12'345}).code(), ESTALE) << "of others the coordinator is asked";
}

TEST_F(SharedVolume, WhoLeavesLetsGoOfWhatHeHeld) {
  share();
  auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino ino = make(*a, "file");
  ASSERT_TRUE(b->unlink(kRootIno, "file", {}).ok());
  ASSERT_TRUE(b->get_attributes(ino, {}).ok());
  EXPECT_TRUE(a->unmount().ok());
  EXPECT_TRUE(comes_true([&] { return b->get_attributes(ino, {}).code() == ESTALE; }));
  EXPECT_TRUE(comes_true([&] { return coordinator_->members().size() == 1; }));
}

TEST_F(SharedVolume, WhoIsNotHeardOfIsExpelled) {
  share(milliseconds(300));
  CoordinatorLink::Config silent = config();
  const auto b = join();
  {
    std::string why;
    auto greeted = tcp::greet(silent.address, steady_clock::now() + seconds(10));
    ASSERT_TRUE(greeted.ok());
    ASSERT_TRUE(
        shared::join(*greeted->channel, greeted->nonces, silent.secret.get(), silent.request, greeted->deadline).ok());
  }
  EXPECT_TRUE(comes_true([&] { return coordinator_->members().size() <= 1; }));
}

TEST_F(SharedVolume, ACallThatComesAgainIsNotDoneTwice) {
  share();
  const auto greet = [&] { return *tcp::greet(config().address, steady_clock::now() + seconds(10)); };
  auto first = greet();
  JoinRequest request = config().request;
  const auto joined = shared::join(*first.channel, first.nonces, secret_of("a secret"), request, first.deadline);
  ASSERT_TRUE(joined.ok());
  const Make make{Make::How::kFile, kRootIno, "file", S_IFREG | 0644, 0, "", to_who(root_caller())};
  const auto ask = [&](Channel& channel, uint64_t number) {
    wire::CallHeader header;
    header.kind = kind_of<Make>();
    header.id = number;
    EXPECT_TRUE(channel.send(header, encode(make)).ok());
    return channel.receive(steady_clock::now() + seconds(10));
  };
  const auto made = ask(*first.channel, 1);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->header.status, 0);
  first.channel->shut_down();
  auto second = greet();
  request.session = joined->session;
  request.token = joined->token;
  ASSERT_TRUE(shared::join(*second.channel, second.nonces, secret_of("a secret"), request, second.deadline).ok());
  const auto again = ask(*second.channel, 1);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->header.status, 0) << "the same answer, and not EEXIST";
  EXPECT_EQ(again->body, made->body);
  EXPECT_EQ(ask(*second.channel, 2)->header.status, EEXIST);
  EXPECT_FALSE(ask(*second.channel, 1).ok()) << "out of turn";
}

TEST_F(SharedVolume, LostConnectionsComeAgain) {
  share();
  CoordinatorLink* link = nullptr;
  const auto member = join(&link);
  ASSERT_TRUE(member);
  std::atomic<bool> stop{false};
  std::thread cutter([&] {
    while (!stop) {
      link->give_up_silent();
      std::this_thread::sleep_for(milliseconds(3));
    }
  });
  const Ino log = make(*member, "log");
  for (int i = 0; i < 300; ++i) {
    const std::string name = "file" + std::to_string(i);
    EXPECT_TRUE(member->create(kRootIno, name, S_IFREG | 0644, root_caller(), {}).ok()) << name;
    EXPECT_TRUE(write_text(*member, log, 0, "0123456789", true).ok());
  }
  stop = true;
  cutter.join();
  EXPECT_EQ(member->get_attributes(log, {})->size_bytes, 3000u);
}

TEST_F(SharedVolume, ACoordinatorThatHasGoneIsALostVolume) {
  share();
  const auto member = join();
  ASSERT_TRUE(member);
  make(*member, "file");
  coordinator_->stop();
  holds_ = false;
  EXPECT_TRUE(comes_true([&] { return member->get_attributes(kRootIno, {}).code() == ESTALE; }));
  EXPECT_EQ(member->volume().final_error().code(), ESTALE);
}

// What was done and not answered is not done again: whatever the instant, over several coordinators.
TEST_F(SharedVolume, ACoordinatorThatDiesIsFollowedByAnother) {
  share();
  const auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino log = make(*a, "log");
  ASSERT_TRUE(b->lookup(kRootIno, "log", {}).ok());
  std::atomic<bool> stop{false};
  std::atomic<int> lines{0}, files{0};
  const auto work = [&](MemberFiles& member, char name) {
    for (int i = 0; !stop; ++i) {
      const std::string text = fmt::format("{}{:06}\n", name, i);
      ASSERT_TRUE(write_text(member, log, 0, text, true).ok());
      ++lines;
      const std::string file = fmt::format("{}{}", name, i);
      const auto made = member.create(kRootIno, file, S_IFREG | 0644, root_caller(), {});
      ASSERT_TRUE(made.ok()) << made.code();
      const Status moved =
          status_of(member.rename(kRootIno, file, kRootIno, file + "m", Rename::kNoReplace, nullptr, {}));
      ASSERT_TRUE(moved.ok()) << moved.code();
      if (i % 2 == 0) {
        ASSERT_TRUE(member.unlink(kRootIno, file + "m", {}).ok());
      } else {
        ++files;
      }
      member.forget(made->ino, 1);
    }
  };
  std::thread of_a([&] { work(*a, 'a'); });
  std::thread of_b([&] { work(*b, 'b'); });
  for (int i = 0; i < 4; ++i) {
    const int before = lines;
    EXPECT_TRUE(comes_true([&] { return lines > before + 20; }));
    take_over();
  }
  const int before = lines;
  EXPECT_TRUE(comes_true([&] { return lines > before + 20; }));
  stop = true;
  of_a.join();
  of_b.join();
  const std::string text = read_text(*a, log, 0, 10'000'000);
  ASSERT_EQ(text.size(), static_cast<size_t>(lines) * 8);
  std::set<std::string> seen;
  for (size_t at = 0; at < text.size(); at += 8) EXPECT_TRUE(seen.insert(text.substr(at, 8)).second) << at;
  int names = 0;
  const auto count = [&](const DirectoryEntry&) { return ++names, true; };
  ASSERT_TRUE(b->read_directory(kRootIno, 0, false, count, Touch::kNothing, {}).ok());
  EXPECT_EQ(names, files + 3);  // . .. log
}

TEST_F(SharedVolume, OpenFilesAndLocksAreClaimedOfTheNextCoordinator) {
  share();
  const auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino open = make(*a, "open");
  ASSERT_TRUE(write_text(*a, open, 0, "still here").ok());
  const Ino locked = make(*a, "locked");
  const Ino closed = make(*b, "closed");
  ASSERT_TRUE(b->lookup(kRootIno, "locked", {}).ok());
  const LockRequest of_a{locked, {0, 5, LockKind::kRange}, 9, {10, 19, LockMode::kExclusive, 77}};
  const LockRequest of_b{locked, {0, 5, LockKind::kRange}, 9, {15, 15, LockMode::kExclusive, 78}};
  ASSERT_TRUE(a->set_lock(of_a, false, {}).ok());
  ASSERT_TRUE(b->unlink(kRootIno, "open", {}).ok());
  ASSERT_TRUE(a->unlink(kRootIno, "closed", {}).ok());
  b->forget(closed, 1);
  take_over();
  EXPECT_EQ(read_text(*a, open, 0, 100), "still here");
  EXPECT_EQ(b->set_lock(of_b, false, {}).code(), EAGAIN);
  EXPECT_EQ(a->get_attributes(closed, {}).code(), ESTALE);
  LockRequest unlocked = of_a;
  unlocked.lock.mode = LockMode::kUnlocked;
  ASSERT_TRUE(a->set_lock(unlocked, false, {}).ok());
  take_over();
  EXPECT_TRUE(b->set_lock(of_b, false, {}).ok());
  a->forget(open, 1);
  EXPECT_TRUE(comes_true([&] { return volume_->get_attributes(open).code() == ESTALE; }));
}

// Nothing is done for anybody before all have come; whoever does not is lost, and what he had open and locked.
TEST_F(SharedVolume, WhoDoesNotComeToTheNextCoordinatorIsExpelled) {
  share();
  const auto a = join();
  CoordinatorLink* link = nullptr;
  auto b = join(&link);
  ASSERT_TRUE(a && b);
  const Ino open = make(*b, "open");
  ASSERT_TRUE(a->unlink(kRootIno, "open", {}).ok());
  link->interrupt();
  b.reset();
  grace_ = milliseconds(2'500);
  const auto begun = steady_clock::now();
  take_over();
  EXPECT_TRUE(a->get_attributes(kRootIno, {}).ok());
  EXPECT_GE(steady_clock::now() - begun, milliseconds(2'500));
  EXPECT_EQ(a->get_attributes(open, {}).code(), ESTALE);
  EXPECT_EQ(coordinator_->members().size(), 1u);
  EXPECT_EQ(volume_->members().size(), 1u);
}

TEST_F(SharedVolume, WhoWaitsForACoordinatorThatIsAwayCanBeInterrupted) {
  share();
  const auto member = join();
  ASSERT_TRUE(member);
  coordinator_->stop();
  Interruption interruption;
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(100));
    interruption.raise();
  });
  EXPECT_EQ(member->get_attributes(kRootIno, {.interruption = &interruption}).code(), EINTR);
  later.join();
  EXPECT_TRUE(comes_true([&] { return member->volume().is_away(); }));
}

TEST_F(SharedVolume, LocksHoldBetweenMachines) {
  share();
  auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino ino = make(*a, "file");
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

TEST_F(SharedVolume, WhoDoesNotKnowTheSecretIsRefused) {
  share();
  std::string why;
  EXPECT_EQ(CoordinatorLink::join(config("another"), &why).code(), EACCES);
  EXPECT_NE(why.find("secret"), std::string::npos) << why;
  CoordinatorLink::Config other = config();
  other.request.volume = "another";
  EXPECT_EQ(CoordinatorLink::join(std::move(other), &why).code(), ENOENT);
}

TEST_F(SharedVolume, BytesThatNoMemberSendsEndTheConnectionAlone) {
  share();
  const auto member = join();
  ASSERT_TRUE(member);
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> body(random() % 300);
    for (std::byte& byte : body) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    const auto decoded = decode_request(static_cast<uint16_t>(random() % (kKinds + 2)), body);
    EXPECT_TRUE(decoded.ok() || decoded.code() == EPROTO);
  }
  for (int round = 0; round < 50; ++round) {
    auto greeted = tcp::greet(config().address, steady_clock::now() + seconds(10));
    ASSERT_TRUE(greeted.ok());
    ASSERT_TRUE(
        shared::join(*greeted->channel, greeted->nonces, secret_of("a secret"), config().request, greeted->deadline)
            .ok());
    wire::CallHeader header;
    header.kind = static_cast<uint16_t>(random() % (kKinds + 2));
    header.id = random() % 3;
    std::vector<std::byte> body(random() % 200);
    for (std::byte& byte : body) byte = static_cast<std::byte>(random());
    (void)greeted->channel->send(header, body);
    (void)greeted->channel->receive(steady_clock::now() + milliseconds(50));
  }
  EXPECT_TRUE(member->get_attributes(kRootIno, {}).ok());
}

// Whoever was answered lives on, when the coordinator does not.
TEST(AwaitWritten, WhatWasWaitedForSurvivesACrash) {
  MountedVolume volume;
  for (int round = 0; round < 40; ++round) {
    const std::string name = "file" + std::to_string(round);
    make_file(*volume, name);
    ASSERT_TRUE(volume->await_written().ok());
    volume.crash_and_mount();
    EXPECT_TRUE(volume->lookup(kRootIno, name).ok()) << name;
  }
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
