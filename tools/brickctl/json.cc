// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/json.h"

#include <cmath>
#include <cstdio>

namespace brickfs {

void print_json(const Json& object) {
  const std::string text = object.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

double json_microseconds(double nanoseconds) { return std::round(nanoseconds) / 1000; }

Json to_json(const LatencyHistogram& latencies) {
  Json json = {{"count", latencies.count()}};
  if (latencies.count() == 0) return json;
  const auto add = [&json](const char* name, double nanoseconds) { json[name] = json_microseconds(nanoseconds); };
  add("min", static_cast<double>(latencies.min_ns()));
  add("mean", latencies.mean_ns());
  for (const Percentile& percentile : kPercentiles) {
    add(percentile.key, static_cast<double>(latencies.percentile_ns(percentile.percent)));
  }
  add("max", static_cast<double>(latencies.max_ns()));
  return json;
}

Json to_json(const BenchReport& report) {
  const BenchOptions& options = report.options;
  Json json = {{"source", report.source},   {"transport", report.transport}, {"size", options.transfer_bytes},
               {"depth", options.depth},    {"threads", options.threads},    {"seconds", options.seconds},
               {"span", report.span_bytes}, {"results", Json::array()}};
  for (const BenchResult& result : report.results) {
    const auto count = static_cast<double>(result.latencies.count());
    const uint64_t bytes = bytes_of_result(report, result);
    json["results"].push_back({{"direction", name_of(result.direction)},
                               {"seconds", result.seconds},
                               {"bytes", bytes},
                               {"bytes_per_second", std::round(static_cast<double>(bytes) / result.seconds)},
                               {"transfers_per_second", count / result.seconds},
                               {"latency_us", to_json(result.latencies)}});
  }
  return json;
}

Json to_json(const BlockRange& blocks) { return {{"start", raw(blocks.start)}, {"blocks", blocks.count}}; }

}  // namespace brickfs
