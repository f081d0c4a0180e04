// SPDX-License-Identifier: Apache-2.0
#include "transport/metrics/metrics_server.h"

#include <utility>

namespace brickfs {

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const MetricsAddress& address, Collect collect) {
  const auto text = [collect = std::move(collect)] {
    Metrics metrics;
    collect(metrics);
    return metrics.text();
  };
  auto pages = TRY(PageServer::start(address, {{"/metrics", "text/plain; version=0.0.4; charset=utf-8", text}}));
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(pages)));
}

}  // namespace brickfs
