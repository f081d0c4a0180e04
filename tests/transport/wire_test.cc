// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/wire.h"

#include <gtest/gtest.h>

#include <random>

namespace brickfs {
namespace {

constexpr uint64_t kBlock = kBlockBytes;

std::vector<calls::Request> every_request() {
  const BlockRange range{BlockAddress{kBlock}, 2};
  return {calls::Alloc{range},
          calls::Free{range},
          calls::Map{range, Access::kReadWrite},
          calls::Unmap{range},
          calls::List{BlockAddress{kBlock}},
          calls::Commit{{{1, 2, false}, {3, 4, true}}},
          calls::Stat{},
          calls::Renew{},
          calls::Close{},
          calls::QueuePair{},
          calls::Detach{5},
          calls::Keys{3, 7},
          calls::Notify{5, 6},
          calls::Wait{std::chrono::milliseconds(7), {{1, 2, 3}, {4, 5, 6}}},
          calls::Admit{ClientId{8}},
          calls::Expel{ClientId{9}},
          calls::Endpoint{"tcp;ofi_rxm", "192.0.2.1", 7}};
}

TEST(Wire, EveryRequestComesBackAsItWas) {
  EXPECT_EQ(every_request().size(), std::variant_size_v<calls::Request>);
  for (const calls::Request& asked : every_request()) {
    const auto body = calls::encode(asked);
    const auto back = calls::decode_request(calls::kind_of(asked), body);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->index(), asked.index());
    EXPECT_EQ(calls::encode(*back), body);
    EXPECT_TRUE(calls::check(*back).ok());
  }
}

TEST(Wire, AnEndpointComesBackAsItWasOffered) {
  calls::EndpointOffer offer;
  offer.pair = 3;
  offer.virtual_addresses = true;
  offer.high_keys = 4;
  offer.flush_key = 5;
  offer.flush_address = 6;
  offer.provider = "tcp;ofi_rxm";
  offer.name.assign(limits::kEndpointNameBytes, std::byte{7});
  const calls::Request asked = calls::Endpoint{};
  auto body = calls::encode(calls::Answer(offer));
  const auto back = calls::decode_answer(asked, body);
  ASSERT_TRUE(back.ok());
  const auto& same = std::get<calls::EndpointOffer>(*back);
  EXPECT_EQ(calls::encode(calls::Answer(same)), body);
  EXPECT_EQ(same.name, offer.name);
  EXPECT_EQ(same.provider, offer.provider);
  body[0] = std::byte{limits::kQueuePairsPerSession};
  EXPECT_EQ(calls::decode_answer(asked, body).code(), EPROTO);
  body[0] = std::byte{0};
  body[25] = std::byte{2};  // a name of 512 bytes
  EXPECT_EQ(calls::decode_answer(asked, body).code(), EPROTO);
}

TEST(Wire, OpenCallKeepsTheRequest) {
  OpenRequest request;
  request.volume = "v";
  request.client = ClientId{7};
  request.client_name = "host (pid 1)";
  request.mode = OpenMode::kReadOnly;
  request.steal = true;
  request.resume = Epoch{9};
  const auto back = wire::from_call(wire::to_call(request));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->volume, "v");
  EXPECT_EQ(back->client, ClientId{7});
  EXPECT_EQ(back->client_name, "host (pid 1)");
  EXPECT_EQ(back->mode, OpenMode::kReadOnly);
  EXPECT_TRUE(back->steal);
  EXPECT_EQ(back->resume, Epoch{9});
}

TEST(Wire, MalformedOpenIsRefused) {
  OpenRequest request;
  request.client = ClientId{1};
  const wire::OpenCall good = wire::to_call(request);
  ASSERT_TRUE(wire::from_call(good).ok());
  auto bad = good;
  bad.client = 0;
  EXPECT_EQ(wire::from_call(bad).code(), EPROTO);
  bad = good;
  bad.mode = 5;
  EXPECT_EQ(wire::from_call(bad).code(), EPROTO);
  bad = good;
  bad.flags = 8;
  EXPECT_EQ(wire::from_call(bad).code(), EPROTO);
  bad = good;
  std::fill(std::begin(bad.volume), std::end(bad.volume), 'x');  // no end
  EXPECT_EQ(wire::from_call(bad).code(), EPROTO);
}

TEST(Wire, TextIsCutAndControlCharactersMasked) {
  char field[8];
  wire::put_text(field,
                 "a\nb\x1b"
                 "cdefgh");
  const auto text = wire::get_text(field);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "a?b?cde");
}

TEST(Wire, HandlesMustCoverWhatWasMapped) {
  const BlockRange asked{BlockAddress{4 * kBlock}, 3};
  Handle first;
  first.blocks = {BlockAddress{4 * kBlock}, 1};
  first.access = Access::kReadWrite;
  first.remote_address = 11;
  first.remote_key = 12;
  Handle second = first;
  second.blocks = {BlockAddress{5 * kBlock}, 2};
  const auto decode = [&](std::vector<Handle> handles) {
    return calls::decode_answer(calls::Map{asked, Access::kReadWrite}, calls::encode(calls::Mapped{handles, {}}));
  };
  const auto good = decode({first, second});
  ASSERT_TRUE(good.ok());
  const auto& handles = std::get<calls::Mapped>(*good).handles;
  ASSERT_EQ(handles.size(), 2u);
  EXPECT_EQ(handles[1].blocks, second.blocks);
  EXPECT_EQ(handles[0].remote_address, 11u);
  EXPECT_EQ(handles[0].remote_key, 12u);
  EXPECT_EQ(decode({first}).code(), EPROTO);
  EXPECT_EQ(decode({second, first}).code(), EPROTO);
  EXPECT_EQ(decode({first, second, second}).code(), EPROTO);
  Handle endless = second;
  endless.blocks.count = UINT64_MAX / kBlock;
  EXPECT_EQ(decode({first, endless}).code(), EPROTO);
  Handle weaker = second;
  weaker.access = Access::kRead;
  EXPECT_EQ(decode({first, weaker}).code(), EPROTO);
}

TEST(Wire, ListMustAscendAndGetOn) {
  ListPage page;
  page.extents = {{BlockAddress{2 * kBlock}, 1}, {BlockAddress{4 * kBlock}, 2}};
  page.cursor = BlockAddress{6 * kBlock};
  const auto decode = [&](uint64_t from) -> Result<ListPage> {
    return std::get<ListPage>(TRY(calls::decode_answer(calls::List{BlockAddress{from}}, calls::encode(page))));
  };
  const auto good = decode(kBlock);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good->extents, page.extents);
  EXPECT_EQ(good->cursor, page.cursor);
  EXPECT_EQ(decode(3 * kBlock).code(), EPROTO);
  page.cursor = BlockAddress{5 * kBlock};
  EXPECT_EQ(decode(0).code(), EPROTO);
  page.extents = {};
  page.cursor = BlockAddress{8 * kBlock};
  EXPECT_EQ(decode(8 * kBlock).code(), EPROTO);
  page.cursor = std::nullopt;
  EXPECT_FALSE(decode(0)->cursor.has_value());
  page.extents = {{BlockAddress{1}, 1}};
  EXPECT_EQ(decode(0).code(), EPROTO);
}

TEST(Wire, KeysMustAscendAndGetOn) {
  const auto decode = [](uint32_t after, std::vector<calls::KeyRecord> keys) {
    return calls::decode_answer(calls::Keys{0, after}, calls::encode(calls::KeyPage{std::move(keys)})).code();
  };
  EXPECT_EQ(decode(4, {{5, 1}, {9, 1}}), 0);
  EXPECT_EQ(decode(9, {}), 0);
  EXPECT_EQ(decode(9, {{9, 1}}), EPROTO);
  EXPECT_EQ(decode(9, {{5, 1}, {10, 1}}), EPROTO);
  EXPECT_EQ(decode(4, {{5, 1}, {5, 1}}), EPROTO);
  EXPECT_EQ(decode(4, {{9, 1}, {5, 1}}), EPROTO);
  EXPECT_EQ(decode(0, {{0, 1}}), EPROTO);
}

TEST(Wire, CommitKeepsRangesAndBarriers) {
  const std::vector<CommitRange> ranges = {{1, 2, false}, {3, 4, true}};
  const auto request = calls::decode_request(calls::Kind::kCommit, calls::encode(calls::Commit{ranges}));
  ASSERT_TRUE(request.ok());
  const auto* const back = &std::get<calls::Commit>(*request).ranges;
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ((*back)[1].address, 3u);
  EXPECT_EQ((*back)[1].length_bytes, 4u);
  EXPECT_FALSE((*back)[0].after_previous);
  EXPECT_TRUE((*back)[1].after_previous);
}

TEST(Wire, StatKeepsItsFields) {
  BrickStat stat;
  stat.boot = BootId{1};
  stat.epoch = Epoch{2};
  stat.durability = Durability::kDurable;
  stat.volume_used_blocks = 3;
  stat.allocatable_blocks = 4;
  stat.committed_bytes = 5;
  stat.medium = "memory with store /x";
  const auto decode = [&]() -> Result<BrickStat> {
    return std::get<BrickStat>(TRY(calls::decode_answer(calls::Stat{}, calls::encode(stat))));
  };
  auto back = decode();
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->boot, BootId{1});
  EXPECT_EQ(back->epoch, Epoch{2});
  EXPECT_EQ(back->durability, Durability::kDurable);
  EXPECT_EQ(back->volume_used_blocks, 3u);
  EXPECT_EQ(back->allocatable_blocks, 4u);
  EXPECT_EQ(back->committed_bytes, 5u);
  EXPECT_EQ(back->medium, stat.medium);
  EXPECT_FALSE(back->holder.has_value());
  stat.holder = Holder{"who", 6, ClientId{7}, std::chrono::milliseconds(8)};
  back = decode();
  ASSERT_TRUE(back.ok() && back->holder);
  EXPECT_EQ(back->holder->name, "who");
  EXPECT_EQ(back->holder->since_unix_seconds, 6);
  EXPECT_EQ(back->holder->client, ClientId{7});
  EXPECT_EQ(back->holder->kept_for.count(), 8);
  EXPECT_FALSE(back->holder_away);
  stat.holder_away = true;
  back = decode();
  ASSERT_TRUE(back.ok() && back->holder);
  EXPECT_TRUE(back->holder_away);
}

TEST(Wire, NoticesAreOfEachTagThatWasAskedFor) {
  const calls::Request asked = calls::Wait{std::chrono::milliseconds(1), {{.tag = 1}, {.tag = 2}}};
  const auto answer = calls::decode_answer(asked, calls::encode(calls::Notices{{{1, 2, 3}, {4, 5, 6}}}));
  ASSERT_TRUE(answer.ok());
  const auto& told = std::get<calls::Notices>(*answer).notices;
  EXPECT_EQ(told[1].origin, 4u);
  EXPECT_EQ(told[1].count, 5u);
  EXPECT_EQ(told[1].value, 6u);
  EXPECT_EQ(calls::decode_answer(asked, calls::encode(calls::Notices{{{1, 2, 3}}})).code(), EPROTO);
  EXPECT_EQ(
      calls::decode_request(calls::Kind::kWait, std::vector<std::byte>(8 + 24 * (limits::kTagsPerWait + 1))).code(),
      EPROTO);
  EXPECT_EQ(calls::check(calls::Wait{}).code(), EINVAL);
}

TEST(Wire, AnyBytesAreDecodedOrRefused) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> body(random() % 600);
    for (std::byte& byte : body) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    for (const calls::Request& asked : every_request()) {
      (void)calls::decode_answer(asked, body);
      (void)calls::decode_request(calls::kind_of(asked), body);
    }
    if (const auto call = wire::decode<wire::OpenCall>(body); call.ok()) (void)wire::from_call(*call);
    if (const auto answer = wire::decode_grown<wire::OpenAnswer>(body); answer.ok()) (void)wire::from_answer(*answer);
    if (const auto record = wire::decode_grown<wire::HolderRecord>(body); record.ok()) (void)wire::from_record(*record);
  }
}

TEST(Proof, DependsOnEverythingItCovers) {
  const Secret secret{"s"};
  const Nonces nonces{random_nonce(), random_nonce()};
  const std::array<std::byte, 3> message{};
  const Proof proof = make_proof(secret, "a", nonces, message);
  EXPECT_TRUE(same_bytes(proof, make_proof(secret, "a", nonces, message)));
  EXPECT_FALSE(same_bytes(proof, make_proof(Secret{"t"}, "a", nonces, message)));
  EXPECT_FALSE(same_bytes(proof, make_proof(Secret{}, "a", nonces, message)));
  EXPECT_FALSE(same_bytes(proof, make_proof(secret, "b", nonces, message)));
  EXPECT_FALSE(same_bytes(proof, make_proof(secret, "a", {nonces.client, random_nonce()}, message)));
  EXPECT_FALSE(same_bytes(proof, make_proof(secret, "a", {random_nonce(), nonces.server}, message)));
  EXPECT_FALSE(same_bytes(proof, make_proof(secret, "a", nonces, std::span(message).first(2))));
  EXPECT_FALSE(same_bytes(proof, make_proof(secret, "a", {nonces.client, nonces.server, 1, 0}, message)));
  EXPECT_FALSE(same_bytes(proof, make_proof(secret, "a", {nonces.client, nonces.server, 0, 1}, message)));
}

}  // namespace
}  // namespace brickfs
