// SPDX-License-Identifier: Apache-2.0
// brickctl set replace, drain, remove, move, add and rebalance: each an edit of the map, which the holder of the volume
// carries out, where there is anything to carry. If one ends on the way, the same command goes on from there.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "tools/brickctl/interrupt.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/set.h"
#include "tools/brickctl/set_look.h"
#include "tools/brickctl/set_plan.h"
#include "tools/brickctl/set_volumes.h"
#include "tools/brickctl/set_wait.h"
#include "tools/brickctl/target.h"
#include "transport/base/printable.h"
#include "transport/brick/limits.h"
#include "transport/etcd/set_map_json.h"
#include "transport/volume/group.h"
#include "transport/volume/set_membership.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

using Planner = std::function<Result<SetPlan>(SetMap&, std::string*)>;

struct Change {
  const Command& command;
  Source source;
  std::unique_ptr<EtcdMapStore> store;
  SetMap map;  // as it was seen last
};

Result<Change> begin(const Command& command, std::string* why) {
  Change change{command, {}, nullptr, {}};
  change.store = TRY(open_map_store(command, change.source, why));
  auto stored = change.store->load();
  if (!stored.ok()) {
    *why = change.store->trouble();
    return stored.error();
  }
  change.map = std::move(stored->map);
  return change;
}

Status hold_fresh(Change& change, const SetMap& before, const SetPlan& plan, EmptyVolumes& volumes, std::string* why) {
  if (plan.fresh.empty()) return {};
  SetMap& map = change.map;
  std::vector<const MapReplica*> others;
  for (const MapPlace& place : before.places) {
    for (const MapReplica& replica : place.replicas) {
      if (replica.state == ReplicaState::kInSync) others.push_back(&replica);
    }
  }
  std::vector<MapReplica*> fresh;
  for (MapPlace& place : map.places) {
    for (MapReplica& replica : place.replicas) {
      if (std::ranges::find(plan.fresh, replica.id) != plan.fresh.end()) fresh.push_back(&replica);
    }
  }
  TRY(volumes.compare_with_others(*change.store, fresh, why));
  TRY(volumes.compare_with(others, why));
  TRY(volumes.open(fresh, why));
  TRY(check_room(map, fresh, change.command.secret_file, why));
  for (MapReplica* replica : fresh) {
    if (replica->state == ReplicaState::kStale) replica->boot = BootId{};  // it has nothing yet
  }
  return {};
}

// Until the plan is in the map, which the holder changes meanwhile, too. What was asked for and not answered is looked
// at.
Result<SetPlan> enter(Change& change, const Planner& planner, std::string* why) {
  for (;;) {
    auto stored = change.store->load();
    if (!stored.ok()) {
      *why = change.store->trouble();
      return stored.error();
    }
    change.map = stored->map;
    const SetPlan plan = TRY(planner(change.map, why));
    if (plan.fresh.empty() && change.map == stored->map) return plan;
    ++change.map.generation;
    EmptyVolumes volumes(change.command);
    TRY(hold_fresh(change, stored->map, plan, volumes, why));
    TRY(check_map(change.map, why));
    const auto replaced = change.store->replace(change.map, stored->version);
    if (replaced.ok()) return plan;
    if (replaced.error().is(EAGAIN)) continue;
    *why = change.store->trouble();
    if (replaced.error().is(ETIMEDOUT)) *why += "; it may be entered all the same: repeat this command";
    return replaced.error();
  }
}

int tell(const Change& change, size_t copies, bool done, const std::string& text) {
  if (change.command.json) {
    print_json({{"source", change.command.source},
                {"volume", change.source.volume},
                {"set", format_id(change.map.set)},
                {"generation", change.map.generation},
                {"copies", copies},
                {"done", done}});
  } else {
    fmt::print("set {}: {}\n", change.source.volume, printable(text));
  }
  return EXIT_SUCCESS;
}

// Copies that came.
struct Moves {
  size_t at_once = 0;  // by the map alone
  size_t by_holder = 0;
};

// Enters what is planned and waits for it, until nothing is to be done any more. Or why not: EINTR.
Result<Moves> carry_out(Change& change, const Planner& planner, std::string* why) {
  Moves moves;
  catch_interrupts();
  for (;;) {
    const SetPlan plan = TRY(enter(change, planner, why));
    moves.at_once += plan.moved;
    moves.by_holder += plan.coming.size();
    if ((plan.coming.empty() && plan.leaving.empty()) || change.command.set.no_wait) return moves;
    const Status status = SetWait(change.command, change.source, *change.store, plan).run(why);
    if (status.code() == EINTR) *why = "not waited for any longer; the holder goes on, and so does this command again";
    if (!status.ok()) {
      if (status.code() != EINTR) *why += "; the change is in the map: the next mount goes on with it, or this command";
      return status.error();
    }
  }
}

int run_moves(Change& change, const Planner& planner, const std::string& done) {
  std::string why;
  const auto moves = carry_out(change, planner, &why);
  if (!moves.ok()) return fail(change.command, why);
  const size_t copies = moves->at_once + moves->by_holder;
  if (moves->by_holder > 0 && change.command.set.no_wait)
    return tell(change, copies, false, fmt::format("{} copies are to be moved by its holder", moves->by_holder));
  return tell(change, copies, true, copies == 0 ? done : fmt::format("{} (copies moved: {})", done, copies));
}

Result<std::string> name_known(const Change& change, size_t index, std::string* why) {
  return name_in_map(change.map, TRY(name_of_brick(change.command.set.bricks[index], why)));
}

// One that copies are to leave. It may have none any more, by this command before.
Result<std::string> name_to_leave(const Change& change, std::string* why) {
  std::string brick = TRY(name_known(change, 0, why));
  if (change.map.count_on(brick) == 0) TRY(check_is_none_of(change.map, brick, change.command.secret_file, why));
  return brick;
}

int run_replace(Change& change) {
  std::string why;
  const auto old = name_to_leave(change, &why);
  if (!old.ok()) return fail(change.command, why);
  const auto fresh = name_known(change, 1, &why);
  if (!fresh.ok()) return fail(change.command, why);
  const std::string domain = change.command.set.domains.empty() ? "" : change.command.set.domains[0];
  if (!is_domain(domain) && !domain.empty()) return fail(change.command, "--domain: NAME is wanted");
  const auto planner = [&](SetMap& map, std::string* trouble) {
    return plan_replace(map, *old, {*fresh, domain}, change.source.volume, trouble);
  };
  return run_moves(change, planner, fmt::format("{} has the copies of {}, which has none any more", *fresh, *old));
}

int run_drain(Change& change) {
  std::string why;
  const auto brick = name_to_leave(change, &why);
  if (!brick.ok()) return fail(change.command, why);
  const auto planner = [&](SetMap& map, std::string* trouble) {
    return plan_drain(map, *brick, change.source.volume, trouble);
  };
  return run_moves(change, planner, fmt::format("{} has no copy any more", *brick));
}

int run_rebalance(Change& change) {
  const auto planner = [&](SetMap& map, std::string* trouble) {
    return plan_rebalance(map, change.source.volume, trouble);
  };
  return run_moves(change, planner, "the copies are spread as evenly as they can be");
}

// A copy knows which one it is by its mark; one that nothing was ever written to has none, and is empty. Read beside
// whoever has the volume.
Status check_is_copy(const Change& change, size_t place, const MapReplica& replica, const std::string& source,
                     std::string* why) {
  const auto of_copy = [&](const std::string& text, int code) -> Status {
    return refuse_set(why, fmt::format("{}: {}", source, text), code);
  };
  Target target = TRY(make_target(source, change.command.secret_file, why));
  VolumeOptions options;
  options.open = open_request(target, OpenMode::kFollow);
  options.soft = limits::kSoftTimeout;
  const auto volume = VolumeClient::open(std::move(target.brick), options, nullptr);
  if (!volume.ok()) return of_copy(describe_open_error(target, volume.error(), {}), volume.code());
  const auto listed = (*volume)->list();
  if (!listed.ok()) return of_copy(describe(listed.error()), listed.code());
  if (listed->empty() && !change.map.places[place].made) return {};
  if (!contains_block(*listed, first_block_of(place).start)) return of_copy("it has not this copy", ENOENT);
  const auto mark = read_replica_mark(**volume, place);
  if (!mark.ok()) return of_copy(describe(mark.error()), mark.code());
  if (*mark && (*mark)->set == change.map.set && (*mark)->replica == replica.id) return {};
  return of_copy(fmt::format("it is another brick, and not that which was {}", brick_of(replica.source)), EINVAL);
}

// Of what is told. Nothing is copied, and the next time that its client looks for the brick it looks there.
int run_move(Change& change) {
  std::string why;
  const auto brick = name_known(change, 0, &why);
  if (!brick.ok()) return fail(change.command, why);
  const auto fresh = name_of_brick(change.command.set.bricks[1], &why);
  if (!fresh.ok()) return fail(change.command, why);
  const size_t copies = change.map.count_on(*brick);
  if (copies == 0 && change.map.count_on(*fresh) > 0) return tell(change, 0, true, *fresh + " is of it already");
  for (size_t place = 0; place < change.map.places.size(); ++place) {
    for (const MapReplica& replica : change.map.places[place].replicas) {
      if (brick_of(replica.source) != *brick) continue;
      const std::string source = *fresh + replica.source.substr(brick->size());
      if (!check_is_copy(change, place, replica, source, &why).ok()) return fail(change.command, why);
    }
  }
  const auto planner = [&](SetMap& map, std::string* trouble) -> Result<SetPlan> {
    TRY(plan_move(map, *brick, *fresh, trouble));
    return SetPlan();
  };
  if (!enter(change, planner, &why).ok()) return fail(change.command, why);
  return tell(change, copies, true, fmt::format("{} is at {} now (copies: {})", *brick, *fresh, copies));
}

// A brick without copies is of the set no more: there is nothing else to be done.
int run_remove(Change& change) {
  std::string why;
  const auto brick = name_to_leave(change, &why);
  if (!brick.ok()) return fail(change.command, why);
  const size_t copies = change.map.count_on(*brick);
  if (copies == 0) return tell(change, 0, true, fmt::format("{} is not of it: it has no copy", *brick));
  return fail(
      change.command,
      fmt::format("{} has {} copies: `brickctl set drain {} {}` moves them to the other bricks first, `brickctl "
                  "set replace` to a new one",
                  *brick, copies, change.command.source, *brick));
}

int run_add(Change& change) {
  std::string why;
  auto bricks = name_bricks(change.command.set, &why);
  if (!bricks.ok()) return fail(change.command, why);
  for (NamedBrick& brick : *bricks) brick.brick = name_in_map(change.map, brick.brick);
  const auto planner = [&](SetMap& map, std::string* trouble) {
    return plan_add(map, *bricks, change.source.volume, trouble);
  };
  const auto plan = enter(change, planner, &why);
  if (!plan.ok()) return fail(change.command, why);
  if (plan->fresh.empty()) return tell(change, 0, true, "those bricks are of it already");
  const bool is_held = change.map.holder && !change.map.holder->let_go;
  return tell(change, plan->fresh.size(), true,
              fmt::format("it has {} places now, {}", change.map.places.size(),
                          is_held ? "the new ones from the next mount on" : "and new data goes to the new ones, too"));
}

}  // namespace

int run_set_change(const Command& command) {
  std::string why;
  auto change = begin(command, &why);
  if (!change.ok()) return fail(command, why);
  const std::string& action = command.set.action;
  if (action == "replace") return run_replace(*change);
  if (action == "drain") return run_drain(*change);
  if (action == "rebalance") return run_rebalance(*change);
  if (action == "remove") return run_remove(*change);
  if (action == "move") return run_move(*change);
  return run_add(*change);
}

}  // namespace brickfs
