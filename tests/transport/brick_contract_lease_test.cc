// SPDX-License-Identifier: Apache-2.0
// The contract of transport/brick/brick.h, for every implementation of it: sessions, leases, fencing.
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "tests/support/brick_contract.h"

namespace brickfs::testing {
namespace {

class BrickLease : public BrickContract {
 protected:
  static OpenRequest stealing(uint64_t client, OpenMode mode = OpenMode::kExclusive) {
    OpenRequest stealing = request(client, mode);
    stealing.steal = true;
    return stealing;
  }
  static OpenRequest resuming(uint64_t client, Epoch epoch, OpenMode mode = OpenMode::kExclusive) {
    OpenRequest resuming = request(client, mode);
    resuming.resume = epoch;
    return resuming;
  }
};
BRICK_CONTRACT_FOR_EVERY_KIND(BrickLease);

TEST_P(BrickLease, OpenRefusesWhatItDoesNotKnow) {
  start(4, 4);
  auto client = connect();
  OpenRequest unknown = request(1);
  unknown.volume = "nobody made this";
  EXPECT_EQ(client->open(unknown, nullptr).code(), ENOENT);
  EXPECT_EQ(client->open(request(0), nullptr).code(), EINVAL);
  EXPECT_EQ(client->stat().code(), ENOTCONN);
  EXPECT_TRUE(client->open(request(1), nullptr).ok());
}

TEST_P(BrickLease, ALiveHolderKeepsOthersOutAndIsNamed) {
  start(4, 4);
  auto first = open(1);
  auto second = connect();
  for (const OpenMode mode : {OpenMode::kExclusive, OpenMode::kReadOnly}) {
    Holder holder;
    EXPECT_EQ(second->open(request(2, mode), &holder).code(), EBUSY);
    EXPECT_EQ(holder.name, "client 1");
    EXPECT_NEAR(static_cast<double>(holder.since_unix_seconds), static_cast<double>(std::time(nullptr)), 60);
    EXPECT_EQ(second->open(request(2, mode), nullptr).code(), EBUSY);
  }
  EXPECT_TRUE(first->alloc(blocks(0)).ok());
}

TEST_P(BrickLease, ACloseGivesTheLeaseUpAndEachGrantRaisesTheEpoch) {
  start(4, 4);
  Epoch last{};
  for (uint64_t client = 1; client < 5; ++client) {
    Session session;
    auto holder = open(client, &session);
    EXPECT_GT(session.epoch, last);
    last = session.epoch;
    ASSERT_TRUE(holder->close().ok());
    EXPECT_EQ(holder->alloc(blocks(0)).code(), ENOTCONN);
    EXPECT_EQ(holder->open(resuming(client, last), nullptr).code(), ESTALE);
  }
}

TEST_P(BrickLease, AHolderWhoseConnectionIsGoneHoldsNobodyUp) {
  start(4, 4);
  auto first = open(1);
  ASSERT_TRUE(first->alloc(blocks(0)).ok());
  ASSERT_TRUE(write(*first, map_one(*first, 0), 0, pattern(64, 1)).ok());
  first.reset();
  auto second = open_after_loss(request(2));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(read(*second, map_one(*second, 0), 0, 64), pattern(64, 1));
}

TEST_P(BrickLease, AnAbandonedSessionCanBeResumed) {
  start(4, 4);
  Session session;
  auto client = open(1, &session);
  std::atomic<int> told = 0;
  client->set_on_lost([&](Error) { told.fetch_add(1); });
  ASSERT_TRUE(client->alloc(blocks(0)).ok());
  const Handle old = map_one(*client, 0);
  ASSERT_TRUE(write(*client, old, 0, pattern(64, 1)).ok());
  client->abandon();
  client->abandon();
  EXPECT_EQ(client->alloc(blocks(1)).code(), ENOTCONN);
  EXPECT_EQ(write(*client, old, 0, pattern(64, 2)).code(), ENOTCONN);
  EXPECT_EQ(client->close().code(), ENOTCONN);
  const auto resumed = client->open(resuming(1, session.epoch), nullptr);
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(resumed->epoch, session.epoch);
  EXPECT_EQ(resumed->boot, session.boot);
  EXPECT_EQ(read(*client, map_one(*client, 0), 0, 64), pattern(64, 1));
  EXPECT_EQ(told.load(), 0);
}

TEST_P(BrickLease, StatTellsAHolderWhoIsAwayFromNone) {
  start(4, 4);
  auto observer = open(request(9, OpenMode::kObserve));
  const auto seen = [&] { return observer->stat().value(); };
  EXPECT_FALSE(seen().holder.has_value());
  auto holder = open(1);
  ASSERT_TRUE(seen().holder.has_value());
  EXPECT_FALSE(seen().holder_away);
  holder.reset();
  EXPECT_TRUE(eventually([&] { return seen().holder_away; }));
  ASSERT_TRUE(seen().holder.has_value());
  EXPECT_EQ(seen().holder->name, "client 1");
  holder = open_after_loss(request(2));
  EXPECT_FALSE(seen().holder_away);
  EXPECT_TRUE(holder->close().ok());
  EXPECT_FALSE(seen().holder.has_value());
}

TEST_P(BrickLease, StealCutsALiveHolderOff) {
  start(4, 4);
  Session session;
  auto victim = open(1, &session);
  std::atomic<int> told = 0;
  victim->set_on_lost([&](Error error) {
    EXPECT_TRUE(is_lost_session(error.code()));
    told.fetch_add(1);
  });
  ASSERT_TRUE(victim->alloc(blocks(0)).ok());
  const Handle old = map_one(*victim, 0);
  ASSERT_TRUE(write(*victim, old, 0, pattern(64, 1)).ok());

  Session taken;
  auto thief = open(stealing(2), &taken);
  EXPECT_GT(taken.epoch, session.epoch);
  EXPECT_TRUE(eventually([&] { return told.load() == 1; }));
  const Handle fresh = map_one(*thief, 0);
  EXPECT_TRUE(is_lost_session(write(*victim, old, 0, pattern(64, 9)).code()));
  EXPECT_TRUE(is_lost_session(victim->alloc(blocks(1)).code()));
  EXPECT_TRUE(is_lost_session(victim->stat().code()));
  EXPECT_EQ(read(*thief, fresh, 0, 64), pattern(64, 1));
  EXPECT_EQ(victim->open(resuming(1, session.epoch), nullptr).code(), ESTALE);
  EXPECT_EQ(victim->open(request(1), nullptr).code(), EBUSY);
  EXPECT_TRUE(victim->open(stealing(1), nullptr).ok());
  EXPECT_TRUE(eventually([&] { return is_lost_session(thief->stat().code()); }));
}

// The promise of fencing: when the new holder is in, nothing of the old one lands.
TEST_P(BrickLease, NothingOfAFencedClientLands) {
  start(4, 4);
  {
    auto client = open(1);
    ASSERT_TRUE(client->alloc(blocks(0)).ok());
    ASSERT_TRUE(client->close().ok());
  }
  for (uint64_t round = 1; round <= 10; ++round) {
    auto victim = open_after_loss(request(2 * round));
    ASSERT_NE(victim, nullptr);
    const Handle old = map_one(*victim, 0);
    std::atomic<bool> writing = false;
    std::thread zombie([&] {
      while (write(*victim, old, 0, pattern(65536, 5)).ok()) writing = true;
    });
    ASSERT_TRUE(eventually([&] { return writing.load(); }));
    auto thief = open(stealing(2 * round + 1));
    const Handle fresh = map_one(*thief, 0);
    ASSERT_TRUE(write(*thief, fresh, 0, std::vector<std::byte>(65536)).ok());
    zombie.join();
    EXPECT_EQ(read(*thief, fresh, 0, 65536), std::vector<std::byte>(65536));
    ASSERT_TRUE(thief->close().ok());
  }
}

TEST_P(BrickLease, AClientComesBackWithItsEpoch) {
  start(4, 4);
  Session session;
  auto client = open(1, &session);
  ASSERT_TRUE(client->alloc(blocks(0)).ok());
  const Handle old = map_one(*client, 0);
  ASSERT_TRUE(write(*client, old, 0, pattern(64, 1)).ok());
  // Its connection may look alive to the brick still: it is the same client, and replaces itself.
  auto again = connect();
  const auto back = again->open(resuming(1, session.epoch), nullptr);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->epoch, session.epoch);
  EXPECT_EQ(back->boot, session.boot);
  EXPECT_TRUE(is_lost_session(write(*client, old, 0, pattern(64, 2)).code()));
  EXPECT_EQ(read(*again, map_one(*again, 0), 0, 64), pattern(64, 1));
}

TEST_P(BrickLease, ASecondOpenOfTheSameClientReplacesTheFirst) {
  start(4, 4);
  Session first_session;
  Session second_session;
  auto first = open(1, &first_session);
  auto second = open(1, &second_session);
  EXPECT_GT(second_session.epoch, first_session.epoch);
  EXPECT_TRUE(eventually([&] { return is_lost_session(first->stat().code()); }));
  EXPECT_TRUE(second->stat().ok());
}

TEST_P(BrickLease, ResumeIsESTALEOnceAnotherHadTheVolume) {
  start(4, 4);
  Session session;
  auto client = open(1, &session);
  client.reset();
  auto other = open_after_loss(request(2));
  ASSERT_NE(other, nullptr);
  auto again = connect();
  EXPECT_EQ(again->open(resuming(1, session.epoch), nullptr).code(), ESTALE);
  ASSERT_TRUE(other->close().ok());
  EXPECT_EQ(again->open(resuming(1, session.epoch), nullptr).code(), ESTALE);
  EXPECT_TRUE(again->open(request(1), nullptr).ok());
}

TEST_P(BrickLease, ABrickThatForgetsNothingKnowsItsHolderAfterARestart) {
  if (!durable() && !GetParam().keeps) GTEST_SKIP() << "forgets everything";
  start(4, 4);
  Session session;
  open(1, &session).reset();
  brick().restart();
  EXPECT_EQ(connect()->open(resuming(2, session.epoch), nullptr).code(), ESTALE);
  Session back;
  auto client = open(resuming(1, session.epoch), &back);
  EXPECT_EQ(back.epoch, session.epoch);
  EXPECT_EQ(back.boot == session.boot, GetParam().keeps);
  client.reset();
  brick().restart();
  auto other = open(2);
  EXPECT_EQ(connect()->open(resuming(1, session.epoch), nullptr).code(), ESTALE);
}

TEST_P(BrickLease, AVolatileBrickThatForgotLetsItsHolderIn) {
  if (durable() || GetParam().keeps) GTEST_SKIP() << "forgets nothing";
  start(4, 4);
  Session session;
  open(1, &session).reset();
  brick().restart();
  Session back;
  auto client = open(resuming(1, session.epoch), &back);
  EXPECT_NE(back.boot, session.boot);
}

TEST_P(BrickLease, ReadersShareAndChangeNothing) {
  start(4, 4);
  {
    auto writer = open(1);
    ASSERT_TRUE(writer->alloc(blocks(0)).ok());
    ASSERT_TRUE(write(*writer, map_one(*writer, 0), 0, pattern(64, 1)).ok());
    ASSERT_TRUE(writer->close().ok());
  }
  Session first_session;
  Session second_session;
  auto first = open(request(2, OpenMode::kReadOnly), &first_session);
  auto second = open(request(3, OpenMode::kReadOnly), &second_session);
  EXPECT_EQ(first_session.epoch, second_session.epoch);
  for (Brick* reader : {first.get(), second.get()}) {
    const Handle handle = map_one(*reader, 0, Access::kRead);
    EXPECT_EQ(read(*reader, handle, 0, 64), pattern(64, 1));
    EXPECT_TRUE(is_dead_handle(write(*reader, handle, 0, pattern(64, 2))));
    EXPECT_EQ(reader->map(blocks(0), Access::kReadWrite).code(), EACCES);
    EXPECT_EQ(reader->alloc(blocks(1)).code(), EACCES);
    EXPECT_EQ(reader->free(blocks(0)).code(), EACCES);
    EXPECT_EQ(reader->commit({}).code(), EACCES);
    EXPECT_EQ(list_all(*reader), std::vector<BlockRange>{blocks(0)});
  }
  auto writer = connect();
  EXPECT_EQ(writer->open(request(4), nullptr).code(), EBUSY);
  ASSERT_TRUE(first->close().ok());
  EXPECT_EQ(writer->open(request(4), nullptr).code(), EBUSY);
  ASSERT_TRUE(second->close().ok());
  EXPECT_TRUE(writer->open(request(4), nullptr).ok());
}

TEST_P(BrickLease, StealCutsReadersOffToo) {
  start(4, 4);
  auto first = open(request(1, OpenMode::kReadOnly));
  auto second = open(request(2, OpenMode::kReadOnly));
  auto thief = open(stealing(3));
  EXPECT_TRUE(thief->alloc(blocks(0)).ok());
  EXPECT_TRUE(eventually([&] { return is_lost_session(first->stat().code()); }));
  EXPECT_TRUE(eventually([&] { return is_lost_session(second->stat().code()); }));
}

TEST_P(BrickLease, AnObserverDisturbsNobody) {
  start(4, 4);
  auto holder = open(1);
  ASSERT_TRUE(holder->alloc(blocks(2, 2)).ok());
  auto observer = open(request(2, OpenMode::kObserve));
  EXPECT_EQ(list_all(*observer), std::vector<BlockRange>{blocks(2, 2)});
  const auto stat = observer->stat();
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(stat->sessions, 2u);
  ASSERT_TRUE(stat->holder.has_value());
  EXPECT_EQ(stat->holder->name, "client 1");
  EXPECT_EQ(observer->map(blocks(2), Access::kRead).code(), EACCES);
  EXPECT_EQ(observer->unmap(blocks(2)).code(), EACCES);
  EXPECT_EQ(observer->alloc(blocks(0)).code(), EACCES);
  EXPECT_EQ(observer->commit({}).code(), EACCES);
  EXPECT_TRUE(holder->alloc(blocks(0)).ok());
  ASSERT_TRUE(holder->close().ok());
  EXPECT_FALSE(observer->stat()->holder.has_value());
  EXPECT_TRUE(holder->open(request(1), nullptr).ok());
  EXPECT_TRUE(observer->close().ok());
}

TEST_P(BrickLease, BlocksOfALostWriterAreSuspectUntilCommittedWhole) {
  if (!durable()) GTEST_SKIP() << "nothing to commit to";
  start(4, 8);
  auto writer = open(1);
  ASSERT_TRUE(writer->alloc(blocks(0, 3)).ok());
  ASSERT_TRUE(write(*writer, map_one(*writer, 0), 0, pattern(64, 1)).ok());
  ASSERT_TRUE(write(*writer, map_one(*writer, 1), 0, pattern(64, 2)).ok());
  map_one(*writer, 2, Access::kRead);
  writer.reset();
  Session session;
  auto heir = open_after_loss(request(2), &session);
  ASSERT_NE(heir, nullptr);
  EXPECT_EQ(session.suspect_blocks, 2u);
  EXPECT_EQ(read(*heir, map_one(*heir, 1, Access::kRead), 0, 64), pattern(64, 2));
  const std::vector<CommitRange> ranges = {{0, kBlockBytes, false}, {kBlockBytes, 4096, true}};
  ASSERT_TRUE(heir->commit(ranges).ok());
  ASSERT_TRUE(heir->close().ok());
  heir = open(2, &session);
  EXPECT_EQ(session.suspect_blocks, 1u);
  ASSERT_TRUE(heir->free(blocks(1)).ok());
  ASSERT_TRUE(heir->close().ok());
  heir = open(2, &session);
  EXPECT_EQ(session.suspect_blocks, 0u);
}

TEST_P(BrickLease, ManyClientsFightForAVolume) {
  start(4, 4);
  std::atomic<int> grants = 0;
  std::vector<std::thread> threads;
  for (uint64_t id = 1; id <= 4; ++id) {
    threads.emplace_back([&, id] {
      auto client = connect();
      for (int round = 0; round < 15; ++round) {
        OpenRequest wish = round % 2 == 0 ? stealing(id) : request(id);
        if (!client->open(wish, nullptr).ok()) continue;
        grants.fetch_add(1);
        const BlockRange mine = blocks(id);
        if (!client->alloc(mine).ok()) continue;
        const auto handle = client->map(mine, Access::kReadWrite);
        if (handle.ok()) static_cast<void>(write(*client, handle->front(), 0, pattern(4096, 1)));
        static_cast<void>(client->free(mine));
        if (round % 3 == 0) static_cast<void>(client->close());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(grants.load(), 0);
  auto last = open(stealing(9));
  for (const BlockRange& range : list_all(*last)) EXPECT_TRUE(last->free(range).ok());
  EXPECT_EQ(last->stat()->brick_used_blocks, 0u);
  EXPECT_EQ(last->stat()->volume_mapped_blocks, 0u);
}

}  // namespace
}  // namespace brickfs::testing
