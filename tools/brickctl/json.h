// SPDX-License-Identifier: Apache-2.0
// What brickctl prints with --json: one object on one line, in the order of its fields. docs/json.md has them all.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "tools/brickctl/bench_report.h"
#include "tools/brickctl/latency_histogram.h"
#include "transport/brick/brick.h"

namespace brickfs {

using Json = nlohmann::ordered_json;

// Bytes that are no UTF-8 are shown as U+FFFD.
void print_json(const Json& object);

double json_microseconds(double nanoseconds);  // to the nanosecond
Json to_json(const LatencyHistogram& latencies);
Json to_json(const BenchReport& report);
Json to_json(const BlockRange& blocks);

}  // namespace brickfs
