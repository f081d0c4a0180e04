// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/brick_stats.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "tools/brickctl/administrator.h"
#include "tools/brickctl/target.h"
#include "transport/base/local_time.h"
#include "transport/base/printable.h"
#include "transport/base/size.h"
#include "transport/brick/block.h"
#include "transport/brick/source.h"

namespace brickfs {
namespace {

using std::chrono::duration;

constexpr std::array kCounters = {
    &ClientStatus::calls,      &ClientStatus::commits, &ClientStatus::committed_bytes, &ClientStatus::reads,
    &ClientStatus::read_bytes, &ClientStatus::writes,  &ClientStatus::written_bytes};

// What happened, of a volume or a client, and the time it took.
struct Row {
  std::string name;
  ClientStatus counts;
  std::string what;  // besides
};

double traffic_of(const ClientStatus& counts) {
  return static_cast<double>(counts.read_bytes) + static_cast<double>(counts.written_bytes) +
         static_cast<double>(counts.committed_bytes);
}

void sort_rows(std::vector<Row>& rows, SortBy by) {
  const auto by_value = [&](auto&& value) { std::ranges::stable_sort(rows, std::greater<>(), value); };
  if (by == SortBy::kName) std::ranges::stable_sort(rows, {}, &Row::name);
  if (by == SortBy::kTime) by_value([](const Row& row) { return traffic_of(row.counts); });
  if (by == SortBy::kCount) by_value([](const Row& row) { return row.counts.calls; });
  if (by == SortBy::kMean) by_value([](const Row& row) { return row.counts.commits; });
}

// `seconds` 0: counts, else rates.
std::string number(uint64_t count, double seconds) {
  return seconds > 0 ? fmt::format("{:.1f}", static_cast<double>(count) / seconds) : fmt::format("{}", count);
}
std::string megabytes(uint64_t bytes, double seconds) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6 / (seconds > 0 ? seconds : 1));
}

std::string table_of(const char* title, const std::vector<Row>& rows, double seconds) {
  size_t width = std::strlen(title);
  for (const Row& row : rows) width = std::max(width, row.name.size());
  const char* const per = seconds > 0 ? "/s" : "";
  const auto heading = [&](const char* name) { return fmt::format("{}{}", name, per); };
  std::string table = fmt::format("{:<{}}{:>11}{:>14}{:>16}{:>11}{:>11}\n", title, width, heading("read MB"),
                                  heading("written MB"), heading("committed MB"), heading("commits"), heading("calls"));
  for (const Row& row : rows) {
    const ClientStatus& counts = row.counts;
    table += fmt::format("{:<{}}{:>11}{:>14}{:>16}{:>11}{:>11}  {}\n", row.name, width,
                         megabytes(counts.read_bytes, seconds), megabytes(counts.written_bytes, seconds),
                         megabytes(counts.committed_bytes, seconds), number(counts.commits, seconds),
                         number(counts.calls, seconds), row.what);
  }
  return table;
}

const char* mode_name(OpenMode mode) {
  switch (mode) {
    case OpenMode::kExclusive:
      return "writes";
    case OpenMode::kReadOnly:
      return "reads";
    case OpenMode::kObserve:
      return "observes";
    case OpenMode::kFollow:
      return "follows";
  }
  return "";
}

std::string size_text(uint64_t blocks) { return about_size(blocks * kBlockBytes); }

std::vector<Row> volume_rows(const BrickStats::Sample& now, const std::vector<ClientStatus>& clients) {
  std::map<std::string, ClientStatus> sums;
  for (const ClientStatus& client : clients) {
    for (const auto counter : kCounters) sums[client.volume].*counter += client.*counter;
  }
  std::vector<Row> rows;
  for (const VolumeStatus& volume : now.volumes) {
    rows.push_back({volume.name, sums[volume.name],
                    fmt::format("{} of {} used, {} in memory", size_text(volume.used_blocks),
                                volume.size_blocks ? size_text(*volume.size_blocks) : std::string("the brick"),
                                size_text(volume.resident_blocks))});
  }
  return rows;
}

std::vector<Row> client_rows(const std::vector<ClientStatus>& clients) {
  std::vector<Row> rows;
  for (const ClientStatus& client : clients) {
    rows.push_back({printable(client.holder.name), client,
                    fmt::format("{} {} since {}", mode_name(client.mode), client.volume,
                                local_time(client.holder.since_unix_seconds))});
  }
  return rows;
}

void add_counts(Json& object, const ClientStatus& counts) {
  object["calls"] = counts.calls;
  object["commits"] = counts.commits;
  object["committed_bytes"] = counts.committed_bytes;
  object["reads"] = counts.reads;
  object["read_bytes"] = counts.read_bytes;
  object["writes"] = counts.writes;
  object["written_bytes"] = counts.written_bytes;
}

}  // namespace

std::vector<ClientStatus> clients_since(const std::vector<ClientStatus>& before, const std::vector<ClientStatus>& now) {
  std::vector<ClientStatus> since = now;
  for (ClientStatus& client : since) {
    const auto former = std::ranges::lower_bound(before, client.number, {}, &ClientStatus::number);
    // A brick that has restarted counts sessions from the first one on.
    if (former == before.end() || former->number != client.number || former->calls > client.calls) continue;
    for (const auto counter : kCounters) client.*counter -= std::min(client.*counter, (*former).*counter);
  }
  return since;
}

Result<BrickStats::Sample> BrickStats::look(std::string* why) const {
  Target target{source_, {}, nullptr};
  target.source = TRY(parse_source(source_, why));
  const Source& source = target.source;
  if (source.is_set()) {
    *why = "this takes one brick, and a set is named: name each of its bricks by itself";
    return Error(EINVAL, "one brick");
  }
  const Administrator administrator(source, admin_secret_file_);
  // A source that names none means `default`, and that the brick.
  const bool one = source_.ends_with("/" + source.volume);
  AdminRequest request;
  const auto ask = [&]() -> Result<AdminAnswer> {
    auto answer = administrator.ask(request, why);
    if (!answer.ok()) {
      *why = describe_admin_error(target, answer.error(), *why);
      return answer;
    }
    if (answer->status == EINVAL && request.action == AdminAction::kClients) {
      *why = "the brick is older than this question";
      return Error(EOPNOTSUPP, "clients");
    }
    if (answer->status == 0) return answer;
    *why = std::strerror(answer->status);
    return Error(answer->status, "administration");
  };
  Sample sample;
  sample.volumes = TRY(ask()).volumes;
  if (one) std::erase_if(sample.volumes, [&](const VolumeStatus& volume) { return volume.name != source.volume; });
  if (sample.volumes.empty()) {
    *why = fmt::format("the brick has no volume {}", source.volume);
    return Error(ENOENT, "volume");
  }
  request = {};
  request.action = AdminAction::kClients;
  if (one) request.volume = source.volume;
  sample.clients = TRY(ask()).clients;
  sample.at = std::chrono::steady_clock::now();
  return sample;
}

std::string BrickStats::text(const Sample* before, const Sample& now, SortBy by, bool) const {
  const double seconds = before == nullptr ? 0 : duration<double>(now.at - before->at).count();
  const auto clients = before == nullptr ? now.clients : clients_since(before->clients, now.clients);
  uint64_t used = 0;
  uint64_t resident = 0;
  for (const VolumeStatus& volume : now.volumes) {
    used += volume.used_blocks;
    resident += volume.resident_blocks;
  }
  std::vector<Row> volumes = volume_rows(now, clients);
  std::vector<Row> rows = client_rows(clients);
  sort_rows(volumes, by);
  sort_rows(rows, by);
  return fmt::format("{}: {} volume(s), {} allocated, {} of it in memory; {} client(s)\n\n{}\n{}", source_,
                     now.volumes.size(), size_text(used), size_text(resident), clients.size(),
                     table_of("volume", volumes, seconds), table_of("client", rows, seconds));
}

Json BrickStats::json(const Sample* before, const Sample& now) const {
  const auto clients = before == nullptr ? now.clients : clients_since(before->clients, now.clients);
  Json volumes = Json::array();
  for (const Row& row : volume_rows(now, clients)) {
    const auto volume = std::ranges::find(now.volumes, row.name, &VolumeStatus::name);
    Json object = {{"name", row.name},
                   {"used_bytes", volume->used_blocks * kBlockBytes},
                   {"in_memory_bytes", volume->resident_blocks * kBlockBytes}};
    add_counts(object, row.counts);
    volumes.push_back(std::move(object));
  }
  Json list = Json::array();
  for (const ClientStatus& client : clients) {
    Json object = {{"name", client.holder.name},
                   {"volume", client.volume},
                   {"mode", mode_name(client.mode)},
                   {"since", client.holder.since_unix_seconds}};
    add_counts(object, client);
    list.push_back(std::move(object));
  }
  return {{"source", source_},
          {"seconds", before == nullptr ? Json() : Json(duration<double>(now.at - before->at).count())},
          {"volumes", volumes},
          {"clients", list}};
}

}  // namespace brickfs
