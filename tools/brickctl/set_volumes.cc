// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/set_volumes.h"

#include <fmt/core.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "fs/source/source_volume.h"
#include "tools/brickctl/set.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kMovesAway{5'000};
constexpr std::chrono::milliseconds kLook{100};

Status make(const MapReplica& replica, const ClientSecret& secret, std::string* why) {
  Target target{replica.source, TRY(parse_source(replica.source, why)), nullptr};
  AdminRequest request;
  request.action = AdminAction::kCreate;
  request.volume = target.source.volume;
  why->clear();
  const auto answer = administer(target.source, secret, request, why);
  if (!answer.ok()) {
    return refuse_set(why, fmt::format("{}: {}", replica.source, describe_admin_error(target, answer.error(), *why)),
                      answer.code());
  }
  if (answer->status == 0 || answer->status == EEXIST) return {};
  return refuse_set(why,
                    fmt::format("{}: the brick does not make it: {}", replica.source, std::strerror(answer->status)),
                    answer->status);
}

std::string describe_missing(const std::vector<MapReplica*>& missing) {
  std::string text = "volumes are missing; --admin-secret-file PATH makes them, or make them by:";
  for (const MapReplica* replica : missing) {
    const std::string brick = brick_of(replica->source);
    text += fmt::format(" brickctl volume create {} {};", brick, replica->source.substr(brick.size() + 1));
  }
  text.pop_back();
  return text;
}

}  // namespace

EmptyVolumes::~EmptyVolumes() {
  for (const Target& target : targets_) static_cast<void>(target.brick->close());  // nothing was done in it
}

Status EmptyVolumes::compare_with(const std::vector<const MapReplica*>& replicas, std::string* why) {
  for (const MapReplica* replica : replicas) {
    std::string silent;
    const auto stat = look_at_brick(replica->source, command_.secret_file, &silent);
    if (stat.ok()) TRY(compare(*replica, *stat, why));
  }
  return {};
}

Status EmptyVolumes::compare_with_others(EtcdMapStore& store, const std::vector<MapReplica*>& replicas,
                                         std::string* why) {
  const auto others = store.others();
  if (!others.ok()) return refuse_set(why, store.trouble(), others.code());
  const auto volume_of = [](const std::string& source) { return source.substr(brick_of(source).size() + 1); };
  std::string silent;
  for (const auto& [name, map] : *others) {
    for (const MapPlace& place : map.places) {
      for (const MapReplica& taken : place.replicas) {
        for (const MapReplica* replica : replicas) {
          if (volume_of(taken.source) != volume_of(replica->source)) continue;
          const auto ours = look_at_brick(replica->source, command_.secret_file, &silent);
          const auto theirs = look_at_brick(taken.source, command_.secret_file, &silent);
          const bool is_same =
              taken.source == replica->source || (ours.ok() && theirs.ok() && ours->boot == theirs->boot);
          if (is_same) return refuse_set(why, fmt::format("{} is a volume of the set {}", replica->source, name));
        }
      }
    }
  }
  return {};
}

Status EmptyVolumes::open(const std::vector<MapReplica*>& replicas, std::string* why) {
  std::vector<MapReplica*> missing;
  for (MapReplica* replica : replicas) {
    const Status there = look(*replica, why);
    if (there.code() == ENOENT) missing.push_back(replica);
    if (!there.ok() && there.code() != ENOENT) return there;
  }
  if (!missing.empty()) TRY(make_all(missing, why));
  for (const MapReplica* replica : replicas) TRY(hold(*replica, why));
  return {};
}

// At the brick, beside the others.
Status EmptyVolumes::look(MapReplica& replica, std::string* why) {
  const auto stat = look_at_brick(replica.source, command_.secret_file, why);
  if (!stat.ok()) return refuse_set(why, fmt::format("{}: {}", replica.source, *why), stat.code());
  replica.boot = stat->boot;
  return compare(replica, *stat, why);
}

Status EmptyVolumes::compare(const MapReplica& replica, const BrickStat& stat, std::string* why) {
  const std::string brick = brick_of(replica.source);
  const auto [known, is_new] = bricks_.emplace(stat.boot, brick);
  if (!is_new && known->second != brick)
    return refuse_set(why, fmt::format("{} and {} are one brick", known->second, brick));
  if (!first_) first_.emplace(brick, stat.durability);
  const auto& [first, durability] = *first_;
  if (durability == stat.durability) return {};
  const bool is_durable = durability == Durability::kDurable;
  return refuse_set(why, fmt::format("{} is a {} brick, and {} a {} one: they have to be alike", first,
                                     is_durable ? "durable" : "volatile", brick, is_durable ? "volatile" : "durable"));
}

Status EmptyVolumes::hold(const MapReplica& replica, std::string* why) {
  const auto of_replica = [&](const std::string& text, int code) -> Status {
    return refuse_set(why, fmt::format("{}: {}", replica.source, text), code);
  };
  Target target = TRY(make_target(replica.source, command_.secret_file, why));
  auto session = open_session(target, OpenMode::kExclusive, why);
  // Whose copy this was until a moment ago is giving its blocks back.
  const auto until = std::chrono::steady_clock::now() + kMovesAway;
  while (session.code() == EBUSY && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kLook);
    target = TRY(make_target(replica.source, command_.secret_file, why));
    session = open_session(target, OpenMode::kExclusive, why);
  }
  if (!session.ok()) return of_replica(*why, session.code());
  targets_.push_back(std::move(target));
  const auto blocks = list_blocks(*targets_.back().brick);
  if (!blocks.ok()) return of_replica(describe_call_error(blocks.error()), blocks.code());
  if (blocks->empty()) return {};
  return of_replica("it is not empty, and a set begins with empty volumes", ENOTEMPTY);
}

Status EmptyVolumes::make_all(const std::vector<MapReplica*>& missing, std::string* why) {
  if (command_.admin_secret_file.path.empty()) return refuse_set(why, describe_missing(missing), ENOENT);
  const ClientSecret secret = TRY(secret_in(command_.admin_secret_file, why));
  for (MapReplica* replica : missing) {
    TRY(make(*replica, secret, why));
    TRY(look(*replica, why));
  }
  return {};
}

}  // namespace brickfs
