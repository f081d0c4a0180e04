// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>

#include "tests/support/http_peer.h"
#include "transport/metrics/metrics_server.h"

namespace brickfs {
namespace {

using std::chrono::microseconds;

using testing::ask;
using testing::get;

TEST(Metrics, AreTextForPrometheus) {
  Metrics metrics;
  metrics.gauge("brickfs_free_bytes", "Of the volume.", 4096);
  metrics.counter("brickfs_calls_total", "Calls.", 3, {{"kind", "read"}});
  metrics.counter("brickfs_calls_total", "Calls.", 4, {{"kind", "a \"quoted\"\nname"}});
  EXPECT_EQ(metrics.text(),
            "# HELP brickfs_free_bytes Of the volume.\n"
            "# TYPE brickfs_free_bytes gauge\n"
            "brickfs_free_bytes 4096\n"
            "# HELP brickfs_calls_total Calls.\n"
            "# TYPE brickfs_calls_total counter\n"
            "brickfs_calls_total{kind=\"read\"} 3\n"
            "brickfs_calls_total{kind=\"a \\\"quoted\\\"\\nname\"} 4\n");
}

TEST(Metrics, BucketsOfAHistogramAddUp) {
  LatencyCounters<1> counters;
  counters.count(0, microseconds(3), false, 0);
  counters.count(0, microseconds(3), false, 0);
  counters.count(0, std::chrono::hours(1), false, 0);
  Metrics metrics;
  metrics.histogram("x_seconds", "X.", counters.counts(0), {{"kind", "read"}});
  const std::string text = metrics.text();
  EXPECT_NE(text.find("x_seconds_count{kind=\"read\"} 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("x_seconds_sum{kind=\"read\"} 3600.000006\n"), std::string::npos) << text;
  EXPECT_NE(text.find("x_seconds_bucket{kind=\"read\",le=\"2e-06\"} 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("x_seconds_bucket{kind=\"read\",le=\"4e-06\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("x_seconds_bucket{kind=\"read\",le=\"+Inf\"} 3\n"), std::string::npos) << text;
}

TEST(MetricsAddress, IsHostAndPort) {
  EXPECT_EQ(parse_metrics_address("127.0.0.1:9100")->host, "127.0.0.1");
  EXPECT_EQ(parse_metrics_address("127.0.0.1:9100")->port, 9100);
  EXPECT_EQ(parse_metrics_address("[::1]:0")->host, "::1");
  for (const char* wrong :
       {"", ":", "9100", ":9100", "host:", "host:port", "host:65536", "host:-1", "::1:9100", "host:1x"})
    EXPECT_EQ(parse_metrics_address(wrong).code(), EINVAL) << wrong;
}

TEST(MetricsServer, AnswersWithWhatThereIsThen) {
  std::atomic<int> value = 1;
  auto server = MetricsServer::start({"127.0.0.1", 0}, [&](Metrics& metrics) { metrics.gauge("x", "X.", value); });
  ASSERT_TRUE(server.ok());
  const uint16_t port = (*server)->port();
  EXPECT_NE(get(port, "/metrics").find("\r\n\r\n# HELP x X.\n# TYPE x gauge\nx 1\n"), std::string::npos);
  value = 2;
  const std::string answer = get(port, "/metrics");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_NE(answer.find("Content-Type: text/plain; version=0.0.4"), std::string::npos) << answer;
  EXPECT_NE(answer.find("\nx 2\n"), std::string::npos) << answer;
}

TEST(MetricsServer, ServesNothingElse) {
  auto server = MetricsServer::start({"127.0.0.1", 0}, [](Metrics&) {});
  ASSERT_TRUE(server.ok());
  for (const char* path :
       {"/", "/etc/passwd", "/../../../../etc/passwd", "/metrics/../etc/passwd", "/%2e%2e/etc/passwd"})
    EXPECT_TRUE(get((*server)->port(), path).starts_with("HTTP/1.1 4")) << path;
  EXPECT_FALSE(ask((*server)->port(), "POST /metrics HTTP/1.1\r\nContent-Length: 99999999\r\nConnection: close\r\n\r\n")
                   .starts_with("HTTP/1.1 2"));
  EXPECT_FALSE(ask((*server)->port(), std::string(20'000, 'x') + "\r\n\r\n").starts_with("HTTP/1.1 2"));
}

TEST(MetricsServer, EndsAndHasAPortForItself) {
  auto server = MetricsServer::start({"127.0.0.1", 0}, [](Metrics&) {});
  ASSERT_TRUE(server.ok());
  const uint16_t port = (*server)->port();
  EXPECT_EQ(MetricsServer::start({"127.0.0.1", port}, [](Metrics&) {}).code(), EADDRINUSE);
  EXPECT_FALSE(MetricsServer::start({"192.0.2.1", 0}, [](Metrics&) {}).ok()) << "not an address of this machine";
  server->reset();
  EXPECT_EQ(get(port, "/metrics"), "");
  EXPECT_TRUE(MetricsServer::start({"127.0.0.1", port}, [](Metrics&) {}).ok());
}

}  // namespace
}  // namespace brickfs
