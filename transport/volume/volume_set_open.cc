// SPDX-License-Identifier: Apache-2.0
// Opening a set: the lease of every member, in the order of places; that they belong together; and, for a volume that
// is new or grows, that they do from now on.
//
// Joining, each step durable before the next: marks "joining" on the new bricks; the member table on place 0 with all
// of them; marks "joined". A crash before the member table leaves bricks that anybody may take; one behind it, bricks
// of this set, whose marks the next open completes. Nothing is put on a new brick before all steps are done.
#include <fmt/core.h>

#include <algorithm>

#include "transport/base/log.h"
#include "transport/base/random.h"
#include "transport/base/zero.h"
#include "transport/volume/set_membership.h"
#include "transport/volume/single_place.h"
#include "transport/volume/volume_set.h"

namespace brickfs {
namespace {

// Clients of one process, with ids of their own, or a brick that is named twice would hold them for one.
ClientId client_of(ClientId client, size_t place) { return ClientId{static_cast<uint64_t>(client) ^ place}; }

// Whoever has a set of which this is a copy is not fenced by somebody who takes it for a volume. What cannot be looked
// at, as on a brick that is too old for that, is opened.
Status refuse_copy(Brick& brick, OpenRequest request) {
  request.mode = OpenMode::kFollow;
  request.steal = false;
  if (!brick.open(request, nullptr).ok()) return {};
  const auto listed = list_blocks(brick);
  bool is_copy = false;
  for (size_t place = 0; listed.ok() && place < limits::kBricksPerSet && !is_copy; ++place) {
    if (!contains_block(*listed, first_block_of(place).start)) continue;
    const auto mark = read_replica_mark(brick, place);
    is_copy = mark.ok() && *mark;
  }
  static_cast<void>(brick.close());
  if (!is_copy) return {};
  return Error(EUCLEAN, "it is a copy of a replicated volume: mount that by its map (etcd://...)");
}

template <typename Id>
Id random_set_id() {
  Id id;
  fill_random(id);
  return id;
}

}  // namespace

class VolumeSet::Joining {
 public:
  Joining(VolumeSet& set, bool grow, bool writable, SetRefusal& refusal)
      : set_(set), grow_(grow), writable_(writable), refusal_(refusal) {}

  Status run();

 private:
  // What a brick says of itself.
  struct Candidate {
    std::vector<BlockRange> listed;
    std::optional<MemberMark> mark;      // of whatever set
    std::optional<size_t> marked_place;  // by the block that it has

    uint64_t blocks() const {
      uint64_t count = 0;
      for (const BlockRange& range : listed) count += range.count;
      return count;
    }
  };

  Status look();
  Result<Candidate> look_at(size_t place);
  Status check_alike();
  Status find_member_table();
  Result<bool> is_unmade();
  Status check_without_table();
  Status check_members();
  Status check_member(size_t place);
  Status check_new(size_t place);
  Status add_members(size_t from);
  Status complete_marks();
  Status refuse(size_t place, const std::string& why, int code = EUCLEAN);
  std::string describe_missing() const;

  const std::string& name(size_t place) const { return set_.names_[place]; }
  VolumeClient& member(size_t place) { return set_.members_[place]->first(); }

  VolumeSet& set_;
  const bool grow_;
  const bool writable_;
  SetRefusal& refusal_;
  std::vector<Candidate> candidates_;
  std::optional<MemberTable> table_;
};

Status VolumeSet::Joining::refuse(size_t place, const std::string& why, int code) {
  refusal_.place = place;
  refusal_.why = fmt::format("{}: {}", name(place), why);
  return Error(code, "the bricks do not belong together");
}

Status VolumeSet::Joining::run() {
  TRY(check_alike());
  TRY(look());
  TRY(find_member_table());
  const size_t before = table_ ? table_->members.size() : 1;
  if (!table_) TRY(check_without_table());
  if (table_) TRY(check_members());
  if (before < set_.places()) TRY(add_members(before));
  if (writable_) TRY(complete_marks());
  set_.id_ = table_->set;
  return {};
}

Status VolumeSet::Joining::check_alike() {
  const Session first = member(0).session();
  for (size_t place = 1; place < set_.places(); ++place) {
    const Session session = member(place).session();
    for (size_t other = 0; other < place; ++other) {
      if (member(other).session().boot == session.boot)
        return refuse(place, fmt::format("that is the same brick as {}", name(other)));
    }
    if (session.durability != first.durability) {
      const bool durable = session.durability == Durability::kDurable;
      return refuse(place, fmt::format("is a {} brick and {} a {} one: those of a set are all of one kind",
                                       durable ? "durable" : "volatile", name(0), durable ? "volatile" : "durable"));
    }
  }
  return {};
}

Status VolumeSet::Joining::look() {
  for (size_t place = 0; place < set_.places(); ++place) candidates_.push_back(TRY(look_at(place)));
  return {};
}

Result<VolumeSet::Joining::Candidate> VolumeSet::Joining::look_at(size_t place) {
  Candidate candidate;
  candidate.listed = TRY(member(place).list());
  for (size_t marked = 1; marked < limits::kBricksPerSet; ++marked) {
    if (!contains_block(candidate.listed, first_block_of(marked).start)) continue;
    candidate.marked_place = marked;
    candidate.mark = TRY(read_member_mark(member(place), marked));
    break;
  }
  return candidate;
}

Status VolumeSet::Joining::find_member_table() {
  if (contains_block(candidates_[0].listed, first_block_of(0).start)) table_ = TRY(read_member_table(member(0)));
  if (table_) return {};
  const auto& mark = candidates_[0].mark;
  if (mark && mark->joined) {
    return refuse(0, fmt::format("is brick {} of the volume {}, not the first", mark->place + 1, text_of(mark->set)));
  }
  return {};
}

// Nothing but, perhaps, what the making of a set was interrupted at: its member table in part.
Result<bool> VolumeSet::Joining::is_unmade() {
  const Candidate& first = candidates_[0];
  if (first.listed.empty()) return true;
  if (first.blocks() != 1 || first.listed[0].start != first_block_of(0).start) return false;
  std::vector<std::byte> bytes(kBlockBytes);
  const Piece piece{0, {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
  TRY(member(0).read(std::span(&piece, 1)));
  std::fill(bytes.begin() + kMemberTableAddress[0], bytes.end() - kMarkBytes, std::byte{0});
  return is_zero(bytes);
}

Status VolumeSet::Joining::check_without_table() {
  for (size_t place = 1; place < set_.places(); ++place) {
    const auto& mark = candidates_[place].mark;
    if (!mark || !mark->joined) continue;
    return refuse(place, fmt::format("is brick {} of the volume {}, whose first brick {} is not", mark->place + 1,
                                     text_of(mark->set), name(0)));
  }
  if (!TRY(is_unmade()) && !grow_) {
    return refuse(0, "holds a volume of one brick: to spread it over these, ask for it (-o grow)");
  }
  if (!candidates_[0].listed.empty() && raw(candidates_[0].listed.back().end()) > kPlaceBytes) {
    return refuse(0, "its blocks have addresses beyond those of a first brick: it cannot become a set");
  }
  return {};
}

Status VolumeSet::Joining::check_members() {
  const size_t known = table_->members.size();
  for (size_t place = 1; place < std::min(known, set_.places()); ++place) TRY(check_member(place));
  if (known > set_.places()) {
    return refuse(0, fmt::format("the volume is on {} bricks, {} are named: {} is missing", known, set_.places(),
                                 describe_missing()));
  }
  if (known < set_.places() && !grow_) {
    return refuse(known,
                  fmt::format("does not belong to this volume of {} bricks: to add it, ask for it (-o grow)", known));
  }
  return {};
}

std::string VolumeSet::Joining::describe_missing() const {
  std::string names;
  for (size_t place = set_.places(); place < table_->members.size(); ++place) {
    names += (names.empty() ? "" : ", ") + table_->members[place].name;
  }
  return names;
}

Status VolumeSet::Joining::check_member(size_t place) {
  const MemberTable::Member& wanted = table_->members[place];
  const auto& mark = candidates_[place].mark;
  if (!mark) {
    const uint64_t blocks = candidates_[place].blocks();
    return refuse(place, fmt::format("is not brick {} of this volume, which joined as {}: it holds {}", place + 1,
                                     wanted.name, blocks == 0 ? "nothing" : "something else"));
  }
  if (mark->set != table_->set) {
    return refuse(place, fmt::format("belongs to another volume ({}), brick {} of this one joined as {}",
                                     text_of(mark->set), place + 1, wanted.name));
  }
  if (mark->place != place) {
    return refuse(place, fmt::format("is brick {} of the volume and named as brick {}: the order is that of joining",
                                     mark->place + 1, place + 1));
  }
  if (mark->member != wanted.id) {
    return refuse(place, fmt::format("was brick {} of this volume once, and is not any more", place + 1));
  }
  return {};
}

// Empty, or with what an interrupted joining left.
Status VolumeSet::Joining::check_new(size_t place) {
  const Candidate& candidate = candidates_[place];
  if (candidate.mark && candidate.mark->joined) {
    return refuse(place, fmt::format("is brick {} of the volume {}: it cannot join another", candidate.mark->place + 1,
                                     text_of(candidate.mark->set)));
  }
  const bool only_mark = candidate.marked_place && candidate.blocks() == 1;
  if (candidate.listed.empty() || only_mark) return {};
  return refuse(place, fmt::format("holds {} block(s) already: only an empty volume can join", candidate.blocks()));
}

Status VolumeSet::Joining::add_members(size_t from) {
  for (size_t place = from; place < set_.places(); ++place) TRY(check_new(place));
  if (!writable_) return refuse(from, "is to join the volume: mount it once without ro, that makes it", EROFS);

  MemberTable table;
  if (table_) {
    table = *table_;
  } else {
    table.set = random_set_id<SetId>();
    table.members.push_back({random_set_id<MemberId>(), name(0)});
    if (candidates_[0].listed.empty()) TRY(member(0).alloc(first_block_of(0)));
  }
  for (size_t place = from; place < set_.places(); ++place) {
    if (candidates_[place].marked_place) TRY(member(place).free(first_block_of(*candidates_[place].marked_place)));
    const Status room = member(place).alloc(first_block_of(place));
    if (!room.ok()) return refuse(place, fmt::format("cannot join: {}", room.error().what()), room.error().code());
    table.members.push_back({random_set_id<MemberId>(), name(place)});
    const MemberMark mark{table.set, table.members.back().id, place, false};
    TRY(write_member_mark(member(place), mark));
    candidates_[place].mark = mark;
  }
  TRY(write_member_table(member(0), table));
  table_ = table;
  log::info("the volume is on {} bricks from now on", set_.places());
  return {};
}

Status VolumeSet::Joining::complete_marks() {
  for (size_t place = 1; place < set_.places(); ++place) {
    MemberMark& mark = *candidates_[place].mark;
    if (mark.joined) continue;
    mark.joined = true;
    TRY(write_member_mark(member(place), mark));
  }
  return {};
}

// --- VolumeSet

Result<std::unique_ptr<VolumeSet>> VolumeSet::open(std::unique_ptr<Brick> brick, VolumeOptions options,
                                                   Holder* holder) {
  if (options.open.steal) TRY(refuse_copy(*brick, options.open));
  std::unique_ptr<VolumeSet> set(new VolumeSet());
  set->members_.push_back(
      std::make_unique<SinglePlace>(TRY(VolumeClient::open(std::move(brick), std::move(options), holder))));
  set->names_.emplace_back();
  return set;
}

Result<std::unique_ptr<VolumeSet>> VolumeSet::open(std::vector<SetBrick> bricks, const VolumeOptions& options,
                                                   bool grow, SetRefusal* refusal) {
  *refusal = {};
  if (bricks.size() == 1) return open(std::move(bricks[0].brick), options, &refusal->holder);
  std::unique_ptr<VolumeSet> set(new VolumeSet());
  Status status;
  for (size_t place = 0; place < bricks.size() && status.ok(); ++place) {
    VolumeOptions own = options;
    own.open.client = client_of(options.open.client, place);
    own.name = bricks[place].name + ": ";
    if (place == 0) {
      own.before_commit = [whole = set.get()](const Interruption* by) {
        return whole->before_commit(whole->members_[0]->first(), whole->record_number_, by);
      };
      own.before_replay_commit = [whole = set.get()] { return whole->commit_others(nullptr); };
    } else {
      own.before_commit = [whole = set.get(), place](const Interruption* by) {
        CommitCounter* const counter = whole->counter_of(place);
        return counter == nullptr ? Status() : counter->before_commit(whole->members_[place]->first(), by);
      };
      own.after_commit = [whole = set.get(), place] {
        if (CommitCounter* const counter = whole->counter_of(place)) counter->after_commit();
      };
      own.check_restarted = [whole = set.get(), place](Brick& brick) { return whole->check_count(place, brick); };
    }
    auto member = VolumeClient::open(std::move(bricks[place].brick), std::move(own), &refusal->holder);
    set->names_.push_back(bricks[place].name);
    if (member.ok()) {
      (*member)->share_keys(set->keys_, place);
      set->members_.push_back(std::make_unique<SinglePlace>(std::move(*member)));
      continue;
    }
    status = member.error();
    refusal->place = place;
    for (size_t other = 0; other < place && status.error().is(EBUSY); ++other) {
      if (refusal->holder.client != client_of(options.open.client, other)) continue;
      refusal->why = fmt::format("{}: that is the same brick as {}", bricks[place].name, bricks[other].name);
      status = Error(EUCLEAN, "a brick is named twice");
      break;
    }
  }
  if (status.ok()) status = Joining(*set, grow, options.open.mode == OpenMode::kExclusive, *refusal).run();
  if (status.ok()) status = set->settle_trust(options, *refusal);
  if (status.ok()) return set;
  static_cast<void>(set->close());  // or the bricks would hold it for us
  return status.error();
}

// Whether all of place 0's journal is to be believed.
Status VolumeSet::settle_trust(const VolumeOptions& options, SetRefusal& refusal) {
  keeps_record_ = members_[0]->session().durability == Durability::kDurable;
  if (!keeps_record_) return {};
  const auto record = TRY(read_commit_record(members_[0]->first(), id_));
  TRY(count_commits(record, options, refusal));
  if (!record) return {};
  record_number_ = record->number;
  for (size_t place = 1; place < std::min(places(), record->boots.size()); ++place) {
    if (members_[place]->session().boot == record->boots[place]) continue;
    log::warn("{} has restarted without its client: the volume is as it was committed last", names_[place]);
    trusted_position_ = record->position;
  }
  return {};
}

// From where they were; a member that is behind what the record says is of an older store. That was read before, as
// another client may be writing.
Status VolumeSet::count_commits(const std::optional<CommitRecord>& record, const VolumeOptions& options,
                                SetRefusal& refusal) {
  std::vector<std::unique_ptr<CommitCounter>> counters(places());
  for (size_t place = 1; place < places(); ++place) {
    const uint64_t recorded = record && place < record->counts.size() ? record->counts[place] : 0;
    const uint64_t found = TRY(read_commit_count(members_[place]->first(), id_, place));
    if (found < recorded) {
      const std::string what = fmt::format("{} is of an older store, of commit {} of its volume, and was at {}",
                                           names_[place], found, recorded);
      if (!options.accept_older) {
        refusal.place = place;
        refusal.why = what + "; to lose what was written there since: accept_older";
        return Error(EUCLEAN, "a brick is of an older store");
      }
      log::warn("{}: what was written there since is lost", what);
    }
    counters[place] =
        std::make_unique<CommitCounter>(id_, place, std::max(found, recorded), found < recorded ? 0 : recorded);
  }
  MutexLock lock(mutex_);
  counters_ = std::move(counters);
  return {};
}

}  // namespace brickfs
