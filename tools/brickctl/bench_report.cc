// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/bench_report.h"

#include <fmt/core.h>

#include <array>
#include <iterator>

#include "transport/base/size.h"

namespace brickfs {
namespace {

struct Column {
  const char* name;
  const char* key;
  double percent;
};
constexpr std::array<Column, 4> kPercentiles = {
    {{"p50", "p50", 50}, {"p90", "p90", 90}, {"p99", "p99", 99}, {"p99.9", "p999", 99.9}}};

double microseconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

uint64_t bytes_of_result(const BenchReport& report, const BenchResult& result) {
  return result.latencies.count() * report.options.transfer_bytes;
}

const char* name_of(Direction direction) { return direction == Direction::kRead ? "read" : "write"; }

}  // namespace

std::string format_table(const BenchReport& report) {
  const BenchOptions& options = report.options;
  std::string text =
      fmt::format("{} over {}: {} a transfer, depth {}, {} thread{}, {:g} s each way, over {} of the volume\n",
                  report.source, report.transport, format_size(options.transfer_bytes), options.depth, options.threads,
                  options.threads == 1 ? "" : "s", options.seconds, format_size(report.span_bytes));
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<6}{:>11}{:>12}{:>11}", "", "MB/s", "transfers/s", "mean us");
  for (const Column& column : kPercentiles) fmt::format_to(out, "{:>11}", column.name);
  fmt::format_to(out, "{:>11}\n", "max");
  for (const BenchResult& result : report.results) {
    const LatencyHistogram& latencies = result.latencies;
    const auto count = static_cast<double>(latencies.count());
    fmt::format_to(out, "{:<6}{:>11.1f}{:>12.0f}{:>11.1f}", name_of(result.direction),
                   static_cast<double>(bytes_of_result(report, result)) / 1e6 / result.seconds, count / result.seconds,
                   latencies.mean_ns() / 1000);
    for (const Column& column : kPercentiles) {
      fmt::format_to(out, "{:>11.1f}", microseconds(latencies.percentile_ns(column.percent)));
    }
    fmt::format_to(out, "{:>11.1f}\n", microseconds(latencies.max_ns()));
  }
  return text;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string json_latencies(const LatencyHistogram& latencies) {
  if (latencies.count() == 0) return R"({"count": 0})";
  std::string text = fmt::format(R"({{"count": {}, "min": {:.3f}, "mean": {:.3f})", latencies.count(),
                                 microseconds(latencies.min_ns()), latencies.mean_ns() / 1000);
  for (const Column& column : kPercentiles) {
    text += fmt::format(R"(, "{}": {:.3f})", column.key, microseconds(latencies.percentile_ns(column.percent)));
  }
  return text + fmt::format(R"(, "max": {:.3f}}})", microseconds(latencies.max_ns()));
}

std::string format_json(const BenchReport& report) {
  const BenchOptions& options = report.options;
  std::string text = fmt::format(
      R"({{"source": {}, "transport": {}, "size": {}, "depth": {}, "threads": {}, "seconds": {:g}, "span": {}, "results": [)",
      json_string(report.source), json_string(report.transport), options.transfer_bytes, options.depth, options.threads,
      options.seconds, report.span_bytes);
  const char* separator = "";
  for (const BenchResult& result : report.results) {
    const uint64_t bytes = bytes_of_result(report, result);
    text += fmt::format(
        R"({}{{"direction": "{}", "seconds": {:.6f}, "bytes": {}, "bytes_per_second": {:.0f}, "transfers_per_second": {:.1f}, "latency_us": {}}})",
        separator, name_of(result.direction), result.seconds, bytes, static_cast<double>(bytes) / result.seconds,
        static_cast<double>(result.latencies.count()) / result.seconds, json_latencies(result.latencies));
    separator = ", ";
  }
  return text + "]}\n";
}

}  // namespace brickfs
