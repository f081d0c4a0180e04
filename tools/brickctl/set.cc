// SPDX-License-Identifier: Apache-2.0
// brickctl set create: a replicated set of empty volumes, whose map goes to etcd. Nothing is to be undone if it ends on
// the way: the same command goes on from there.
#include "tools/brickctl/set.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "fs/source/source_volume.h"
#include "tools/brickctl/commands.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/set_volumes.h"
#include "transport/base/printable.h"
#include "transport/base/random.h"
#include "transport/base/size.h"
#include "transport/brick/volume_name.h"
#include "transport/etcd/set_map_json.h"

namespace brickfs {
namespace {

constexpr size_t kDomainBytes = 255;

Result<std::vector<MapPlace>> plan(const Command& command, const Source& source, std::string* why) {
  return plan_places(TRY(name_bricks(command.set, why)), command.set.replicas, source.volume, why);
}

// "home.2": what a set calls its second volume on a brick (plan_places()).
bool is_name_of_further_volume(const std::string& volume) {
  const size_t dot = volume.rfind('.');
  return dot != volume.npos && dot + 1 < volume.size() &&
         volume.find_first_not_of("0123456789", dot + 1) == volume.npos;
}

// The map before there is anything in the volumes.
SetMap first_map(std::vector<MapPlace> places, uint64_t wanted) {
  SetMap map;
  fill_random(map.set);
  map.generation = 1;
  map.wanted = wanted;
  map.places = std::move(places);
  for (MapPlace& place : map.places) {
    for (MapReplica& replica : place.replicas) {
      fill_random(replica.id);
      replica.state = ReplicaState::kInSync;
    }
  }
  return map;
}

std::vector<MapReplica*> replicas_of(SetMap& map) {
  std::vector<MapReplica*> all;
  for (MapPlace& place : map.places) {
    for (MapReplica& replica : place.replicas) all.push_back(&replica);
  }
  return all;
}

int tell(const Command& command, const Source& source, const SetMap& map, bool made) {
  if (command.json) {
    print_json({{"source", command.source},
                {"volume", source.volume},
                {"set", format_id(map.set)},
                {"generation", map.generation},
                {"wanted", map.wanted},
                {"places", map.places.size()},
                {"made", made}});
  } else if (made) {
    fmt::print("set {} is made: copies {}, places {}, bricks {}\n", source.volume, map.wanted, map.places.size(),
               command.set.bricks.size());
  } else {
    fmt::print("set {} is there already, as it is asked for\n", source.volume);
  }
  return EXIT_SUCCESS;
}

// The same copies, in whatever state, and in the same order.
bool is_as_planned(const SetMap& map, const std::vector<MapPlace>& places, uint64_t wanted) {
  const auto is_same = [](const MapReplica& a, const MapReplica& b) {
    return a.source == b.source && a.domain == b.domain;
  };
  return map.wanted == wanted && std::ranges::equal(map.places, places, [&](const MapPlace& a, const MapPlace& b) {
           return std::ranges::equal(a.replicas, b.replicas, is_same);
         });
}

int tell_existing(const Command& command, const Source& source, const SetMap& map,
                  const std::vector<MapPlace>& places) {
  if (is_as_planned(map, places, command.set.replicas)) return tell(command, source, map, false);
  return fail(command, fmt::format("there is a set {} already, with other bricks or copies", source.volume));
}

// Puts the map where there is none. What was asked for and not answered is looked at.
int put_first_map(const Command& command, const Source& source, MapStore& store, const SetMap& map) {
  const auto replaced = store.replace(map, 0);
  if (replaced.ok()) return tell(command, source, map, true);
  const std::string trouble = store.trouble();
  const auto stored = store.load();
  if (stored.ok() && stored->map.set == map.set) return tell(command, source, map, true);
  if (stored.ok()) return tell_existing(command, source, stored->map, map.places);
  if (replaced.code() != ETIMEDOUT) return fail(command, trouble);
  return fail(command, trouble + "; it may be made all the same: repeat this command");
}

Status name_domain(const std::string& text, std::vector<NamedBrick>& bricks, std::string* why) {
  const size_t equals = text.find('=');
  const std::string domain = equals == text.npos ? "" : text.substr(equals + 1);
  if (!is_domain(domain)) return refuse_set(why, fmt::format("--domain {}: BRICK=NAME is wanted", text));
  const std::string brick = TRY(name_of_brick(text.substr(0, equals), why));
  const auto named = std::ranges::find(bricks, brick, &NamedBrick::brick);
  if (named == bricks.end()) return refuse_set(why, fmt::format("--domain {}: that brick is not named", text));
  named->domain = domain;
  return {};
}

}  // namespace

Error refuse_set(std::string* why, std::string text, int code) {
  *why = std::move(text);
  return Error(code, "a set");
}

std::string brick_of(const std::string& source) { return source.substr(0, source.rfind('/')); }

bool is_domain(const std::string& text) {
  return !text.empty() && text.size() <= kDomainBytes && printable(text) == text;
}

Result<std::string> name_of_brick(const std::string& text, std::string* why) {
  const Source source = TRY(parse_source(text, why));
  if (source.embedded() || source.kind == SourceKind::kEtcd || source.is_set())
    return refuse_set(
        why, fmt::format(
                 "{}: a brick of a set is tcp://HOST[:PORT], or rdma://HOST[:PORT][,...] or fabric://HOST[:PORT][,...]",
                 text));
  if (source.volume != kDefaultVolume)
    return refuse_set(why, fmt::format("{}: a brick is meant here, not a volume of it", text));
  return brick_of(format_source(source));
}

Result<std::vector<NamedBrick>> name_bricks(const SetOptions& options, std::string* why) {
  std::vector<NamedBrick> bricks;
  for (const std::string& text : options.bricks) {
    std::string brick = TRY(name_of_brick(text, why));
    if (std::ranges::find(bricks, brick, &NamedBrick::brick) != bricks.end())
      return refuse_set(why, brick + " is named twice");
    bricks.push_back({std::move(brick), ""});
  }
  for (const std::string& text : options.domains) TRY(name_domain(text, bricks, why));
  return bricks;
}

Result<std::unique_ptr<EtcdMapStore>> open_map_store(const Command& command, Source& source, std::string* why) {
  source = TRY(parse_source(command.source, why));
  if (source.kind != SourceKind::kEtcd)
    return refuse_set(why, "a replicated set is named by etcd://HOST[:PORT][,HOST[:PORT]]/VOLUME");
  return EtcdMapStore::open(source, command.set.etcd, why);
}

int run_set_create(const Command& command) {
  std::string why;
  Source source;
  const auto store = open_map_store(command, source, &why);
  if (!store.ok()) return fail(command, why);
  const auto places = plan(command, source, &why);
  if (!places.ok()) return fail(command, why);
  if (is_name_of_further_volume(source.volume)) {
    return fail(command, fmt::format("{}: the name of a set ends with no .NUMBER, as the further volumes on a brick of "
                                     "another one do",
                                     source.volume));
  }
  const auto stored = (*store)->load();
  if (stored.ok()) return tell_existing(command, source, stored->map, *places);
  if (stored.code() != ENOENT) return fail(command, (*store)->trouble());
  if (!is_new_volume_name(source.volume)) return fail(command, kVolumeNameRule);
  SetMap map = first_map(*places, command.set.replicas);
  if (!check_map(map, &why).ok()) return fail(command, why);
  EmptyVolumes volumes(command);
  if (!volumes.compare_with_others(**store, replicas_of(map), &why).ok()) return fail(command, why);
  if (!volumes.open(replicas_of(map), &why).ok()) return fail(command, why);
  return put_first_map(command, source, **store, map);
}

}  // namespace brickfs
