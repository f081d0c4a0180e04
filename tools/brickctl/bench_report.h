// SPDX-License-Identifier: Apache-2.0
// What a bench found, for people and for programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/brickctl/latency_histogram.h"
#include "tools/brickctl/options.h"
#include "transport/brick/brick.h"

namespace brickfs {

struct BenchResult {
  Direction direction = Direction::kRead;
  double seconds = 0;
  LatencyHistogram latencies;  // one for each transfer
};

struct BenchReport {
  std::string source;
  std::string transport;
  BenchOptions options;
  uint64_t span_bytes = 0;
  std::vector<BenchResult> results;
};

std::string format_table(const BenchReport& report);
std::string format_json(const BenchReport& report);  // one line

// In quotes.
std::string json_string(std::string_view text);
// {"count": N, "min": ..., "mean": ..., "p50": ... "max": ...}, in microseconds.
std::string json_latencies(const LatencyHistogram& latencies);

}  // namespace brickfs
