// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_page.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "server/brickd_page_document.h"
#include "transport/brick/store_trouble.h"

namespace brickfs {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kClientsShown = 500;

uint64_t page_bytes(uint64_t blocks) { return blocks * kBlockBytes; }

Json volumes_of(const BrickNumbers& numbers) {
  Json volumes = Json::array();
  for (const VolumeStatus& volume : numbers.volumes) {
    volumes.push_back(
        {{"name", volume.name},
         {"capacity_bytes", page_bytes(std::min(volume.size_blocks.value_or(UINT64_MAX), numbers.capacity_blocks))},
         {"used_bytes", page_bytes(volume.used_blocks)},
         {"in_memory_bytes", page_bytes(volume.resident_blocks)},
         {"holder", volume.holder ? Json(volume.holder->name) : Json()},
         {"connected", volume.holder && !volume.holder_away},
         {"readers", volume.readers}});
  }
  return volumes;
}

Json clients_of(const BrickNumbers& numbers) {
  constexpr auto kModes = std::array{"", "writes", "reads", "observes", "follows"};
  Json clients = Json::array();
  for (const BrickNumbers::Client& client : numbers.clients) {
    if (clients.size() == kClientsShown) break;
    clients.push_back({{"name", client.name},
                       {"volume", client.volume},
                       {"mode", kModes[static_cast<size_t>(client.mode)]},
                       {"since", client.since_unix_seconds}});
  }
  return clients;
}

// What went on between two samples.
Json interval_of(const BrickHistory::Sample& from, const BrickHistory::Sample& to) {
  const double seconds = std::max(1e-3, static_cast<double>(to.unix_milliseconds - from.unix_milliseconds) / 1000);
  const auto rate = [&](uint64_t before, uint64_t now) { return static_cast<double>(now - before) / seconds; };
  LatencyCounts calls = to.calls;
  for (size_t i = 0; i < kLatencyBuckets; ++i) calls.buckets[i] -= from.calls.buckets[i];
  return {{"at", to.unix_milliseconds / 1000},
          {"used_bytes", page_bytes(to.used_blocks)},
          {"sessions", to.sessions},
          {"read_bytes_per_second", rate(from.read_bytes, to.read_bytes)},
          {"written_bytes_per_second", rate(from.written_bytes, to.written_bytes)},
          {"committed_bytes_per_second", rate(from.committed_bytes, to.committed_bytes)},
          {"calls_per_second", static_cast<double>(calls.count()) / seconds},
          {"call_p50_us", latency_percentile_us(calls, 0.5)},
          {"call_p99_us", latency_percentile_us(calls, 0.99)}};
}

Json history_of(const BrickHistory& history) {
  const auto samples = history.samples();
  Json intervals = Json::array();
  for (size_t i = 1; i < samples.size(); ++i) intervals.push_back(interval_of(samples[i - 1], samples[i]));
  return intervals;
}

std::string status_of(const BrickService& service, const BrickHistory& history) {
  const BrickNumbers numbers = service.numbers();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const Json status = {{"version", BRICKFS_VERSION},
                       {"now", std::chrono::duration_cast<std::chrono::seconds>(now).count()},
                       {"medium", numbers.medium},
                       {"trouble", store_trouble(numbers.medium)},
                       {"durable", service.durability() == Durability::kDurable},
                       {"capacity_bytes", page_bytes(numbers.capacity_blocks)},
                       {"used_bytes", page_bytes(numbers.blocks.used)},
                       {"memory_bytes", page_bytes(numbers.memory_blocks)},
                       {"in_memory_bytes", page_bytes(numbers.blocks.resident)},
                       {"volumes", volumes_of(numbers)},
                       {"clients", clients_of(numbers)},
                       {"history", history_of(history)}};
  return status.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::vector<Page> pages_of_brick(const BrickService& service, const BrickHistory& history) {
  return {{"/", "text/html; charset=utf-8", [] { return std::string(kPageDocument); }},
          {"/status.json", "application/json", [&service, &history] { return status_of(service, history); }}};
}

}  // namespace brickfs
