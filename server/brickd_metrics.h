// SPDX-License-Identifier: Apache-2.0
// brickd's numbers for Prometheus: docs/metrics.md.
#pragma once

#include <string>
#include <vector>

#include "server/peers/listener.h"
#include "server/service/brick_service.h"
#include "transport/metrics/metrics.h"

namespace brickfs {

struct CountedListener {
  std::string transport;  // "tcp", "rdma"
  const Listener* listener = nullptr;
};

// What takes locks of the brick takes them for no longer than to copy numbers.
void collect_metrics(const BrickService& service, const std::vector<CountedListener>& listeners, Metrics& metrics);

}  // namespace brickfs
