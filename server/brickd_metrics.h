// SPDX-License-Identifier: Apache-2.0
// brickd's numbers for Prometheus: docs/metrics.md.
#pragma once

#include <vector>

#include "server/peers/listener.h"
#include "server/service/brick_service.h"
#include "transport/metrics/metrics.h"

namespace brickfs {

// What takes locks of the brick takes them for no longer than to copy numbers.
void collect_metrics(const BrickService& service, const std::vector<const Listener*>& listeners, Metrics& metrics);

}  // namespace brickfs
