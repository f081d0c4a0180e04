// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/operation_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "transport/base/bytes.h"
#include "transport/base/latency_counters.h"

namespace brickfs {
namespace {

double mean_seconds(const OperationState& operation) {
  return operation.count == 0 ? 0 : operation.seconds / static_cast<double>(operation.count);
}

// "12.3 us", "4.5 ms", "6.7 s".
std::string in_unit(double seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} s", seconds);
}

std::string rate_of_bytes(double rate) {
  if (rate <= 0) return "-";
  return fmt::format("{:.1f}", rate / 1e6);
}

}  // namespace

std::vector<OperationState> operations_since(std::span<const OperationState> before,
                                             std::span<const OperationState> now) {
  std::vector<OperationState> all;
  for (OperationState operation : now) {
    const auto former = std::ranges::find(before, operation.name, &OperationState::name);
    if (former != before.end()) {
      operation.count -= std::min(operation.count, former->count);
      operation.failures -= std::min(operation.failures, former->failures);
      operation.bytes -= std::min(operation.bytes, former->bytes);
      operation.seconds = std::max(0.0, operation.seconds - former->seconds);
      for (size_t i = 0; i < std::min(operation.buckets.size(), former->buckets.size()); ++i)
        operation.buckets[i] -= std::min(operation.buckets[i], former->buckets[i]);
    }
    all.push_back(std::move(operation));
  }
  return all;
}

double quantile_seconds(const OperationState& operation, double part) {
  double all = 0;
  for (const uint64_t bucket : operation.buckets) all += static_cast<double>(bucket);
  double below = 0;
  for (size_t i = 0; i < operation.buckets.size() && all > 0; ++i) {
    below += static_cast<double>(operation.buckets[i]);
    if (below >= part * all) return latency_bucket_seconds(std::min(i, kLatencyBuckets - 2));
  }
  return 0;
}

void sort_operations(std::vector<OperationState>& operations, SortBy by) {
  if (by == SortBy::kName) std::ranges::sort(operations, {}, &OperationState::name);
  if (by == SortBy::kTime) std::ranges::stable_sort(operations, std::greater<>(), &OperationState::seconds);
  if (by == SortBy::kCount) std::ranges::stable_sort(operations, std::greater<>(), &OperationState::count);
  if (by == SortBy::kMean) std::ranges::stable_sort(operations, std::greater<>(), mean_seconds);
}

std::string operation_table(std::span<const OperationState> operations, double seconds, bool with_share) {
  double all_seconds = 0;
  for (const OperationState& operation : operations) all_seconds += operation.seconds;
  std::string table = fmt::format("{:<16}{:>12}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{}\n", "operation", "count", "per s",
                                  "failed", "mean", "p50 <", "p99 <", "MB/s", with_share ? "  % of time" : "");
  for (const OperationState& operation : operations) {
    if (operation.count == 0) continue;
    const double rate = seconds > 0 ? static_cast<double>(operation.count) / seconds : 0;
    const double bytes_rate = seconds > 0 ? static_cast<double>(operation.bytes) / seconds : 0;
    table +=
        fmt::format("{:<16}{:>12}{:>12.1f}{:>10}{:>10}{:>10}{:>10}{:>10}", operation.name, operation.count, rate,
                    operation.failures, in_unit(mean_seconds(operation)), in_unit(quantile_seconds(operation, 0.5)),
                    in_unit(quantile_seconds(operation, 0.99)), rate_of_bytes(bytes_rate));
    if (with_share) table += fmt::format("{:>11.1f}", all_seconds > 0 ? 100 * operation.seconds / all_seconds : 0);
    table += '\n';
  }
  return table;
}

}  // namespace brickfs
