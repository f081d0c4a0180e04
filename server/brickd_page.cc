// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_page.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "server/brickd_page_document.h"
#include "transport/brick/store_trouble.h"
#include "transport/membership/coordinator_name.h"

namespace brickfs {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kClientsShown = 500;
constexpr size_t kCopiesShown = 500;

std::string name_of_host() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

uint64_t page_bytes(uint64_t blocks) { return blocks * kBlockBytes; }

// Whom the holder has let in, and who reads or writes here: of a shared volume its members. Each once.
Json members_of(const BrickNumbers& numbers, const std::string& volume) {
  std::set<std::string> names;
  for (const BrickNumbers::Client& client : numbers.clients) {
    if (names.size() == kClientsShown) break;
    if (client.mode == OpenMode::kFollow && client.volume == volume) names.insert(client.name);
  }
  return names;
}

Json volumes_of(const BrickNumbers& numbers) {
  Json volumes = Json::array();
  for (const VolumeStatus& volume : numbers.volumes) {
    const auto shared_at = volume.holder ? address_of_coordinator(volume.holder->name) : std::nullopt;
    volumes.push_back(
        {{"name", volume.name},
         {"capacity_bytes", page_bytes(std::min(volume.size_blocks.value_or(UINT64_MAX), numbers.capacity_blocks))},
         {"used_bytes", page_bytes(volume.used_blocks)},
         {"in_memory_bytes", page_bytes(volume.resident_blocks)},
         {"holder", volume.holder ? Json(plain_name(volume.holder->name)) : Json()},
         {"shared_at", shared_at ? Json(format_address(*shared_at)) : Json()},
         {"members", shared_at ? members_of(numbers, volume.name) : Json::array()},
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

Json copies_of(const SetOnBrick& set, size_t most) {
  Json copies = Json::array();
  for (size_t place = 0; place < set.map.places.size(); ++place) {
    for (const MapReplica& replica : set.map.places[place].replicas) {
      if (copies.size() == most) return copies;
      copies.push_back({{"place", place},
                        {"source", replica.source},
                        {"here", set.here.contains(replica.id)},
                        {"state", name_of(replica.state)},
                        {"since", replica.since},
                        {"leaving", replica.leaving},
                        {"copied_bytes", page_bytes(replica.copied_blocks)},
                        {"total_bytes", page_bytes(replica.total_blocks)}});
    }
  }
  return copies;
}

// Null: etcd is not asked.
Json sets_of(BrickSets* sets) {
  if (sets == nullptr) return {};
  const BrickSets::View view = sets->look();
  Json all = Json::array();
  size_t copies_left = kCopiesShown;
  for (const SetOnBrick& set : view.sets) {
    Json copies = copies_of(set, copies_left);
    copies_left -= copies.size();
    Json holder;
    if (set.map.holder) holder = {{"name", set.map.holder->name}, {"let_go", set.map.holder->let_go}};
    all.push_back({{"name", set.name},
                   {"generation", set.map.generation},
                   {"copies_wanted", set.map.wanted},
                   {"degraded", set.map.is_degraded()},
                   {"holder", std::move(holder)},
                   {"copies", std::move(copies)}});
  }
  return {{"trouble", view.trouble}, {"at", view.unix_seconds}, {"sets", std::move(all)}};
}

std::string status_of(const BrickService& service, const BrickHistory& history, BrickSets* sets) {
  const BrickNumbers numbers = service.numbers();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const Json status = {{"version", BRICKFS_VERSION},
                       {"host", name_of_host()},
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
                       {"replicated", sets_of(sets)},
                       {"history", history_of(history)}};
  return status.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::vector<Page> pages_of_brick(const BrickService& service, const BrickHistory& history, BrickSets* sets) {
  return {
      {"/", "text/html; charset=utf-8", [] { return std::string(kPageDocument); }},
      {"/status.json", "application/json", [&service, &history, sets] { return status_of(service, history, sets); }}};
}

}  // namespace brickfs
