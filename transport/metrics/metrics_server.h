// SPDX-License-Identifier: Apache-2.0
// Serves a program's metrics to Prometheus: GET /metrics, over HTTP, to whoever reaches the port.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "transport/base/result.h"
#include "transport/metrics/metrics.h"
#include "transport/metrics/page_server.h"

namespace brickfs {

using MetricsAddress = PageAddress;
inline Result<MetricsAddress> parse_metrics_address(const std::string& text) { return parse_page_address(text); }

class MetricsServer {
 public:
  // As Page::content.
  using Collect = std::function<void(Metrics& metrics)>;

  // As PageServer::start().
  static Result<std::unique_ptr<MetricsServer>> start(const MetricsAddress& address, Collect collect);

  uint16_t port() const { return pages_->port(); }

 private:
  explicit MetricsServer(std::unique_ptr<PageServer> pages) : pages_(std::move(pages)) {}
  const std::unique_ptr<PageServer> pages_;
};

}  // namespace brickfs
