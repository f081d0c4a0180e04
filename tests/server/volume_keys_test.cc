// SPDX-License-Identifier: Apache-2.0
// Keys of volumes, over a wire and in the store: who is let in by them, what they let do, what of them a restart and a
// power loss leave, and what a tenant is told of others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "server/service/brick_service.h"
#include "server/tcp/listener.h"
#include "tests/support/brick_contract.h"
#include "tests/support/crash_device.h"
#include "transport/base/check.h"
#include "transport/brick/administration.h"
#include "transport/brick/volume_key.h"
#include "transport/paths/administer.h"
#include "transport/remote/handshake.h"
#include "transport/tcp/greet.h"
#include "transport/tcp/tcp_brick.h"

namespace brickfs {
namespace {

using testing::eventually;

const Secret kOfBrick{"of the brick itself"};
const Secret kOfAdmins{"of the administrators"};
const Secret kWriting{"a key for writing, 1"};
const Secret kWritingToo{"a key for writing, 2"};
const Secret kReading{"a key for reading, 1"};

AdminRequest with_volume(const std::string& volume) {
  AdminRequest request;
  request.volume = volume;
  return request;
}
AdminRequest addition(const std::string& volume, const Secret& key, KeyRights rights = KeyRights::kReadWrite) {
  AdminRequest request = with_volume(volume);
  request.action = AdminAction::kAddKey;
  request.key.secret = key;
  request.key.rights = rights;
  return request;
}
AdminRequest taking(const std::string& volume, const Secret& key) {
  AdminRequest request = with_volume(volume);
  request.action = AdminAction::kRemoveKey;
  request.key.id = key_id_of(key);
  return request;
}
AdminRequest plain(const std::string& volume, AdminAction action) {
  AdminRequest request = with_volume(volume);
  request.action = action;
  request.force = action == AdminAction::kRemove;
  return request;
}
OpenRequest wish(const std::string& volume, uint64_t client, OpenMode mode = OpenMode::kExclusive, bool steal = false) {
  OpenRequest request;
  request.volume = volume;
  request.client = ClientId{client};
  request.client_name = "client " + std::to_string(client);
  request.mode = mode;
  request.steal = steal;
  return request;
}

class VolumeKeys : public ::testing::Test {
 protected:
  VolumeKeys() {
    config_.memory_bytes = 8 * kBlockBytes;
    config_.store_path = directory_.path("store");
    config_.store_bytes = 16 * kBlockBytes;
    config_.volumes = {{"mine", {}}, {"others", {}}};
    start();
  }
  void start() {
    listener_.reset();
    service_.reset();
    std::string why;
    auto service = BrickService::open(config_, &why);
    CHECK(service.ok());
    service_ = *std::move(service);
    listener_ = std::move(*TcpListener::open(*service_, {SourceKind::kTcp, "127.0.0.1", 0}, kOfBrick));
    listener_->use_admin_secrets({kOfAdmins});
  }
  std::unique_ptr<Brick> by(const Secret& secret) { return make_tcp_brick("127.0.0.1", listener_->port(), secret); }
  int open_code(const Secret& secret, const OpenRequest& request) { return by(secret)->open(request, nullptr).code(); }
  Result<AdminAnswer> ask(const AdminRequest& request) {
    Source source;
    source.kind = SourceKind::kTcp;
    source.addresses = {{"127.0.0.1", listener_->port()}};
    return administer_remote(source, kOfAdmins, request);
  }
  void add(const std::string& volume, const Secret& key, KeyRights rights = KeyRights::kReadWrite) {
    const auto answer = ask(addition(volume, key, rights));
    ASSERT_TRUE(answer.ok()) << answer.error().what();
    ASSERT_EQ(answer->status, 0);
  }

  testing::TemporaryDirectory directory_;
  BrickConfig config_;
  std::unique_ptr<BrickService> service_;
  std::unique_ptr<TcpListener> listener_;
};

TEST_F(VolumeKeys, AKeyOpensItsVolumeAndNoOther) {
  add("mine", kWriting);
  add("others", kWritingToo);
  EXPECT_EQ(open_code(kWriting, wish("mine", 1)), 0);
  EXPECT_EQ(open_code(kWriting, wish("others", 1)), EACCES);
  EXPECT_EQ(open_code(kWriting, wish("others", 1, OpenMode::kObserve)), EACCES);
  EXPECT_EQ(open_code(kWriting, wish("others", 1, OpenMode::kExclusive, true)), EACCES);
  EXPECT_EQ(open_code(kWriting, wish("default", 1)), EACCES) << "which has no key of its own";
  EXPECT_EQ(open_code(kWriting, wish("no-such", 1)), EACCES) << "names are not told";
  EXPECT_EQ(open_code(kOfBrick, wish("mine", 1)), EACCES);
  EXPECT_EQ(open_code(kOfAdmins, wish("mine", 1)), EACCES);
  EXPECT_EQ(open_code(kOfBrick, wish("default", 1)), 0);
}

TEST_F(VolumeKeys, AKeyThatOnlyReadsWritesNothing) {
  add("mine", kReading, KeyRights::kReadOnly);
  add("mine", kWriting);
  EXPECT_EQ(open_code(kReading, wish("mine", 1)), EROFS);
  OpenRequest writes = wish("mine", 1, OpenMode::kFollow);
  writes.bound = writes.writes = true;
  EXPECT_EQ(open_code(kReading, writes), EROFS);
  {
    const auto writer = by(kWriting);
    ASSERT_TRUE(writer->open(wish("mine", 2), nullptr).ok());
    ASSERT_TRUE(writer->alloc({BlockAddress{0}, 1}).ok());
    ASSERT_TRUE(writer->commit({}).ok());
    ASSERT_TRUE(writer->close().ok());
  }
  for (const OpenMode mode : {OpenMode::kReadOnly, OpenMode::kFollow}) {
    const auto reader = by(kReading);
    ASSERT_TRUE(reader->open(wish("mine", 1, mode), nullptr).ok());
    EXPECT_TRUE(reader->map({BlockAddress{0}, 1}, Access::kRead).ok());
    EXPECT_EQ(reader->map({BlockAddress{0}, 1}, Access::kReadWrite).code(), EACCES);
    EXPECT_EQ(reader->alloc({BlockAddress{kBlockBytes}, 1}).code(), EACCES);
    EXPECT_EQ(reader->free({BlockAddress{0}, 1}).code(), EACCES);
    EXPECT_EQ(reader->commit({}).code(), EACCES);
    static_cast<void>(reader->close());
  }
}

// Nor one who is away, whose uncommitted bytes that would cost.
TEST_F(VolumeKeys, AKeyThatOnlyReadsDrivesNobodyOutWhoWrites) {
  add("mine", kReading, KeyRights::kReadOnly);
  add("mine", kWriting);
  const auto writer = by(kWriting);
  ASSERT_TRUE(writer->open(wish("mine", 1), nullptr).ok());
  EXPECT_EQ(open_code(kReading, wish("mine", 2, OpenMode::kReadOnly)), EBUSY);
  EXPECT_EQ(open_code(kReading, wish("mine", 2, OpenMode::kReadOnly, true)), EBUSY);
  EXPECT_EQ(open_code(kReading, wish("mine", 1, OpenMode::kReadOnly)), EBUSY) << "by the writer's name";
  EXPECT_TRUE(writer->stat().ok()) << "it goes on";
  OpenRequest back = wish("mine", 1);
  back.resume = writer->stat()->epoch;
  writer->abandon();
  ASSERT_TRUE(eventually([&] { return service_->numbers().clients.empty(); }));
  EXPECT_EQ(open_code(kReading, wish("mine", 2, OpenMode::kReadOnly, true)), EBUSY);
  EXPECT_TRUE(writer->open(back, nullptr).ok()) << "nobody has had the volume meanwhile";
  ASSERT_TRUE(writer->close().ok());
  EXPECT_EQ(open_code(kReading, wish("mine", 2, OpenMode::kReadOnly)), 0);
}

TEST_F(VolumeKeys, AFollowerThatOnlyReadsTakesNobodysPlace) {
  add("mine", kReading, KeyRights::kReadOnly);
  add("mine", kWriting);
  const auto follower = by(kWriting);
  ASSERT_TRUE(follower->open(wish("mine", 7, OpenMode::kFollow), nullptr).ok());
  EXPECT_EQ(open_code(kReading, wish("mine", 7, OpenMode::kFollow)), 0);
  EXPECT_TRUE(follower->stat().ok());
}

TEST_F(VolumeKeys, WhoCameByAKeyThatIsRemovedIsCutOff) {
  add("mine", kWriting);
  add("mine", kWritingToo);
  const auto first = by(kWriting);
  const auto second = by(kWritingToo);
  ASSERT_TRUE(first->open(wish("mine", 1), nullptr).ok());
  ASSERT_TRUE(second->open(wish("mine", 2, OpenMode::kFollow), nullptr).ok());
  const auto listed = ask(plain("mine", AdminAction::kListKeys));
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->keys.size(), 2u);
  EXPECT_EQ(listed->keys[0].id, key_id_of(kWriting));
  EXPECT_EQ(listed->keys[0].sessions, 1u);
  ASSERT_EQ(ask(taking("mine", kWriting))->status, 0);
  EXPECT_FALSE(first->stat().ok()) << "its session has ended when the answer is there";
  EXPECT_TRUE(second->stat().ok());
  EXPECT_EQ(open_code(kWriting, wish("mine", 1)), EACCES);
  EXPECT_EQ(ask(taking("mine", kWriting))->status, ENOKEY);
  const auto back = by(kWritingToo);
  EXPECT_TRUE(back->open(wish("mine", 1), nullptr).ok()) << "the same client, by the other key";
}

TEST_F(VolumeKeys, TheFirstKeyClosesAVolumeForGood) {
  const auto before = by(kOfBrick);
  ASSERT_TRUE(before->open(wish("mine", 1), nullptr).ok());
  add("mine", kWriting);
  EXPECT_FALSE(before->stat().ok()) << "it came by another secret";
  EXPECT_EQ(open_code(kOfBrick, wish("mine", 1)), EACCES);
  ASSERT_EQ(ask(taking("mine", kWriting))->status, 0);
  EXPECT_EQ(open_code(kOfBrick, wish("mine", 1)), EACCES) << "without a key it is nobody's";
  start();
  EXPECT_EQ(open_code(kOfBrick, wish("mine", 1)), EACCES) << "nor is it behind a restart";
}

TEST_F(VolumeKeys, KeysAreThereAfterARestartAndGoWithTheirVolume) {
  add("mine", kWriting);
  add("mine", kReading, KeyRights::kReadOnly);
  start();
  EXPECT_EQ(open_code(kReading, wish("mine", 1)), EROFS);
  EXPECT_EQ(open_code(kReading, wish("mine", 1, OpenMode::kReadOnly)), 0);
  EXPECT_EQ(open_code(kWriting, wish("mine", 1)), 0);
  ASSERT_EQ(ask(plain("mine", AdminAction::kRemove))->status, 0);
  start();  // which makes it again, as the configuration asks for it
  EXPECT_EQ(open_code(kWriting, wish("mine", 1)), EACCES);
  EXPECT_EQ(open_code(kOfBrick, wish("mine", 1)), 0);
}

// Who has seen its token pass.
TEST_F(VolumeKeys, AnotherKeyAttachesNoConnectionToASession) {
  add("mine", kReading, KeyRights::kReadOnly);
  add("mine", kWriting);
  add("mine", kWritingToo);
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto greet = [&] { return tcp::greet({"127.0.0.1", listener_->port()}, latest); };
  auto calls = greet();
  ASSERT_TRUE(calls.ok());
  const auto opened = open_session(*calls->channel, calls->nonces, kWriting, wish("mine", 1), nullptr, latest);
  ASSERT_TRUE(opened.ok()) << opened.error().what();
  const auto attach_by = [&](const Secret& secret) {
    auto greeted = greet();
    if (!greeted.ok()) return greeted.code();
    return attach(*greeted->channel, greeted->nonces, secret, opened->token, wire::Role::kTransfers, latest).code();
  };
  EXPECT_EQ(attach_by(kReading), EACCES);
  EXPECT_EQ(attach_by(kWritingToo), EACCES);
  EXPECT_EQ(attach_by(kOfBrick), EACCES);
  EXPECT_EQ(attach_by(kWriting), 0);
}

TEST_F(VolumeKeys, ATenantIsToldNothingOfOthers) {
  add("mine", kWriting);
  const auto other = by(kOfBrick);
  ASSERT_TRUE(other->open(wish("others", 2), nullptr).ok());
  ASSERT_TRUE(other->alloc({BlockAddress{0}, 5}).ok());
  const auto tenant = by(kWriting);
  ASSERT_TRUE(tenant->open(wish("mine", 1), nullptr).ok());
  ASSERT_TRUE(tenant->alloc({BlockAddress{0}, 1}).ok());
  const auto stat = tenant->stat();
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(stat->brick_used_blocks, 1u);
  EXPECT_EQ(stat->sessions, 1u);
  EXPECT_EQ(stat->medium.find(config_.store_path), std::string::npos) << stat->medium;
  EXPECT_EQ(other->stat()->brick_used_blocks, 6u) << "who has the brick's own secret is told";
}

TEST_F(VolumeKeys, AKeyTravelsHidden) {
  Nonces nonces;
  nonces.client = random_nonce();
  nonces.server = random_nonce();
  const wire::KeyCall call = to_key_call(addition("mine", kWriting), kOfAdmins, nonces);
  const auto bytes = bytes_of(call);
  const auto key = std::as_bytes(std::span(kWriting.bytes.view()));
  EXPECT_TRUE(std::ranges::search(bytes, key.first(8)).empty());
  const auto told = from_key_call(call, kOfAdmins, nonces);
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->key.secret.bytes, kWriting.bytes);
  nonces.server = random_nonce();
  EXPECT_NE(to_key_call(addition("mine", kWriting), kOfAdmins, nonces).key, call.key) << "each time in another pad";
}

TEST_F(VolumeKeys, WhatIsNoKeyIsNotAdded) {
  EXPECT_EQ(ask(addition("mine", Secret{"short"})).code(), EINVAL);
  EXPECT_EQ(ask(addition("mine", Secret{std::string(33, 'x')})).code(), EINVAL);
  EXPECT_EQ(ask(addition("no-such", kWriting))->status, ENOENT);
  add("mine", kWriting);
  EXPECT_EQ(ask(addition("mine", kWriting, KeyRights::kReadOnly))->status, EEXIST);
  for (size_t i = 1; i < limits::kKeysOfVolume; ++i) add("mine", make_key());
  EXPECT_EQ(ask(addition("mine", make_key()))->status, ENOBUFS);
}

// That no kill loses one, or opens a volume: tests/support/crash_kept.cc, which brickfs-crash runs.
TEST(VolumeKeysElsewhere, MemoryThatIsKeptHasThem) {
  BrickConfig config;
  config.memory_bytes = 2 * kBlockBytes;
  config.keep_path = "/dev/shm/brickfs-volume-keys-" + std::to_string(::getpid());
  {
    const auto service = std::move(*BrickService::open(config, nullptr));
    EXPECT_EQ(service->administer(addition("default", kWriting)).status, 0);
    EXPECT_EQ(service->administer(addition("default", kReading, KeyRights::kReadOnly)).status, 0);
    EXPECT_EQ(service->administer(taking("default", kWriting)).status, 0);
  }
  {
    const auto service = std::move(*BrickService::open(config, nullptr));
    const auto keys = service->keys_of("default");
    ASSERT_TRUE(keys);
    ASSERT_EQ(keys->size(), 1u);
    EXPECT_EQ(keys->front().id, key_id_of(kReading));
    EXPECT_EQ(keys->front().rights, KeyRights::kReadOnly);
    EXPECT_EQ(keys->front().secret.bytes, kReading.bytes);
  }
  ::unlink(config.keep_path.c_str());
}

// What has been answered is there after a power loss at any later moment, whatever of the rest had reached the disk.
TEST(VolumeKeysElsewhere, NoPowerLossOpensAVolumeOrLosesAKey) {
  BrickConfig config;
  config.memory_bytes = 2 * kBlockBytes;
  config.store_path = "a disk";
  config.store_bytes = 4 * kBlockBytes;
  config.volumes = {{"mine", {}}};
  CrashDisk disk{DiskImage()};
  struct Step {
    size_t from;  // events before it was asked for, and when it was answered
    size_t to;
    std::vector<KeyId> keys;
    bool keyed;
  };
  std::vector<Step> steps;
  {
    std::string why;
    const auto service = *BrickService::open(config, std::make_unique<CrashDevice>(disk), &why);
    const auto take = [&](const AdminRequest& request, std::vector<KeyId> keys) {
      const size_t from = disk.events();
      ASSERT_EQ(service->administer(request).status, 0);
      steps.push_back({from, disk.events(), std::move(keys), true});
    };
    steps.push_back({0, disk.events(), {}, false});
    take(addition("mine", kWriting), {key_id_of(kWriting)});
    take(addition("mine", kReading, KeyRights::kReadOnly), {key_id_of(kWriting), key_id_of(kReading)});
    take(taking("mine", kWriting), {key_id_of(kReading)});
    take(taking("mine", kReading), {});
  }
  std::mt19937 random(1);
  for (size_t step = 0; step + 1 < steps.size(); ++step) {
    for (size_t events = steps[step].to; events <= steps[step + 1].to; ++events) {
      for (unsigned kept = 0; kept < 6; ++kept) {  // all, nothing, some
        DiskHistory history(disk.first_image());
        for (size_t event = 0; event < events; ++event) history.apply(disk.log()[event], event);
        CrashDisk left(
            history.after([&](const DiskPiece&, size_t) { return kept == 0 || (kept > 1 && random() % 2 == 0); }));
        std::string why;
        const auto opened = BrickService::open(config, std::make_unique<CrashDevice>(left), &why);
        ASSERT_TRUE(opened.ok()) << why << " behind event " << events;
        const auto keys = (*opened)->keys_of("mine");
        if (steps[step].keyed) {
          ASSERT_TRUE(keys) << "it is open behind event " << events;
        }
        std::vector<KeyId> found;
        for (const VolumeKey& key : keys.value_or(std::vector<VolumeKey>())) found.push_back(key.id);
        const auto same = [&](std::vector<KeyId> wanted) {
          std::ranges::sort(found);
          std::ranges::sort(wanted);
          return found == wanted;
        };
        EXPECT_TRUE(same(steps[step].keys) || same(steps[step + 1].keys)) << "behind event " << events;
        if (events == steps[step + 1].to) {
          EXPECT_TRUE(same(steps[step + 1].keys)) << "it was answered";
        }
      }
    }
  }
}

}  // namespace
}  // namespace brickfs
