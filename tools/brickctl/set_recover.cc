// SPDX-License-Identifier: Apache-2.0
// brickctl set recover: looks at the volumes that a set has on bricks, holding each of them, so that nobody has the
// volume meanwhile, and puts the map that they make (set_found.h) into etcd.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <set>

#include "fs/persistence/volume_mark.h"
#include "fs/source/source_volume.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/set.h"
#include "tools/brickctl/set_found.h"
#include "tools/brickctl/target.h"
#include "transport/base/printable.h"
#include "transport/brick/limits.h"
#include "transport/brick/volume_name.h"
#include "transport/etcd/set_map_json.h"
#include "transport/volume/volume_set.h"

namespace brickfs {
namespace {

// The volumes of a set on bricks. Those that are copies stay open.
class Copies {
 public:
  explicit Copies(const Command& command) : command_(command) {}
  ~Copies() {
    for (const auto& volume : volumes_) static_cast<void>(volume->close());
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  const std::vector<FoundCopy>& found() const { return found_; }
  // With one line in `why`, also if somebody holds it. What is no volume, or no copy, is passed over.
  Status look(const std::string& source, std::string* why) {
    if (!seen_.insert(source).second) return {};
    Target target = TRY(make_target(source, command_.secret_file, why));
    VolumeOptions options;
    options.open = open_request(target, OpenMode::kExclusive);
    options.soft = limits::kSoftTimeout;
    Holder holder;
    auto volume = VolumeSet::open(std::move(target.brick), options, &holder);
    if (volume.code() == ENOENT) return {};
    if (!volume.ok()) {
      return refuse_set(why, fmt::format("{}: {}", source, describe_open_error(target, volume.error(), holder)),
                        volume.code());
    }
    const Status status = read(source, **volume);
    if (!status.ok()) return refuse_set(why, fmt::format("{}: {}", source, status.error().what()), status.code());
    volumes_.push_back(std::move(*volume));
    return {};
  }
  // What they say is as durable as the map that is made of it.
  Status commit_marks(std::string* why) {
    for (size_t i = 0; i < found_.size(); ++i) {
      if (found_[i].durability != Durability::kDurable) continue;
      const uint64_t address = raw(first_block_of(found_[i].place).start) + kReplicaMarkOffset;
      VolumeClient& client = volumes_of_found_[i]->member(0).first();
      const Status status = client.commit_bytes(address, 2 * kReplicaMarkSlotBytes);
      if (!status.ok())
        return refuse_set(why, fmt::format("{}: {}", found_[i].source, status.error().what()), status.code());
    }
    return {};
  }

 private:
  Status read(const std::string& source, VolumeSet& volume) {
    VolumeClient& client = volume.member(0).first();
    const auto listed = TRY(client.list());
    FoundCopy copy;
    copy.source = source;
    copy.boot = client.session().boot;
    copy.durability = client.session().durability;
    for (const BlockRange& range : listed) copy.blocks += range.count;
    for (copy.place = 0; copy.place < limits::kBricksPerSet; ++copy.place) {
      if (!contains_block(listed, first_block_of(copy.place).start)) continue;
      const auto mark = TRY(read_replica_mark(client, copy.place));
      if (!mark) continue;
      copy.mark = *mark;
      if (copy.place == 0) {
        copy.clean = TRY(read_mark(volume)) == Mark::kClean;
        const auto record = TRY(read_commit_record(client, mark->set));
        if (record) copy.of_places = record->boots.size();
      }
      found_.push_back(copy);
      volumes_of_found_.push_back(&volume);
      return {};
    }
    return {};
  }

  const Command& command_;
  std::set<std::string> seen_;
  std::vector<FoundCopy> found_;
  std::vector<VolumeSet*> volumes_of_found_;
  std::vector<std::unique_ptr<VolumeSet>> volumes_;
};

// All names that a set gives to volumes of a brick (plan_places()), and those of the map that there is.
Status look_at_all(const Command& command, const Source& source, const std::optional<SetMap>& known, Copies& copies,
                   std::string* why) {
  for (const NamedBrick& brick : TRY(name_bricks(command.set, why))) {
    for (size_t number = 1; number <= limits::kBricksPerSet; ++number) {
      const std::string suffix = number == 1 ? "" : fmt::format(".{}", number);
      if (!is_volume_name(source.volume + suffix)) break;
      TRY(copies.look(brick.brick + "/" + source.volume + suffix, why));
    }
    if (!known) continue;
    for (const MapPlace& place : known->places) {
      for (const MapReplica& replica : place.replicas) {
        if (brick_of(replica.source) == brick.brick) TRY(copies.look(replica.source, why));
      }
    }
  }
  return {};
}

int tell(const Command& command, const Source& source, const RecoveredMap& recovered, bool done) {
  if (command.json) {
    print_json({{"source", command.source},
                {"volume", source.volume},
                {"set", format_id(recovered.map.set)},
                {"generation", recovered.map.generation},
                {"needed", recovered.is_needed},
                {"done", done},
                {"findings", recovered.lines}});
    return EXIT_SUCCESS;
  }
  for (const std::string& line : recovered.lines) fmt::print("{}\n", printable(line));
  if (!recovered.is_needed) {
    fmt::print("set {}: etcd's map says all that; nothing is to be done\n", source.volume);
  } else {
    fmt::print("set {}: the map {} generation {}, with copies {}, places {}\n", source.volume,
               done ? "is of" : "would be of", recovered.map.generation, recovered.map.wanted,
               recovered.map.places.size());
  }
  return EXIT_SUCCESS;
}

}  // namespace

int run_set_recover(const Command& command) {
  std::string why;
  Source source;
  const auto store = open_map_store(command, source, &why);
  if (!store.ok()) return fail(command, why);
  const auto stored = (*store)->load();
  if (!stored.ok() && stored.code() != ENOENT) {
    const std::string trouble = (*store)->trouble();
    if (stored.code() != EUCLEAN) return fail(command, trouble);
    return fail(command,
                fmt::format("{}: remove what etcd has of it (etcdctl del /brickfs/names/{}, and the map of its "
                            "id), and repeat this command",
                            trouble, source.volume));
  }
  const std::optional<SetMap> known = stored.ok() ? std::optional(stored->map) : std::nullopt;
  Copies copies(command);
  if (!look_at_all(command, source, known, copies, &why).ok()) return fail(command, why);
  const auto recovered = recover_map(known, copies.found(), command.set.replicas, &why);
  if (!recovered.ok()) return fail(command, why);
  if (!recovered->is_needed || command.set.dry_run) return tell(command, source, *recovered, false);
  if (!copies.commit_marks(&why).ok()) return fail(command, why);
  const auto replaced = (*store)->replace(recovered->map, stored.ok() ? stored->version : 0);
  if (!replaced.ok()) return fail(command, (*store)->trouble());
  return tell(command, source, *recovered, true);
}

}  // namespace brickfs
