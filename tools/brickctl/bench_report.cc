// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/bench_report.h"

#include <fmt/core.h>

#include <iterator>

#include "transport/base/size.h"

namespace brickfs {
namespace {

double microseconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

}  // namespace

uint64_t bytes_of_result(const BenchReport& report, const BenchResult& result) {
  return result.latencies.count() * report.options.transfer_bytes;
}

const char* name_of(Direction direction) { return direction == Direction::kRead ? "read" : "write"; }

std::string format_table(const BenchReport& report) {
  const BenchOptions& options = report.options;
  std::string text =
      fmt::format("{} over {}: {} a transfer, depth {}, {} thread{}, {:g} s each way, over {} of the volume\n",
                  report.source, report.transport, format_size(options.transfer_bytes), options.depth, options.threads,
                  options.threads == 1 ? "" : "s", options.seconds, format_size(report.span_bytes));
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<6}{:>11}{:>12}{:>11}", "", "MB/s", "transfers/s", "mean us");
  for (const Percentile& column : kPercentiles) fmt::format_to(out, "{:>11}", column.name);
  fmt::format_to(out, "{:>11}\n", "max");
  for (const BenchResult& result : report.results) {
    const LatencyHistogram& latencies = result.latencies;
    const auto count = static_cast<double>(latencies.count());
    fmt::format_to(out, "{:<6}{:>11.1f}{:>12.0f}{:>11.1f}", name_of(result.direction),
                   static_cast<double>(bytes_of_result(report, result)) / 1e6 / result.seconds, count / result.seconds,
                   latencies.mean_ns() / 1000);
    for (const Percentile& column : kPercentiles) {
      fmt::format_to(out, "{:>11.1f}", microseconds(latencies.percentile_ns(column.percent)));
    }
    fmt::format_to(out, "{:>11.1f}\n", microseconds(latencies.max_ns()));
  }
  return text;
}

}  // namespace brickfs
