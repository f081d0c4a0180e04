// SPDX-License-Identifier: Apache-2.0
// Administrators' calls over a wire: who may make them, and what those who may not can try.
#include "transport/brick/administration.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/service/brick_service.h"
#include "server/tcp/listener.h"
#include "tests/support/brick_contract.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/paths/administer.h"
#include "transport/remote/call_channel.h"
#include "transport/remote/handshake.h"
#include "transport/tcp/greet.h"
#include "transport/tcp/tcp_brick.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;
using testing::eventually;

const Secret kClients{"of the clients"};
const Secret kAdministrators{"of the administrators"};

AdminRequest creation(const std::string& name) {
  return {.action = AdminAction::kCreate, .volume = name, .size_blocks = 2, .force = false};
}
AdminRequest removal(const std::string& name) {
  return {.action = AdminAction::kRemove, .volume = name, .size_blocks = {}, .force = true};
}
Deadline admin_deadline() { return std::chrono::steady_clock::now() + 60s; }

class Administration : public ::testing::Test {
 protected:
  Administration() {
    service_ = *BrickService::open(testing::memory_config(8), nullptr);
    auto opened = TcpListener::open(*service_, {SourceKind::kTcp, "127.0.0.1", 0}, kClients);
    listener_ = std::move(*opened);
    listener_->use_admin_secrets({kAdministrators});
  }
  Result<AdminAnswer> ask(const AdminRequest& request, const Secret& secret = kAdministrators) {
    Source source;
    source.kind = SourceKind::kTcp;
    source.addresses = {{"127.0.0.1", listener_->port()}};
    return administer_remote(source, secret, request);
  }
  size_t volumes() { return service_->administer({}).volumes.size(); }
  Result<Greeted<tcp::TcpChannel>> greet() { return tcp::greet({"127.0.0.1", listener_->port()}, admin_deadline()); }
  // The status of the answer, or the error that there was none.
  int send(Channel& channel, std::span<const std::byte> body) {
    const auto reply = exchange(channel, wire::Kind::kAdminister, 0, body, admin_deadline());
    return reply.ok() ? reply->status : -reply.code();
  }

  std::unique_ptr<BrickService> service_;
  std::unique_ptr<TcpListener> listener_;
};

TEST_F(Administration, WhoKnowsTheSecretIsAnsweredWithWhatIsThere) {
  const auto made = ask(creation("home"));
  ASSERT_TRUE(made.ok()) << made.error().what();
  EXPECT_EQ(made->status, 0);
  EXPECT_EQ(made->volumes.front().name, "home");
  EXPECT_EQ(ask(creation("home"))->status, EEXIST);
  EXPECT_EQ(ask(creation("home"))->volumes.front().size_blocks, 2u) << "a refusal says what is in the way";
  const auto all = ask({});
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->volumes.size(), 2u);
  EXPECT_EQ(ask(removal("home"))->status, 0);
  EXPECT_EQ(ask(removal("home"))->status, ENOENT);
  EXPECT_EQ(ask(creation("a/b")).code(), EINVAL);
}

TEST_F(Administration, ClientsAreListedWithWhatTheyDo) {
  const auto brick = make_tcp_brick("127.0.0.1", listener_->port(), kClients);
  ASSERT_TRUE(brick->open(testing::request_for(7), nullptr).ok());
  const AdminRequest clients{.action = AdminAction::kClients, .volume = "", .size_blocks = {}, .force = false};
  auto answer = ask(clients);
  ASSERT_TRUE(answer.ok()) << answer.error().what();
  ASSERT_EQ(answer->clients.size(), 1u);
  const ClientStatus before = answer->clients.front();
  EXPECT_EQ(before.volume, kDefaultVolume);
  EXPECT_EQ(before.mode, OpenMode::kExclusive);
  EXPECT_EQ(before.holder.client, ClientId{7});

  const BlockRange block{BlockAddress{0}, 1};
  ASSERT_TRUE(brick->alloc(block).ok());
  const auto handles = brick->map(block, Access::kReadWrite);
  ASSERT_TRUE(handles.ok());
  ASSERT_TRUE(testing::write(*brick, handles->front(), 0, std::vector<std::byte>(10'000)).ok());
  const CommitRange range{0, 10'000, false};
  ASSERT_TRUE(brick->commit(std::span(&range, 1)).ok());
  answer = ask(clients);
  ASSERT_TRUE(answer.ok());
  const ClientStatus after = answer->clients.front();
  EXPECT_EQ(after.calls - before.calls, 3u) << "alloc, map, commit";
  EXPECT_EQ(after.commits - before.commits, 1u);
  EXPECT_EQ(after.committed_bytes - before.committed_bytes, 10'000u);
  EXPECT_EQ(after.writes - before.writes, 1u);
  EXPECT_EQ(after.written_bytes - before.written_bytes, 10'000u);
  AdminRequest further = clients;
  further.behind = after.number;
  EXPECT_TRUE(ask(further)->clients.empty());
  further = clients;
  further.volume = "other";
  EXPECT_TRUE(ask(further)->clients.empty());
  EXPECT_EQ(ask(clients, kClients).code(), EACCES);
}

TEST_F(Administration, NobodyElse) {
  EXPECT_EQ(ask(creation("home"), Secret{"a guess"}).code(), EACCES);
  EXPECT_EQ(ask(creation("home"), kClients).code(), EACCES);
  EXPECT_EQ(ask(creation("home"), Secret()).code(), EACCES);
  EXPECT_EQ(ask({}, kClients).code(), EACCES) << "nor are volumes and holders told";
  EXPECT_EQ(volumes(), 1u);
  const auto brick = make_tcp_brick("127.0.0.1", listener_->port(), kAdministrators);
  EXPECT_EQ(brick->open(testing::request_for(1), nullptr).code(), EACCES) << "an administrator is no client";
}

TEST_F(Administration, GuessesWaitLongerAndLonger) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask({}, Secret{"a guess"}).code(), EACCES);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(ask({}, Secret{"a guess"}).code(), EACCES);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 700ms);
  EXPECT_TRUE(ask({}).ok());
}

TEST_F(Administration, WithoutASecretThereAreNoAdministrators) {
  listener_->use_admin_secrets({});
  EXPECT_EQ(ask(creation("home"), Secret()).code(), EPERM) << "the empty secret is known to everybody";
  EXPECT_EQ(ask(creation("home")).code(), EPERM);
  EXPECT_EQ(ask(creation("home"), kClients).code(), EPERM);
  EXPECT_EQ(volumes(), 1u);
  listener_->use_admin_secrets({kAdministrators});
  EXPECT_TRUE(ask(creation("home")).ok());
}

TEST_F(Administration, ARecordedCallIsWorthNothingOnAnotherConnection) {
  auto first = greet();
  ASSERT_TRUE(first.ok());
  wire::AdminCall call = to_call(creation("home"));
  call.proof = wire::prove(kAdministrators, wire::kAdministerPurpose, first->nonces, call);
  EXPECT_EQ(send(*first->channel, bytes_of(call)), 0);
  EXPECT_EQ(ask(removal("home"))->status, 0);
  auto second = greet();
  EXPECT_EQ(send(*second->channel, bytes_of(call)), EACCES);
  EXPECT_LT(send(*first->channel, bytes_of(call)), 0) << "nor again on its own, which has ended";
  EXPECT_EQ(volumes(), 1u);
}

TEST_F(Administration, EveryByteOfACallIsProved) {
  for (size_t at : {0u, 4u, 8u, 16u, 20u, 79u, 80u, 111u}) {
    auto greeted = greet();
    wire::AdminCall call = to_call(creation("home"));
    call.proof = wire::prove(kAdministrators, wire::kAdministerPurpose, greeted->nonces, call);
    std::vector<std::byte> body = wire::encode(bytes_of(call));
    body[at] ^= std::byte{1};
    EXPECT_EQ(send(*greeted->channel, body), EACCES) << at;
  }
  auto greeted = greet();
  wire::AdminCall call = to_call(creation("home"));
  call.proof = wire::prove(kAdministrators, wire::kOpenPurpose, greeted->nonces, call);
  EXPECT_EQ(send(*greeted->channel, bytes_of(call)), EACCES) << "proved for something else";
  EXPECT_EQ(volumes(), 1u);
}

TEST_F(Administration, ASessionCarriesNone) {
  auto greeted = greet();
  const auto opened =
      open_session(*greeted->channel, greeted->nonces, kClients, testing::request_for(1), nullptr, admin_deadline());
  ASSERT_TRUE(opened.ok());
  wire::AdminCall call = to_call(creation("home"));
  call.proof = wire::prove(kAdministrators, wire::kAdministerPurpose, greeted->nonces, call);
  EXPECT_EQ(send(*greeted->channel, bytes_of(call)), EPROTO) << "not even with the right proof";
  EXPECT_EQ(volumes(), 1u);
}

TEST_F(Administration, AnOlderBrickIsToldByItsGreeting) {
  auto greeted = greet();
  greeted->nonces.server_features &= ~wire::kAdministration;
  EXPECT_EQ(administer(*greeted->channel, greeted->nonces, kAdministrators, {}, admin_deadline()).code(), EOPNOTSUPP);
  greeted = greet();
  greeted->nonces.client_features |= 1u << 20;  // somebody changed them on the way
  EXPECT_EQ(administer(*greeted->channel, greeted->nonces, kAdministrators, {}, admin_deadline()).code(), EACCES);
}

TEST_F(Administration, BytesOfAnswersAreLookedAt) {
  const AdminAnswer answer = service_->administer({});
  const auto body = encode(answer);
  ASSERT_TRUE(decode_admin_answer(AdminAction::kList, 0, body).ok());
  EXPECT_EQ(decode_admin_answer(AdminAction::kList, 0, {}).code(), EPROTO);
  EXPECT_EQ(decode_admin_answer(AdminAction::kList, EBUSY, {})->status, EBUSY);
  for (size_t length = 0; length < body.size(); ++length) {
    EXPECT_EQ(decode_admin_answer(AdminAction::kList, 0, std::span(body).first(length)).code(), EPROTO) << length;
  }
  auto longer = body;  // records of a brick that knows more of volumes
  wire::AdminAnswerHead head = load<wire::AdminAnswerHead>(body);
  head.record_bytes += 8;
  std::memcpy(longer.data(), &head, sizeof(head));
  longer.resize(longer.size() + 8);
  ASSERT_TRUE(decode_admin_answer(AdminAction::kList, 0, longer).ok());
  EXPECT_EQ(decode_admin_answer(AdminAction::kList, 0, longer)->volumes.front().name, "default");
  auto nameless = body;
  nameless[sizeof(head)] = std::byte{0};
  EXPECT_EQ(decode_admin_answer(AdminAction::kList, 0, nameless).code(), EPROTO);
}

TEST_F(Administration, AMountOfARemovedVolumeEndsAndSaysSo) {
  ASSERT_EQ(ask(creation("home"))->status, 0);
  VolumeOptions options;
  options.open = testing::request_for(7);
  options.open.volume = "home";
  Holder holder;
  const auto client = VolumeClient::open(make_tcp_brick("127.0.0.1", listener_->port(), kClients), options, &holder);
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE((*client)->alloc({BlockAddress{0}, 1}).ok());
  EXPECT_EQ(ask(removal("home"))->status, 0);
  ASSERT_TRUE(eventually([&] { return !(*client)->final_error().ok(); })) << (*client)->link_state().text;
  EXPECT_EQ((*client)->final_error().code(), ESTALE);
  EXPECT_NE((*client)->link_state().text.find("was removed"), std::string::npos) << (*client)->link_state().text;
  EXPECT_EQ((*client)->alloc({BlockAddress{kBlockBytes}, 1}).code(), ESTALE);
}

}  // namespace
}  // namespace brickfs
