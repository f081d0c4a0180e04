// SPDX-License-Identifier: Apache-2.0
#include "transport/etcd/set_map_json.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "transport/brick/limits.h"
#include "transport/etcd/bounded_json.h"

namespace brickfs {
namespace {

using MapJson = nlohmann::ordered_json;  // in the order in which it is written

constexpr size_t kSourceBytes = 4096;
constexpr size_t kDomainBytes = 255;
constexpr uint64_t kMostBlocks = UINT64_MAX / kBlockBytes;
constexpr std::array kStates = {ReplicaState::kInSync, ReplicaState::kSyncing, ReplicaState::kStale};

std::string hex(uint64_t number) { return fmt::format("{:016x}", number); }

// All of `text`, which has just so many digits.
std::optional<uint64_t> from_hex(std::string_view text) {
  uint64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (text.size() != 16 || status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

MapJson to_json(const MapReplica& replica) {
  MapJson json = {{"id", format_id(replica.id)}, {"source", replica.source},
                  {"domain", replica.domain},    {"state", name_of(replica.state)},
                  {"since", replica.since},      {"boot", hex(static_cast<uint64_t>(replica.boot))},
                  {"leaving", replica.leaving}};
  if (replica.missed != 0) json["missed"] = hex(replica.missed);
  if (replica.marked != 0) json["marked"] = replica.marked;
  if (replica.total_blocks > 0) {
    json["copied_blocks"] = replica.copied_blocks;
    json["total_blocks"] = replica.total_blocks;
  }
  if (!replica.trouble.empty()) json["trouble"] = replica.trouble;
  return json;
}

MapJson to_json(const MapHolder& holder) {
  return {{"client", hex(static_cast<uint64_t>(holder.client))},
          {"name", holder.name},
          {"epoch", holder.epoch},
          {"let_go", holder.let_go}};
}

MapJson to_json(const MapTaker& taker) {
  return {{"client", hex(static_cast<uint64_t>(taker.client))}, {"name", taker.name}};
}

// Reads members of objects. The first that is not as it should be makes it bad, and is told; what it gives then does
// not matter.
class Reader {
 public:
  std::string trouble;  // empty: none

  const MapJson& object(const MapJson& json, const char* name) {
    static const MapJson kNone = MapJson::object();
    if (!json.is_object()) complain(name, "is no object");
    return json.is_object() ? json : kNone;
  }
  const MapJson& list(const MapJson& json, const char* name, size_t most) {
    static const MapJson kNone = MapJson::array();
    const MapJson* const found = find(json, name);
    if (found == nullptr || !found->is_array() || found->size() > most) {
      complain(name, fmt::format("is no list of at most {}", most));
      return kNone;
    }
    return *found;
  }
  uint64_t number(const MapJson& json, const char* name, uint64_t most) {
    const MapJson* const found = find(json, name);
    if (found != nullptr && found->is_number_unsigned() && found->get<uint64_t>() <= most)
      return found->get<uint64_t>();
    complain(name, fmt::format("is no number from 0 to {}", most));
    return 0;
  }
  uint64_t number_or_0(const MapJson& json, const char* name, uint64_t most) {
    return json.contains(name) ? number(json, name, most) : 0;
  }
  bool flag(const MapJson& json, const char* name) {
    const MapJson* const found = find(json, name);
    if (found != nullptr && found->is_boolean()) return found->get<bool>();
    complain(name, "is neither true nor false");
    return false;
  }
  std::string text(const MapJson& json, const char* name, size_t most_bytes) {
    const MapJson* const found = find(json, name);
    if (found != nullptr && found->is_string() && found->get_ref<const std::string&>().size() <= most_bytes)
      return found->get<std::string>();
    complain(name, fmt::format("is no text of at most {} bytes", most_bytes));
    return "";
  }
  uint64_t hex_number(const MapJson& json, const char* name) {
    const auto value = from_hex(text(json, name, kSourceBytes));
    if (!value) complain(name, "has not 16 hexadecimal digits");
    return value.value_or(0);
  }
  SetId id(const MapJson& json, const char* name) {
    const auto value = parse_id(text(json, name, kSourceBytes));
    if (!value.ok()) complain(name, "has not 32 hexadecimal digits");
    return value.ok() ? *value : SetId{};
  }
  ReplicaState state(const MapJson& json, const char* name) {
    const std::string word = text(json, name, kSourceBytes);
    for (const ReplicaState state : kStates) {
      if (word == name_of(state)) return state;
    }
    complain(name, "is no state of a copy");
    return ReplicaState::kStale;
  }

 private:
  static const MapJson* find(const MapJson& json, const char* name) {
    const auto found = json.find(name);
    return found == json.end() ? nullptr : &*found;
  }
  void complain(const char* name, const std::string& what) {
    if (trouble.empty()) trouble = fmt::format("its `{}` {}", name, what);
  }
};

MapReplica read_replica(Reader& reader, const MapJson& json) {
  MapReplica replica;
  replica.id = reader.id(json, "id");
  replica.source = reader.text(json, "source", kSourceBytes);
  replica.domain = reader.text(json, "domain", kDomainBytes);
  replica.state = reader.state(json, "state");
  replica.since = reader.number(json, "since", limits::kGeneration);
  replica.boot = BootId{reader.hex_number(json, "boot")};
  if (json.contains("missed")) replica.missed = reader.hex_number(json, "missed");
  replica.marked = reader.number_or_0(json, "marked", limits::kGeneration);
  replica.leaving = reader.flag(json, "leaving");
  replica.copied_blocks = reader.number_or_0(json, "copied_blocks", kMostBlocks);
  replica.total_blocks = reader.number_or_0(json, "total_blocks", kMostBlocks);
  if (json.contains("trouble")) replica.trouble = reader.text(json, "trouble", kTroubleBytes);
  return replica;
}

MapHolder read_holder(Reader& reader, const MapJson& json) {
  MapHolder holder;
  holder.client = ClientId{reader.hex_number(json, "client")};
  holder.name = reader.text(json, "name", limits::kClientNameBytes);
  holder.epoch = reader.number(json, "epoch", limits::kGeneration);
  holder.let_go = reader.flag(json, "let_go");
  return holder;
}

MapTaker read_taker(Reader& reader, const MapJson& json) {
  return {ClientId{reader.hex_number(json, "client")}, reader.text(json, "name", limits::kClientNameBytes)};
}

SetMap read_map(Reader& reader, const MapJson& json) {
  SetMap map;
  map.set = reader.id(json, "set");
  map.generation = reader.number(json, "generation", limits::kGeneration);
  map.wanted = reader.number(json, "wanted", limits::kReplicas);
  if (json.contains("tail_lost")) map.tail_lost = reader.flag(json, "tail_lost");
  if (json.contains("lease_wait")) map.lease_wait = reader.flag(json, "lease_wait");
  if (json.contains("holder") && !json["holder"].is_null())
    map.holder = read_holder(reader, reader.object(json["holder"], "holder"));
  if (json.contains("taker")) map.taker = read_taker(reader, reader.object(json["taker"], "taker"));
  for (const MapJson& one : reader.list(json, "places", limits::kBricksPerSet)) {
    MapPlace& place = map.places.emplace_back();
    place.made = reader.flag(reader.object(one, "places"), "made");
    place.added = reader.number_or_0(reader.object(one, "places"), "added", limits::kGeneration);
    for (const MapJson& replica : reader.list(reader.object(one, "places"), "replicas", 2 * limits::kReplicas))
      place.replicas.push_back(read_replica(reader, reader.object(replica, "replicas")));
  }
  return map;
}

Error refuse(std::string* why, std::string text, int code = EUCLEAN) {
  *why = std::move(text);
  return Error(code, "map of a set");
}

}  // namespace

std::string format_map(const SetMap& map) {
  MapJson places = MapJson::array();
  for (const MapPlace& place : map.places) {
    MapJson replicas = MapJson::array();
    for (const MapReplica& replica : place.replicas) replicas.push_back(to_json(replica));
    MapJson one = {{"made", place.made}};
    if (place.added != 0) one["added"] = place.added;
    one["replicas"] = std::move(replicas);
    places.push_back(std::move(one));
  }
  MapJson json = {{"format", kMapFormat},
                  {"set", format_id(map.set)},
                  {"generation", map.generation},
                  {"wanted", map.wanted},
                  {"tail_lost", map.tail_lost},
                  {"lease_wait", map.lease_wait},
                  {"holder", map.holder ? to_json(*map.holder) : MapJson()}};
  if (map.taker) json["taker"] = to_json(*map.taker);
  json["places"] = std::move(places);
  return json.dump(1, ' ', false, MapJson::error_handler_t::replace);
}

Result<SetMap> parse_map(std::string_view text, std::string* why) {
  if (text.size() > kMapBytes) return refuse(why, "it is too large");
  const MapJson json = is_bounded_json(text) ? MapJson::parse(text, nullptr, false) : MapJson();
  if (!json.is_object()) return refuse(why, "it is no JSON object");
  Reader reader;
  const uint64_t format = reader.number(json, "format", UINT64_MAX);
  if (format > kMapFormat)
    return refuse(why, fmt::format("it is of format {}, made by a newer brickfs", format), EPROTO);
  if (format == 0) return refuse(why, "it has no format");
  SetMap map = read_map(reader, json);
  if (!reader.trouble.empty()) return refuse(why, reader.trouble);
  TRY(check_map(map, why));
  return map;
}

std::string format_id(const SetId& id) {
  std::string text;
  for (const std::byte byte : id) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

Result<SetId> parse_id(std::string_view text) {
  SetId id;
  if (text.size() != 2 * id.size()) return Error(EINVAL, "an id");
  for (size_t i = 0; i < id.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + 2 * i;
    const auto [end, status] = std::from_chars(digits, digits + 2, byte, 16);
    if (status != std::errc() || end != digits + 2) return Error(EINVAL, "an id");
    id[i] = std::byte{static_cast<uint8_t>(byte)};
  }
  return id;
}

}  // namespace brickfs
