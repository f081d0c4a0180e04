// SPDX-License-Identifier: Apache-2.0
// brickctl set status: the map of a replicated set, and what its bricks say now.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tools/brickctl/interrupt.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/set.h"
#include "tools/brickctl/set_look.h"
#include "tools/brickctl/set_wait.h"
#include "transport/base/printable.h"
#include "transport/base/progress_bar.h"
#include "transport/base/size.h"
#include "transport/etcd/set_map_json.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kAskEvery{500};

std::string describe_state(const MapReplica& replica) {
  std::string text = name_of(replica.state);
  if (replica.state != ReplicaState::kInSync && replica.since > 0)
    text += fmt::format(" since generation {}", replica.since);
  if (replica.total_blocks > 0) text += fmt::format(", {} %", 100 * replica.copied_blocks / replica.total_blocks);
  if (!replica.trouble.empty()) text += fmt::format(" (cannot be brought up to date: {})", printable(replica.trouble));
  return text + (replica.leaving ? ", leaving" : "");
}

std::string describe_look(const MapPlace& place, const MapReplica& replica, const ReplicaLook& look) {
  if (!look.stat.ok()) return look.why;
  if (has_forgotten(place, replica, *look.stat)) {
    const bool restarted = look.stat->durability == Durability::kVolatile && replica.boot != look.stat->boot;
    return fmt::format("answers, and has lost everything: {}",
                       restarted ? "it is volatile and was started again" : "its volume is empty");
  }
  return fmt::format("answers, {} used", format_size(look.stat->volume_used_blocks * kBlockBytes));
}

std::string describe_holder(const SetMap& map) {
  if (!map.holder) return "none yet";
  if (map.holder->let_go) return fmt::format("none; {} had it last, and ended cleanly", map.holder->name);
  return fmt::format("{} since generation {}", map.holder->name, map.holder->epoch);
}

const char* name_of_verdict(const SetVerdict& verdict) {
  return verdict.exit_code == kSetBroken ? "broken" : verdict.exit_code == kSetDegraded ? "degraded" : "well";
}

void print_text(const Command& command, const SetMap& map, const ReplicaLooks& looks, const SetVerdict& verdict) {
  const auto line = [](const char* key, const std::string& value) {
    fmt::print("{:<16} {}\n", std::string(key) + ":", printable(value));
  };
  line("source", command.source);
  line("set", format_id(map.set));
  line("generation", std::to_string(map.generation));
  line("copies wanted", std::to_string(map.wanted));
  line("holder", describe_holder(map));
  for (size_t i = 0; i < map.places.size(); ++i) {
    fmt::print("place {}:\n", i);
    for (const MapReplica& replica : map.places[i].replicas) {
      const std::string domain = replica.domain == brick_of(replica.source) ? "" : " (" + replica.domain + ")";
      const ReplicaLook& look = looks.at(replica.source);
      const std::string refusal = describe_refusal(map, map.places[i], replica, look);
      fmt::print("  {}{}: {}; {}\n", printable(replica.source), printable(domain),
                 refusal.empty() ? describe_state(replica) : refusal,
                 printable(describe_look(map.places[i], replica, look)));
    }
  }
  for (const std::string& wrong : verdict.lines) fmt::print("{}: {}\n", name_of_verdict(verdict), wrong);
  for (const std::string& note : verdict.notes) fmt::print("note: {}\n", note);
  if (all_in_sync(map) && verdict.lines.empty()) fmt::print("all copies are in sync\n");
}

Json to_json(const SetMap& map, const MapPlace& place, const MapReplica& replica, const ReplicaLook& look) {
  const std::string refusal = describe_refusal(map, place, replica, look);
  const bool answers = look.stat.ok();
  const std::string brick = brick_of(replica.source);
  return {{"id", format_id(replica.id)},
          {"brick", brick},
          {"volume", replica.source.substr(brick.size() + 1)},
          {"domain", replica.domain},
          {"state", refusal.empty() ? name_of(replica.state) : "refused"},
          {"refusal", refusal.empty() ? Json() : Json(refusal)},
          {"since", replica.since},
          {"leaving", replica.leaving},
          {"copied_blocks", replica.copied_blocks},
          {"total_blocks", replica.total_blocks},
          {"trouble", replica.trouble},
          {"answers", answers},
          {"why_not", answers ? Json() : Json(look.why)},
          {"lost", answers && has_forgotten(place, replica, *look.stat)},
          {"used_bytes", answers ? Json(look.stat->volume_used_blocks * kBlockBytes) : Json()}};
}

Json to_json(const Command& command, const Source& source, const SetMap& map, const ReplicaLooks& looks,
             const SetVerdict& verdict) {
  Json holder;
  if (map.holder) {
    holder = {{"name", map.holder->name}, {"since_generation", map.holder->epoch}, {"let_go", map.holder->let_go}};
  }
  Json places = Json::array();
  for (const MapPlace& place : map.places) {
    Json replicas = Json::array();
    for (const MapReplica& replica : place.replicas)
      replicas.push_back(to_json(map, place, replica, looks.at(replica.source)));
    places.push_back({{"made", place.made}, {"replicas", replicas}});
  }
  return {{"source", command.source},
          {"volume", source.volume},
          {"set", format_id(map.set)},
          {"generation", map.generation},
          {"wanted", map.wanted},
          {"holder", holder},
          {"verdict", name_of_verdict(verdict)},
          {"troubles", verdict.lines},
          {"notes", verdict.notes},
          {"places", places}};
}

// Copies that are brought up to date, if there are any; else those that are in sync.
void show(const SetMap& map, ProgressBar& bar) {
  uint64_t copies = 0;
  uint64_t in_sync = 0;
  uint64_t copied_blocks = 0;
  uint64_t total_blocks = 0;
  for (const MapPlace& place : map.places) {
    for (const MapReplica& replica : place.replicas) {
      ++copies;
      in_sync += replica.state == ReplicaState::kInSync ? 1 : 0;
      copied_blocks += replica.copied_blocks;
      total_blocks += replica.total_blocks;
    }
  }
  if (total_blocks > 0) {
    bar.show("blocks copied", copied_blocks, total_blocks);
  } else {
    bar.show("copies in sync", in_sync, copies);
  }
}

// The map, once all copies are in sync if that is waited for; etcd may be away meanwhile.
Result<MapStore::Stored> await_map(const Command& command, MapStore& store) {
  if (command.set.wait) catch_interrupts();
  ProgressBar bar;
  auto heard_at = std::chrono::steady_clock::now();
  for (bool first = true;; first = false) {
    auto stored = store.load();
    const auto now = std::chrono::steady_clock::now();
    if (stored.ok()) heard_at = now;
    if (!command.set.wait || interrupted()) return stored;
    if (stored.ok() && all_in_sync(stored->map)) return stored;
    if (!stored.ok() && (first || now - heard_at > kWithoutTheMap)) return stored;
    if (stored.ok()) show(stored->map, bar);
    std::this_thread::sleep_for(kAskEvery);
  }
}

}  // namespace

int run_set_status(const Command& command) {
  std::string why;
  Source source;
  const auto store = open_map_store(command, source, &why);
  if (!store.ok()) return fail(command, why);
  auto stored = await_map(command, **store);
  if (!stored.ok()) return fail(command, (*store)->trouble());
  SetMap& map = stored->map;
  const ReplicaLooks looks = look_at_all(**store, map, command.secret_file);
  const SetVerdict verdict = judge_set(map, looks);
  if (command.json) {
    print_json(to_json(command, source, map, looks, verdict));
  } else {
    print_text(command, map, looks, verdict);
  }
  return verdict.exit_code;
}

}  // namespace brickfs
