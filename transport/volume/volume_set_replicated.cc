// SPDX-License-Identifier: Apache-2.0
// Opening a replicated set: every replica that the map calls in sync is opened, which fences its former holder; one
// change of the map makes this client the holder and leaves out what could not be opened or has lost something; that
// no other client was faster is seen once more. What a crashed one left different is made equal by settle(), when it is
// known what refers to what.
//
// Which are believed, and what becomes of the others, is the claim's (transport/membership/claim.h).
#include <fmt/core.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "transport/base/log.h"
#include "transport/brick/source.h"
#include "transport/membership/claim.h"
#include "transport/membership/client_identity.h"
#include "transport/membership/take_over.h"
#include "transport/volume/absence_watch.h"
#include "transport/volume/set_membership.h"
#include "transport/volume/volume_set.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;

// To open a replica, with another one there; and twice at least: one that restarts may take as long to fail at first.
constexpr std::chrono::milliseconds kTryFor{5'000};
constexpr std::chrono::milliseconds kTryEvery{250};
constexpr int kOpenings = 3;  // as long as bricks go away meanwhile

bool is_absence(Error error) {
  return error.is(ECONNREFUSED) || error.is(EHOSTUNREACH) || error.is(ENETUNREACH) || error.is(ETIMEDOUT) ||
         error.is(ENOTCONN) || error.is(ECONNRESET) || error.is(EPIPE) || error.is(EMSGSIZE);
}

// Of a client's volumes on the bricks: each its own, as if they were of different clients. And the other way round.
ClientId client_of(ClientId client, const MemberId& replica) {
  uint64_t part = 0;
  for (size_t i = 0; i < sizeof(part); ++i) part = part << 8 | static_cast<uint64_t>(replica[i]);
  const uint64_t id = static_cast<uint64_t>(client) ^ part;
  return ClientId{id == 0 ? 1 : id};
}

}  // namespace

class VolumeSet::Replicating {
 public:
  // A claim by an opening that came to nothing. Epoch 0: none.
  struct FormerClaim {
    uint64_t epoch = 0;
    bool unclean = false;
  };
  // `claimed`: by the opening before, and then by this one.
  Replicating(VolumeSet& set, BrickMaker make, VolumeOptions options, SetRefusal& refusal, FormerClaim& claimed)
      : set_(set),
        make_(std::move(make)),
        options_(std::move(options)),
        refusal_(refusal),
        claimed_(claimed),
        notice_(*set.keeper_, {options_.open.client, options_.open.client_name}) {}
  // What was opened for nothing is closed, or the bricks would hold it for us.
  ~Replicating() {
    for (Candidate& candidate : candidates_) {
      if (candidate.client != nullptr) static_cast<void>(candidate.client->close());
    }
  }

  Status run();
  // Of run() that failed: what it was begun with has changed meanwhile.
  bool is_outrun() const { return outrun_; }
  // Of run() that failed: the brick that went away meanwhile. Empty: none.
  std::string gone() const { return watch_.gone(); }
  Status refuse(const std::string& why, int code);

 private:
  struct Candidate : FoundReplica {
    std::unique_ptr<VolumeClient> client;
    std::string why;  // it is not there
  };

  Status load_map();
  Status load();
  Status refuse_outrun(const std::string& why);
  Status open_all();
  Status look_before_stealing(const Candidate& candidate);
  Status open_one(Candidate& candidate);
  Status check_marks();
  Status check_owner(const Candidate& candidate, const std::vector<BlockRange>& listed,
                     const std::optional<ReplicaMark>& mark);
  Status check_mark(Candidate& candidate, bool* has_mark);
  void leave_out(Candidate& candidate);
  Status note_record(VolumeClient& client);
  Status choose(Claim& claim);
  void look_for_bitmap(size_t place);
  std::vector<FoundReplica*> found(std::optional<size_t> place = std::nullopt);
  Status make(Claim& claim);
  Status note_made();
  Status verify();
  bool writable() const { return options_.open.mode == OpenMode::kExclusive; }
  Mirror::OpenReplica opener(size_t place) const;

  VolumeSet& set_;
  const BrickMaker make_;
  const VolumeOptions options_;
  SetRefusal& refusal_;
  FormerClaim& claimed_;
  TakeOverNotice notice_;
  SetMap map_;
  std::vector<Candidate> candidates_;
  bool unclean_ = false;
  bool outrun_ = false;
  Clock::time_point fenced_at_{};
  AbsenceWatch watch_;  // looks at the clients until run() has succeeded
};

Status VolumeSet::Replicating::refuse(const std::string& why, int code) {
  refusal_.why = why;
  return Error(code, "replicated set");
}

Status VolumeSet::Replicating::run() {
  if (writable() && options_.open.steal) {
    const Status put = notice_.put(&refusal_.why);
    if (!put.ok()) return put;
  }
  TRY(load());
  TRY(open_all());
  TRY(check_marks());
  Claim claim(map_, unclean_, options_.accept_older);
  TRY(choose(claim));
  if (writable()) {
    TRY(make(claim));
    TRY(verify());
  }
  set_.id_ = map_.set;
  std::vector<std::vector<Mirror::Member>> members(map_.places.size());
  for (Candidate& candidate : candidates_) {
    members[candidate.place].push_back({candidate.entry, std::move(candidate.client), candidate.has_all});
  }
  for (size_t place = 0; place < map_.places.size(); ++place) {
    set_.names_.push_back(map_.places[place].replicas.front().source);
    auto mirror = std::make_unique<Mirror>(place, *set_.keeper_, set_.keys_, set_.copying_, opener(place),
                                           std::move(members[place]), options_.soft, writable());
    set_.mirrors_.push_back(mirror.get());
    set_.members_.push_back(std::move(mirror));
  }
  for (Mirror* mirror : set_.mirrors_) {
    const Status begun = mirror->begin(map_.set, unclean_);
    const bool full = begun.code() == ENOSPC || begun.code() == EDQUOT;
    if (full) return refuse(begun.error().what() + set_.name_full(), begun.code());
    TRY(begun);
  }
  set_.holds_map_ = writable();
  if (set_.is_settled()) TRY(note_made());
  set_.keeps_record_ = set_.is_striped() && set_.members_[0]->session().durability == Durability::kDurable;
  if (set_.keeps_record_ && claim.lost_tail()) {
    const auto record = TRY(read_commit_record(set_.members_[0]->first(), set_.id_));
    if (record) set_.trusted_position_ = record->position;
  }
  watch_.stop();  // theirs is what comes
  if (!gone().empty()) return Error(EHOSTUNREACH, "opening a set");
  set_.start_threads();
  return {};
}

Status VolumeSet::Replicating::load_map() {
  const Status loaded = set_.keeper_->load();
  const std::string trouble = set_.keeper_->trouble();
  return loaded.ok() || trouble.empty() ? loaded : refuse(trouble, loaded.code());
}

// Another client's change of the map shows that nothing of this is as it was. Who takes the volume begins anew: nobody
// else does at the same time.
Status VolumeSet::Replicating::refuse_outrun(const std::string& why) {
  outrun_ = options_.open.steal;
  return refuse(why, EBUSY);
}

Status VolumeSet::Replicating::load() {
  TRY(load_map());
  map_ = *set_.keeper_->map();
  unclean_ = map_.holder && !map_.holder->let_go;
  if (map_.holder && map_.holder->epoch == claimed_.epoch) unclean_ = claimed_.unclean;  // nothing was done since
  set_.unclean_ = unclean_;
  for (size_t place = 0; place < map_.places.size(); ++place) {
    for (const MapReplica& entry : map_.places[place].replicas) {
      Candidate candidate;
      candidate.place = place;
      candidate.entry = entry;
      candidate.entry.marked = map_.least_mark(entry);
      candidates_.push_back(std::move(candidate));
    }
  }
  return {};
}

Mirror::OpenReplica VolumeSet::Replicating::opener(size_t place) const {
  return [make = make_, options = options_, set = &set_, place, striped = map_.places.size() > 1](
             const MapReplica& entry, bool steals, Holder* holder) -> Result<std::unique_ptr<VolumeClient>> {
    std::string why;
    const Source source = TRY(parse_source(entry.source, &why));
    VolumeOptions own = options;
    own.open.volume = source.volume;
    own.open.client = client_of(options.open.client, entry.id);
    own.open.resume = {};
    own.open.steal = steals && options.open.steal;
    own.is_copy = true;
    own.check_restarted = [set, place, id = entry.id](Brick& brick) { return set->check_restarted(place, id, brick); };
    own.name = entry.source + ": ";
    if (place == 0 && striped) {
      // The client is known only when it is there; its commits come later.
      auto self = std::make_shared<VolumeClient*>(nullptr);
      auto number = std::make_shared<uint64_t>(0);
      own.before_commit = [set, self, number](const Interruption* by) {
        return set->before_commit(**self, *number, by);
      };
      own.before_replay_commit = [set] { return set->commit_others(nullptr); };
      auto client = TRY(VolumeClient::open(TRY(make(entry.source, &why)), std::move(own), holder));
      *self = client.get();
      return client;
    }
    return VolumeClient::open(TRY(make(entry.source, &why)), std::move(own), holder);
  };
}

// The map of this moment: what was marked since is as new. One that is being brought up to date from nothing has the
// mark of that: without it what was copied is gone, and blocks would come to be there that nobody could tell whose they
// are.
Status VolumeSet::check_restarted(size_t place, const MemberId& replica, Brick& brick) const {
  const auto map = keeper_->map();
  if (place >= map->places.size()) return {};
  const auto entry = std::ranges::find(map->places[place].replicas, replica, &MapReplica::id);
  if (entry == map->places[place].replicas.end() || !map->places[place].made) return {};
  const auto mark = read_replica_mark(brick, place);
  if (!mark.ok() && !mark.error().is(ENOENT)) return mark.error();
  if (mark.ok() && *mark && (*mark)->generation >= entry->marked) return {};
  return Error(ENODATA, "the brick restarted with an older store");
}

// Who has the volume of another set is not fenced. What cannot be looked at, as on a brick that is too old for that, is
// opened, and looked at then.
Status VolumeSet::Replicating::look_before_stealing(const Candidate& candidate) {
  if (candidate.entry.state != ReplicaState::kInSync) return {};
  std::string why;
  const Source source = TRY(parse_source(candidate.entry.source, &why));
  const auto brick = make_(candidate.entry.source, &why);
  OpenRequest request;
  request.volume = source.volume;
  request.client = client_of(options_.open.client, candidate.entry.id);
  request.client_name = options_.open.client_name;
  request.mode = OpenMode::kFollow;
  if (!brick.ok() || !(*brick)->open(request, nullptr).ok()) return {};
  const auto listed = list_blocks(**brick);
  Result<std::optional<ReplicaMark>> mark = std::optional<ReplicaMark>();
  if (listed.ok() && contains_block(*listed, first_block_of(candidate.place).start)) {
    mark = read_replica_mark(**brick, candidate.place);
  }
  static_cast<void>((*brick)->close());
  return listed.ok() && mark.ok() ? check_owner(candidate, *listed, *mark) : Status();
}

Status VolumeSet::Replicating::open_one(Candidate& candidate) {
  Holder holder;
  auto client = opener(candidate.place)(candidate.entry, true, &holder);
  if (client.ok()) {
    candidate.client = std::move(*client);
    watch_.add(*candidate.client, candidate.entry.source);
    return {};
  }
  candidate.why = client.error().what();
  if (client.error().is(EBUSY)) {
    refusal_.place = candidate.place;
    refusal_.holder = holder;
    refusal_.holder.client = client_of(holder.client, candidate.entry.id);  // who that is of
  }
  return client.error();
}

Status VolumeSet::Replicating::open_all() {
  if (options_.open.steal) {
    for (const Candidate& candidate : candidates_) TRY(look_before_stealing(candidate));
  }
  const auto until = Clock::now() + kTryFor;
  for (bool is_first = true;; is_first = false) {
    bool missing = false;
    for (Candidate& candidate : candidates_) {
      if (candidate.entry.state != ReplicaState::kInSync || candidate.client != nullptr) continue;
      const Status status = open_one(candidate);
      // Without its volume the brick was wiped; it has nothing to wait for.
      if (status.ok() || status.code() == ENOENT) continue;
      if (!is_absence(status.error())) {
        return status.code() == EBUSY
                   ? status
                   : refuse(fmt::format("{}: {}", candidate.entry.source, candidate.why), status.code());
      }
      missing = true;
    }
    if (!missing || (!is_first && Clock::now() >= until)) break;
    std::this_thread::sleep_for(kTryEvery);
  }
  fenced_at_ = Clock::now();
  for (Candidate& candidate : candidates_) {
    candidate.left_out = candidate.client == nullptr;
    if (writable() || !candidate.left_out || candidate.entry.state != ReplicaState::kInSync || !unclean_) continue;
    // Its holder may live, and be writing to that one alone.
    return refuse(
        fmt::format("{} is not there, and the volume was not let go: mount it once without ro", candidate.entry.source),
        EHOSTUNREACH);
  }
  return {};
}

void VolumeSet::Replicating::leave_out(Candidate& candidate) {
  static_cast<void>(candidate.client->close());
  watch_.remove(*candidate.client);
  candidate.client.reset();
  candidate.left_out = true;
}

// The next one is higher.
Status VolumeSet::Replicating::note_record(VolumeClient& client) {
  const auto record = TRY(read_commit_record(client, map_.set));
  MutexLock lock(set_.mutex_);
  if (record) set_.highest_record_ = std::max(set_.highest_record_, record->number);
  return {};
}

// What has no mark has lost its copy, once the place was made.
Status VolumeSet::Replicating::check_marks() {
  for (size_t place = 0; place < map_.places.size(); ++place) {
    for (Candidate& candidate : candidates_) {
      if (candidate.place != place || candidate.client == nullptr) continue;
      bool has_mark = false;
      TRY(check_mark(candidate, &has_mark));
      if (has_mark || !map_.places[place].made) continue;
      candidate.lost = true;
      log::warn("{} has lost its copy", candidate.entry.source);
      leave_out(candidate);
    }
  }
  return {};
}

// That it is this one, or has nothing yet.
Status VolumeSet::Replicating::check_owner(const Candidate& candidate, const std::vector<BlockRange>& listed,
                                           const std::optional<ReplicaMark>& mark) {
  // Its making did not end, and so nothing was written to it.
  const bool is_begun = listed.size() == 1 && listed[0] == first_block_of(candidate.place);
  if (listed.empty() || (!mark && is_begun)) return {};
  if (!mark) return refuse(fmt::format("{} holds something else", candidate.entry.source), EUCLEAN);
  if (mark->set == map_.set && mark->replica == candidate.entry.id) return {};
  return refuse(fmt::format("{} belongs to another volume ({})", candidate.entry.source, text_of(mark->set)), EUCLEAN);
}

Status VolumeSet::Replicating::check_mark(Candidate& candidate, bool* has_mark) {
  const auto listed = TRY(candidate.client->list());
  std::optional<ReplicaMark> mark;
  if (contains_block(listed, first_block_of(candidate.place).start)) {
    mark = TRY(read_replica_mark(*candidate.client, candidate.place));
  }
  TRY(check_owner(candidate, listed, mark));
  if (!mark) return {};
  const std::string& name = candidate.entry.source;
  // It has seen a later map than there is.
  if (mark->generation > map_.generation) {
    TRY(load_map());
    if (set_.keeper_->generation() >= mark->generation) {
      return refuse_outrun("another client has just mounted the volume: try again");
    }
    return refuse(fmt::format("{} has seen generation {} of the map, which is at {}: etcd was restored from an old "
                              "backup, whose map must not be believed",
                              name, mark->generation, map_.generation),
                  EUCLEAN);
  }
  *has_mark = true;
  candidate.mark = mark->generation;
  candidate.older = map_.places[candidate.place].made && mark->generation < candidate.entry.marked;
  if (candidate.place == 0) TRY(note_record(*candidate.client));
  return {};
}

std::vector<FoundReplica*> VolumeSet::Replicating::found(std::optional<size_t> place) {
  std::vector<FoundReplica*> found;
  for (Candidate& candidate : candidates_) {
    if (place.value_or(candidate.place) == candidate.place) found.push_back(&candidate);
  }
  return found;
}

Status VolumeSet::Replicating::choose(Claim& claim) {
  for (Candidate& candidate : candidates_) {
    if (candidate.client != nullptr) candidate.session = candidate.client->session();
  }
  for (size_t place = 0; place < map_.places.size(); ++place) TRY(claim.choose(found(place), &refusal_.why));
  for (Candidate& candidate : candidates_) {
    if (candidate.left_out && candidate.client != nullptr) leave_out(candidate);
  }
  for (size_t place = 0; place < map_.places.size(); ++place) look_for_bitmap(place);
  return {};
}

// What those miss that are not in sync; of whom that is not known here, all is copied. A lost tail had the bitmap in
// it.
void VolumeSet::Replicating::look_for_bitmap(size_t place) {
  for (Candidate& candidate : candidates_) {
    if (candidate.place != place || candidate.entry.missed == 0) continue;
    candidate.noted = std::ranges::all_of(candidates_, [&](const Candidate& one) {
      if (one.place != place || one.client == nullptr) return true;
      if (one.lost_tail) return false;
      const auto number = read_bitmap_number(*one.client, map_.set, place);
      return number.ok() && *number == candidate.entry.missed;
    });
  }
}

Status VolumeSet::Replicating::make(Claim& claim) {
  const MapHolder self{options_.open.client, options_.open.client_name, 0, false};
  const Status made = claim.make(*set_.keeper_, notice_, self, found(), fenced_at_);
  const auto map = set_.keeper_->map();
  if (map->holder && map->holder->client == self.client) claimed_ = {map->holder->epoch, unclean_};
  if (made.code() == EAGAIN) return refuse_outrun("the map of the volume is changing: try again");
  return made.ok() ? made : refuse(set_.keeper_->trouble(), made.code());
}

Status VolumeSet::Replicating::note_made() {
  const Status noted = set_.note_made();
  const std::string trouble = set_.keeper_->trouble();
  return noted.ok() || trouble.empty() ? noted : refuse(trouble, noted.code());
}

// Between opening the replicas and the claim another client may have opened them.
Status VolumeSet::Replicating::verify() {
  for (Candidate& candidate : candidates_) {
    if (candidate.client == nullptr) continue;
    const auto stat = candidate.client->stat();
    if (!stat.ok()) return stat.error();
  }
  const Status seen = set_.keeper_->refresh();
  const std::string trouble = set_.keeper_->trouble();
  return seen.ok() || trouble.empty() ? seen : refuse(trouble, seen.code());
}

Result<std::unique_ptr<VolumeSet>> VolumeSet::open(std::unique_ptr<MapStore> store, BrickMaker make,
                                                   const VolumeOptions& options, SetRefusal* refusal) {
  const std::shared_ptr<MapStore> shared = std::move(store);
  Replicating::FormerClaim claimed;
  for (int left = kOpenings;;) {
    *refusal = {};
    std::unique_ptr<VolumeSet> set(new VolumeSet());
    set->keeper_ = std::make_unique<MapKeeper>(shared);
    Replicating opening(*set, make, options, *refusal, claimed);
    const Status status = opening.run();
    if (status.ok()) return set;
    static_cast<void>(set->close());
    if (opening.gone().empty() && !opening.is_outrun()) return status.error();
    const bool ends = --left == 0;
    if (ends && opening.gone().empty()) return status.error();
    if (ends) return opening.refuse(opening.gone() + " went away while it was opened", EHOSTUNREACH).error();
    log::warn("{} while the volume was opened: that begins anew",
              opening.gone().empty() ? "another client changed the map" : opening.gone() + " went away");
  }
}

}  // namespace brickfs
