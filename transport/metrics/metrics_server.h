// SPDX-License-Identifier: Apache-2.0
// Serves a program's metrics to Prometheus: GET /metrics, over HTTP, to whoever reaches the port.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transport/base/result.h"
#include "transport/metrics/metrics.h"

namespace brickfs {

// "ADDR:PORT", "[ADDR]:PORT"; port 0: any that is free.
struct MetricsAddress {
  std::string host;
  uint16_t port = 0;
};
Result<MetricsAddress> parse_metrics_address(const std::string& text);  // EINVAL

class MetricsServer {
 public:
  // Called by threads of the server, several at once; must not wait for long.
  using Collect = std::function<void(Metrics& metrics)>;

  // Threads begin: only once this process has become what it is to be. EADDRINUSE, EADDRNOTAVAIL and others.
  static Result<std::unique_ptr<MetricsServer>> start(const MetricsAddress& address, Collect collect);
  ~MetricsServer();  // `collect` is not called any more
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const;

 private:
  class Impl;
  explicit MetricsServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace brickfs
