// SPDX-License-Identifier: Apache-2.0
// Volumes made, resized and removed while the brick serves; what is left of that after a restart; and who is in the
// way.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "server/service/brick_service.h"
#include "tests/support/brick_factory.h"
#include "transport/brick/wire.h"

namespace brickfs {
namespace {

constexpr uint64_t kAdminSlots = 32;
constexpr BlockRange kTwo{BlockAddress{0}, 2};

AdminRequest creation_of(const std::string& name, std::optional<uint64_t> blocks = {}) {
  return {.action = AdminAction::kCreate, .volume = name, .size_blocks = blocks, .force = false};
}
AdminRequest resize_to(const std::string& name, std::optional<uint64_t> blocks) {
  return {.action = AdminAction::kResize, .volume = name, .size_blocks = blocks, .force = false};
}
AdminRequest removal_of(const std::string& name, bool force = false) {
  return {.action = AdminAction::kRemove, .volume = name, .size_blocks = {}, .force = force};
}

enum class Keeps { kNothing, kStore, kMemory };

class VolumeAdmin : public ::testing::TestWithParam<Keeps> {
 protected:
  VolumeAdmin() {
    config_.memory_bytes = kAdminSlots * kBlockBytes;
    if (GetParam() == Keeps::kStore) {
      config_.store_path = directory_.path("store");
      config_.store_bytes = kAdminSlots * kBlockBytes;
    }
    if (GetParam() == Keeps::kMemory) config_.keep_path = "/dev/shm/brickfs-volume-admin-" + std::to_string(getpid());
    start();
  }
  ~VolumeAdmin() override {
    service_.reset();
    if (!config_.keep_path.empty()) unlink(config_.keep_path.c_str());
  }
  void start() {
    service_.reset();
    std::string why;
    auto service = BrickService::open(config_, &why);
    ASSERT_TRUE(service.ok()) << why;
    service_ = *std::move(service);
  }
  Result<SessionPtr> open(const std::string& volume, uint64_t client = 1, Epoch resume = {},
                          OpenMode mode = OpenMode::kExclusive) {
    OpenRequest request;
    request.volume = volume;
    request.client = ClientId{client};
    request.client_name = "client " + std::to_string(client);
    request.resume = resume;
    request.mode = mode;
    return service_->open_session(
        request, [this] { ++cuts_; }, nullptr);
  }
  int ask(const AdminRequest& request) {
    answer_ = service_->administer(request);
    return answer_.status;
  }
  std::vector<std::string> names() {
    std::vector<std::string> names;
    AdminRequest request;
    do {
      const AdminAnswer page = service_->administer(request);
      EXPECT_EQ(page.status, 0);
      for (const VolumeStatus& volume : page.volumes) names.push_back(volume.name);
      if (!page.more) break;
      request.volume = names.back();
    } while (true);
    return names;
  }
  VolumeStatus status(const std::string& name) {
    for (const VolumeStatus& volume : service_->administer({}).volumes) {
      if (volume.name == name) return volume;
    }
    ADD_FAILURE() << "no volume " << name;
    return {};
  }
  uint64_t used_by_all() {
    const auto session = open("default", 90, {}, OpenMode::kObserve);
    return (*session)->stat()->brick_used_blocks;
  }

  testing::TemporaryDirectory directory_;
  BrickConfig config_;
  std::unique_ptr<BrickService> service_;
  AdminAnswer answer_;
  std::atomic<int> cuts_ = 0;
};

std::string name_of_keeps(const ::testing::TestParamInfo<Keeps>& info) {
  return info.param == Keeps::kNothing ? "Memory" : info.param == Keeps::kStore ? "Store" : "KeptMemory";
}
INSTANTIATE_TEST_SUITE_P(Bricks, VolumeAdmin, ::testing::Values(Keeps::kNothing, Keeps::kStore, Keeps::kMemory),
                         name_of_keeps);

TEST_P(VolumeAdmin, AVolumeComesGrowsShrinksAndGoes) {
  ASSERT_EQ(ask(creation_of("home", 4)), 0);
  ASSERT_EQ(answer_.volumes.size(), 1u);
  EXPECT_EQ(answer_.volumes.front().size_blocks, 4u);
  EXPECT_EQ(names(), (std::vector<std::string>{"default", "home"}));
  {
    const auto session = open("home");
    ASSERT_TRUE(session.ok());
    EXPECT_EQ((*session)->description().capacity_blocks, 4u);
    ASSERT_TRUE((*session)->alloc({BlockAddress{0}, 4}).ok());
    EXPECT_EQ((*session)->alloc({BlockAddress{4 * kBlockBytes}, 1}).code(), EDQUOT);
    ASSERT_EQ(ask(resize_to("home", 5)), 0);
    EXPECT_TRUE((*session)->alloc({BlockAddress{4 * kBlockBytes}, 1}).ok()) << "it has grown under its holder";
    ASSERT_TRUE((*session)->free({BlockAddress{2 * kBlockBytes}, 3}).ok());
    ASSERT_EQ(ask(resize_to("home", 2)), 0);
    EXPECT_EQ((*session)->alloc({BlockAddress{4 * kBlockBytes}, 1}).code(), EDQUOT);
    ASSERT_EQ(ask(resize_to("home", {})), 0);
    EXPECT_FALSE(answer_.volumes.front().size_blocks.has_value());
    ASSERT_TRUE((*session)->free(kTwo).ok());
    ASSERT_TRUE((*session)->close().ok());
  }
  ASSERT_EQ(ask(removal_of("home")), 0);
  EXPECT_EQ(names(), std::vector<std::string>{"default"});
  EXPECT_EQ(open("home").code(), ENOENT);
  EXPECT_EQ(ask(removal_of("home")), ENOENT);
  EXPECT_EQ(ask(resize_to("home", 3)), ENOENT);
}

TEST_P(VolumeAdmin, RefusesWithWhatIsInTheWay) {
  ASSERT_EQ(ask(creation_of("home", 4)), 0);
  EXPECT_EQ(ask(creation_of("home", 9)), EEXIST);
  EXPECT_EQ(answer_.volumes.front().size_blocks, 4u) << "the one that is there";
  EXPECT_EQ(ask(removal_of("default", true)), EPERM);
  auto session = open("home");
  ASSERT_TRUE((*session)->alloc(kTwo).ok());
  EXPECT_EQ(ask(removal_of("home")), EBUSY);
  EXPECT_EQ(answer_.volumes.front().holder->name, "client 1");
  EXPECT_EQ(answer_.volumes.front().used_blocks, 2u);
  EXPECT_EQ(ask(resize_to("home", 1)), EDQUOT);
  EXPECT_EQ(answer_.volumes.front().used_blocks, 2u) << "the number that is in the way";
  session->reset();  // it went without a word
  EXPECT_EQ(ask(removal_of("home")), EBUSY);
  EXPECT_TRUE(answer_.volumes.front().holder_away);
  session = open("home");
  ASSERT_TRUE((*session)->close().ok());
  EXPECT_EQ(ask(removal_of("home")), ENOTEMPTY);
  EXPECT_EQ(answer_.volumes.front().used_blocks, 2u);
  EXPECT_EQ(names(), (std::vector<std::string>{"default", "home"})) << "nothing of that has changed anything";
  {
    const auto follower = open("home", 3, {}, OpenMode::kFollow);
    EXPECT_EQ(ask(removal_of("home")), EBUSY);
    EXPECT_EQ(answer_.volumes.front().readers, 1u);
  }
  const auto reader = open("home", 2, {}, OpenMode::kReadOnly);
  EXPECT_EQ(ask(removal_of("home")), EBUSY);
  EXPECT_EQ(answer_.volumes.front().readers, 1u);
  EXPECT_TRUE((*reader)->stat().ok());
}

TEST_P(VolumeAdmin, ForceCutsTheHolderOffAndFreesTheBlocks) {
  ASSERT_EQ(ask(creation_of("home")), 0);
  const auto session = open("home");
  const auto observer = open("home", 3, {}, OpenMode::kObserve);
  const auto follower = open("home", 4, {}, OpenMode::kFollow);
  ASSERT_TRUE((*session)->alloc(kTwo).ok());
  ASSERT_TRUE((*follower)->map(kTwo, Access::kRead).ok());
  const auto handles = (*session)->map(kTwo, Access::kReadWrite);
  ASSERT_TRUE(handles.ok());
  EXPECT_EQ(status("home").resident_blocks, 2u);
  EXPECT_EQ(used_by_all(), 2u);
  ASSERT_EQ(ask(removal_of("home", true)), 0);
  EXPECT_EQ(cuts_, 3);
  EXPECT_EQ((*session)->alloc({BlockAddress{1 << 30}, 1}).code(), ESTALE);
  EXPECT_FALSE((*session)->pin(handles->front().remote_key, handles->front().remote_address, 1, Access::kRead).ok());
  EXPECT_FALSE((*observer)->stat().ok());
  EXPECT_FALSE((*follower)->notify(1, 1).ok());
  EXPECT_EQ(used_by_all(), 0u);
  EXPECT_EQ(open("home", 1, (*session)->description().epoch).code(), EIDRM) << "he learns why";
  EXPECT_EQ(open("home", 2).code(), ENOENT);
}

TEST_P(VolumeAdmin, TheSecondOfANameIsNotTheFirst) {
  ASSERT_EQ(ask(creation_of("home")), 0);
  const Epoch first = (*open("home", 1))->description().epoch;
  ASSERT_EQ(ask(removal_of("home", true)), 0);
  ASSERT_EQ(ask(creation_of("home")), 0);
  EXPECT_EQ(open("home", 1, first).code(), EIDRM);
  EXPECT_EQ(open("home", 1, first, OpenMode::kReadOnly).code(), EIDRM);
  const auto second = open("home", 1);
  ASSERT_TRUE(second.ok());
  EXPECT_GT((*second)->description().epoch, first);
  EXPECT_TRUE((*second)->list(BlockAddress{0})->extents.empty());
}

TEST_P(VolumeAdmin, AllOfItIsThereAfterARestartIfAnythingIs) {
  ASSERT_EQ(ask(creation_of("stays", 6)), 0);
  ASSERT_EQ(ask(creation_of("goes")), 0);
  ASSERT_EQ(ask(creation_of("empty", 3)), 0);
  ASSERT_TRUE((*open("goes"))->alloc(kTwo).ok());
  {
    const auto session = open("stays");
    ASSERT_TRUE((*session)->alloc(kTwo).ok());
    ASSERT_TRUE((*session)->commit({}).ok());
    ASSERT_TRUE((*session)->close().ok());
  }
  ASSERT_EQ(ask(resize_to("stays", 5)), 0);
  ASSERT_EQ(ask(removal_of("goes", true)), 0);
  ASSERT_EQ(ask(removal_of("empty")), 0);
  start();
  if (GetParam() == Keeps::kNothing) {
    EXPECT_EQ(names(), std::vector<std::string>{"default"});
    return;
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"default", "stays"}));
  EXPECT_EQ(status("stays").size_blocks, 5u);
  EXPECT_EQ(status("stays").used_blocks, 2u);
  EXPECT_EQ(used_by_all(), 2u);
  ASSERT_EQ(ask(creation_of("goes", 1)), 0) << "its id and its blocks are another's";
  EXPECT_TRUE((*open("goes"))->list(BlockAddress{0})->extents.empty());
}

TEST_P(VolumeAdmin, WhatTheConfigurationNamesComesBack) {
  if (GetParam() == Keeps::kNothing) GTEST_SKIP();
  config_.volumes = {{"named", {}}, {"sized", 4 * kBlockBytes}};
  start();
  EXPECT_TRUE(status("named").is_configured);
  EXPECT_FALSE(status("named").size_is_configured);
  EXPECT_TRUE(status("sized").size_is_configured);
  ASSERT_EQ(ask(removal_of("named")), 0);
  EXPECT_TRUE(answer_.volumes.front().is_configured) << "who removes it is told";
  ASSERT_EQ(ask(resize_to("sized", 7)), 0);
  ASSERT_EQ(ask(creation_of("other", 2)), 0);
  EXPECT_FALSE(answer_.volumes.front().is_configured);
  start();
  EXPECT_EQ(names(), (std::vector<std::string>{"default", "named", "other", "sized"}));
  EXPECT_EQ(status("sized").size_blocks, 4u);
  EXPECT_EQ(status("other").size_blocks, 2u);
}

TEST_P(VolumeAdmin, HostileNamesAndNumbers) {
  for (const std::string& name : std::vector<std::string>{"", "a/b", "a b", "x\n", "..\x7f", std::string(64, 'x'),
                                                          std::string(5000, 'x'), std::string("a\0b", 3)}) {
    EXPECT_EQ(ask(creation_of(name)), EINVAL) << name;
    EXPECT_EQ(ask(removal_of(name, true)), EINVAL) << name;
  }
  EXPECT_EQ(ask(creation_of("home", 0)), EINVAL);
  EXPECT_EQ(ask(creation_of("home", UINT64_MAX)), EINVAL);
  EXPECT_EQ(ask(resize_to("default", 0)), EINVAL);
  EXPECT_EQ(ask({.action = AdminAction{9}, .volume = "home", .size_blocks = {}, .force = false}), EINVAL);
  EXPECT_EQ(ask({.action = AdminAction::kCreate, .volume = "home", .size_blocks = {}, .force = true}), EINVAL);
  EXPECT_EQ(names(), std::vector<std::string>{"default"});
  EXPECT_EQ(ask(creation_of(std::string(63, 'x'), UINT64_MAX - 1)), 0)
      << "more than the brick has: as for a configured one";
}

TEST_P(VolumeAdmin, AsManyAsTheBrickCanHaveAndNoMore) {
  for (size_t i = 1; i < limits::kVolumes; ++i) ASSERT_EQ(ask(creation_of("v" + std::to_string(i))), 0) << i;
  EXPECT_EQ(ask(creation_of("one.more")), ENOSPC);
  const auto all = names();
  EXPECT_EQ(all.size(), limits::kVolumes);
  EXPECT_TRUE(std::ranges::is_sorted(all)) << "page by page";
  EXPECT_EQ(service_->administer({}).volumes.size(), wire::kRecordsPerPage);
  ASSERT_EQ(ask(removal_of("v17")), 0);
  EXPECT_EQ(ask(creation_of("one.more")), 0);
  start();
  EXPECT_EQ(names().size(), GetParam() == Keeps::kNothing ? 1 : limits::kVolumes);
}

// A thousand volumes made, used and removed, while two clients work on others and somebody lists.
TEST_P(VolumeAdmin, AThousandComeAndGoWhileOthersWork) {
  ASSERT_EQ(ask(creation_of("worked", 8)), 0);
  std::atomic<bool> over = false;
  std::atomic<uint64_t> rounds = 0;
  const auto work = [&](const std::string& volume, uint64_t client) {
    const auto session = open(volume, client);
    ASSERT_TRUE(session.ok());
    for (uint64_t stamp = 1; !over; ++stamp, ++rounds) {
      ASSERT_TRUE((*session)->alloc(kTwo).ok());
      const auto handles = (*session)->map(kTwo, Access::kReadWrite);
      ASSERT_TRUE(handles.ok());
      for (const Handle& handle : *handles) {
        const auto pin = (*session)->pin(handle.remote_key, handle.remote_address, 8, Access::kReadWrite);
        std::memcpy(pin->bytes().data(), &stamp, 8);
        EXPECT_EQ(load<uint64_t>(pin->bytes()), stamp);
      }
      ASSERT_TRUE((*session)->commit({}).ok());
      ASSERT_TRUE((*session)->free(kTwo).ok());
    }
  };
  std::thread first(work, "default", 11);
  std::thread second(work, "worked", 12);
  std::thread lists([&] {
    while (!over) EXPECT_GE(names().size(), 2u);
  });
  constexpr size_t kAtOnce = 4;
  std::vector<std::thread> administrators;
  for (size_t number = 0; number < kAtOnce; ++number) {
    administrators.emplace_back([&, number] {
      for (size_t i = number; i < 1000; i += kAtOnce) {
        const std::string name = "v" + std::to_string(i);
        EXPECT_EQ(service_->administer(creation_of(name, 1 + i % 3)).status, 0);
        if (i % 5 == 0) {
          const auto session = open(name, 100 + i);
          EXPECT_TRUE(session.ok());
          if (session.ok()) static_cast<void>((*session)->alloc({BlockAddress{0}, 1}));
        }
        EXPECT_EQ(service_->administer(removal_of(name, true)).status, 0);
      }
    });
  }
  for (std::thread& administrator : administrators) administrator.join();
  over = true;
  for (std::thread* worker : {&first, &second, &lists}) worker->join();
  EXPECT_GT(rounds, 1u);
  EXPECT_EQ(names(), (std::vector<std::string>{"default", "worked"}));
  EXPECT_EQ(used_by_all(), 0u);
}

// Whoever gets in gets into a volume that is there, and is cut off when it goes; nobody hangs.
TEST_P(VolumeAdmin, RemovalRacesWithThoseWhoOpen) {
  std::atomic<bool> over = false;
  std::vector<std::thread> clients;
  for (uint64_t client = 1; client <= 3; ++client) {
    clients.emplace_back([&, client] {
      while (!over) {
        const auto session = open("home", client, {}, client == 3 ? OpenMode::kObserve : OpenMode::kExclusive);
        if (!session.ok()) {
          EXPECT_TRUE(session.error().is(ENOENT) || session.error().is(EBUSY)) << session.code();
          continue;
        }
        const Status made = (*session)->alloc({BlockAddress{client * kBlockBytes}, 1});
        EXPECT_TRUE(made.ok() || made.error().is(ESTALE) || made.error().is(EACCES) || made.error().is(EEXIST))
            << made.code();
        if (client == 1) static_cast<void>((*session)->close());
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(ask(creation_of("home")), 0);
    if (i % 3 == 0) std::this_thread::yield();
    ASSERT_EQ(ask(removal_of("home", true)), 0);
  }
  over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(used_by_all(), 0u);
}

// A lease given up while the record is being changed by somebody else is given up.
TEST_P(VolumeAdmin, ResizeDoesNotSwallowTheEndOfALease) {
  ASSERT_EQ(ask(creation_of("home", 4)), 0);
  for (int i = 0; i < 50; ++i) {
    const auto session = open("home", 1);
    ASSERT_TRUE(session.ok());
    std::thread other([&] { EXPECT_EQ(service_->administer(resize_to("home", 4 + i)).status, 0); });
    EXPECT_TRUE((*session)->close().ok());
    other.join();
    EXPECT_FALSE(status("home").holder.has_value());
  }
}

}  // namespace
}  // namespace brickfs
