// SPDX-License-Identifier: Apache-2.0
// What a bench found, and as a table for people (json.h: for programs).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/brickctl/latency_histogram.h"
#include "tools/brickctl/options.h"
#include "transport/brick/brick.h"

namespace brickfs {

struct Percentile {
  const char* name;
  const char* key;  // in JSON
  double percent;
};
constexpr std::array<Percentile, 4> kPercentiles = {
    {{"p50", "p50", 50}, {"p90", "p90", 90}, {"p99", "p99", 99}, {"p99.9", "p999", 99.9}}};

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
uint64_t bytes_of_result(const BenchReport& report, const BenchResult& result);
const char* name_of(Direction direction);  // "read", "write"

}  // namespace brickfs
