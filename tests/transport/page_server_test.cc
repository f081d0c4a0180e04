// SPDX-License-Identifier: Apache-2.0
// What anybody who reaches the port cannot do to a server of pages.
#include "transport/metrics/page_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/http_peer.h"
#include "transport/base/bytes.h"
#include "transport/metrics/http_connections.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::ask;
using testing::get;
using testing::HttpPeer;

constexpr size_t kLongPageBytes = 8 * kMiB;
constexpr size_t kHugePageBytes = 64 * kMiB;
constexpr milliseconds kBetweenDrops{200};
constexpr seconds kPatience{30};
constexpr const char* kBegun = "GET /page HTTP/1.1\r\nX: ";

std::unique_ptr<PageServer> serve() {
  auto server =
      PageServer::start({"127.0.0.1", 0}, {{"/page", "text/plain", [] { return "words"; }},
                                           {"/long", "text/plain", [] { return std::string(kLongPageBytes, 'x'); }},
                                           {"/huge", "text/plain", [] { return std::string(kHugePageBytes, 'x'); }}});
  return server.ok() ? std::move(*server) : nullptr;
}

bool answers(const PageServer& server) { return get(server.port(), "/page").ends_with("\r\n\r\nwords"); }

std::list<HttpPeer> connect(const PageServer& server, size_t count) {
  std::list<HttpPeer> peers;
  for (size_t i = 0; i < count; ++i) peers.emplace_back(server.port());
  return peers;
}

size_t kept(const std::list<HttpPeer>& peers) {
  return static_cast<size_t>(std::ranges::count_if(peers, &HttpPeer::is_kept));
}

TEST(PageServer, AnswersOneRequestAndCloses) {
  const auto server = serve();
  ASSERT_NE(server, nullptr);
  const std::string answer =
      ask(server->port(), "GET /page?x=1 HTTP/1.1\r\nHost: test\r\n\r\nGET /page HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nwords")) << answer;
  EXPECT_NE(answer.find("Connection: close\r\n"), answer.npos) << answer;
  EXPECT_EQ(answer.find("words"), answer.rfind("words")) << answer;
  EXPECT_TRUE(ask(server->port(), "HEAD /page HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
  EXPECT_GT(get(server->port(), "/long").size(), kLongPageBytes) << "more than is sent at once";
}

TEST(PageServer, TakesNoBodyAndNoWishes) {
  const auto server = serve();
  ASSERT_NE(server, nullptr);
  const std::string posted =
      ask(server->port(), "POST /page HTTP/1.1\r\nContent-Length: 5000\r\n\r\n" + std::string(5000, 'x'));
  EXPECT_TRUE(posted.starts_with("HTTP/1.1 4")) << posted;
  const std::string wished = ask(server->port(),
                                 "GET /page HTTP/1.1\r\nRange: bytes=0-,0-,0-\r\nAccept-Encoding: gzip\r\n"
                                 "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n");
  EXPECT_TRUE(wished.starts_with("HTTP/1.1 200 ") && wished.ends_with("\r\n\r\nwords")) << wished;
  for (const char* wrong : {"\r\n\r\n", "GET\r\n\r\n", "GET /page\nHTTP/1.1\r\n\r\n", "GET /page HTTP/3.0\r\n\r\n",
                            "\xff\x01 \x02 \x03\r\n\r\n"})
    EXPECT_TRUE(ask(server->port(), wrong).starts_with("HTTP/1.1 4")) << wrong;
}

TEST(PageServer, CutsOffAHeadWithoutEnd) {
  const auto server = serve();
  ASSERT_NE(server, nullptr);
  const std::string too_long(HttpConnections::kMostHeadBytes, 'x');
  EXPECT_TRUE(ask(server->port(), kBegun + too_long + "\r\n\r\n").starts_with("HTTP/1.1 431 "));
  std::string lines;
  while (lines.size() < kMiB) lines += "X: y\r\n";
  for (const std::string& part : {std::string(kMiB, 'x'), lines}) {
    HttpPeer peer(server->port());
    ASSERT_TRUE(peer.send(kBegun));
    size_t taken_bytes = 0;  // what the kernel holds with them
    while (taken_bytes < 64 * kMiB && peer.send(part)) taken_bytes += part.size();
    EXPECT_LT(taken_bytes, 64 * kMiB);
    EXPECT_TRUE(answers(*server));
  }
}

TEST(PageServer, CutsOffWhoDrips) {
  const auto server = serve();
  ASSERT_NE(server, nullptr);
  auto peers = connect(*server, 20);
  for (HttpPeer& peer : peers) ASSERT_TRUE(peer.send(kBegun));
  const auto until = steady_clock::now() + HttpConnections::kMostTime + kPatience;
  while (kept(peers) > 0 && steady_clock::now() < until) {
    for (HttpPeer& peer : peers) (void)peer.send("x");
    ASSERT_TRUE(answers(*server)) << "beside others";
    std::this_thread::sleep_for(kBetweenDrops);
  }
  EXPECT_EQ(kept(peers), 0U);
}

TEST(PageServer, CutsOffWhoDoesNotTakeTheAnswer) {
  const auto server = serve();
  ASSERT_NE(server, nullptr);
  HttpPeer peer(server->port());
  ASSERT_TRUE(peer.send("GET /huge HTTP/1.1\r\n\r\n"));
  const auto until = steady_clock::now() + HttpConnections::kMostTime + seconds(3);
  while (steady_clock::now() < until) {
    ASSERT_TRUE(answers(*server)) << "beside others";
    std::this_thread::sleep_for(kBetweenDrops);
  }
  EXPECT_LT(peer.receive().size(), kHugePageBytes);
}

TEST(PageServer, KeepsNoMoreConnectionsThanItsBound) {
  const auto server = serve();
  ASSERT_NE(server, nullptr);
  auto peers = connect(*server, 5 * HttpConnections::kMost);
  EXPECT_TRUE(answers(*server)) << "the oldest made room";
  EXPECT_LT(kept(peers), HttpConnections::kMost);
  const auto until = steady_clock::now() + HttpConnections::kMostTime + kPatience;
  while (kept(peers) > 0 && steady_clock::now() < until) std::this_thread::sleep_for(kBetweenDrops);
  EXPECT_EQ(kept(peers), 0U);
  EXPECT_TRUE(answers(*server));
}

TEST(PageServer, EndsBesideWhoDrips) {
  EXPECT_TRUE(testing::takes_less_than(HttpConnections::kMostTime, [] {
    auto server = serve();
    ASSERT_NE(server, nullptr);
    auto peers = connect(*server, 3);
    for (HttpPeer& peer : peers) ASSERT_TRUE(peer.send(kBegun));
    ASSERT_TRUE(answers(*server)) << "so they are accepted";
    std::atomic<bool> ended = false;
    std::thread dripping([&] {
      const auto until = steady_clock::now() + kPatience;
      while (!ended && steady_clock::now() < until) {
        for (HttpPeer& peer : peers) (void)peer.send("x");
        std::this_thread::sleep_for(kBetweenDrops);
      }
    });
    server.reset();
    ended = true;
    dripping.join();
  }));
}

}  // namespace
}  // namespace brickfs
