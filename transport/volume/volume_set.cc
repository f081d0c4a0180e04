// SPDX-License-Identifier: Apache-2.0
// What a set does with the calls of the file system; volume_set_open.cc opens it.
#include "transport/volume/volume_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "transport/base/check.h"
#include "transport/base/thread.h"
#include "transport/membership/claim.h"
#include "transport/volume/set_membership.h"

namespace brickfs {
namespace {

// The worst comes first.
int rank_of(LinkState::Kind kind) {
  switch (kind) {
    case LinkState::Kind::kFailed:
      return 3;
    case LinkState::Kind::kWaiting:
      return 2;
    case LinkState::Kind::kSilent:
      return 1;
    case LinkState::Kind::kConnected:
      break;
  }
  return 0;
}

// The parts of ascending or other ranges that are on each place.
std::vector<std::vector<BlockRange>> by_place(const VolumeSet& set, std::span<const BlockRange> blocks) {
  std::vector<std::vector<BlockRange>> parts(set.places());
  for (const BlockRange& range : blocks) parts[set.place_of(range.start)].push_back(range);
  return parts;
}

// Of a map: what has changed since has to do with who may answer.
SetMap what_readers_go_by(SetMap map) {
  map.generation = 0;
  map.taker.reset();
  for (MapPlace& place : map.places) {
    for (MapReplica& replica : place.replicas) {
      replica.trouble.clear();
      replica.copied_blocks = replica.total_blocks = 0;
    }
  }
  return map;
}

}  // namespace

VolumeSet::~VolumeSet() {
  stop_threads();
  // A thread of place 0's may be waiting for the others.
  for (const auto& member : members_) member->abandon();
}

Place& VolumeSet::member_of(uint64_t address) const {
  const size_t place = place_of(block_of(address));
  CHECK(place < places());
  return *members_[place];
}

Session VolumeSet::session() const {
  Session session = members_[0]->session();
  for (size_t place = 1; place < places(); ++place) {
    const Session other = members_[place]->session();
    session.capacity_blocks += other.capacity_blocks;
    session.memory_blocks += other.memory_blocks;
    session.suspect_blocks += other.suspect_blocks;
    session.lease = std::min(session.lease, other.lease);
    if (other.durability == Durability::kVolatile) session.durability = Durability::kVolatile;
  }
  return session;
}

LinkState VolumeSet::link_state() const {
  if (!is_striped()) return members_[0]->link_state();
  LinkState worst;
  for (size_t place = 0; place < places(); ++place) {
    LinkState state = members_[place]->link_state();
    if (place > 0 && rank_of(state.kind) <= rank_of(worst.kind)) continue;
    if (state.kind != LinkState::Kind::kConnected) state.text = names_[place] + ": " + state.text;
    worst = std::move(state);
  }
  return worst;
}

std::optional<KnownMap> VolumeSet::known_map() const {
  if (!is_replicated()) return std::nullopt;
  KnownMap known{*keeper_->map(), {}, keeper_->trouble(), keeper_->troubled_for()};
  for (const Mirror* mirror : mirrors_) {
    const auto absent = mirror->absent();
    known.absent.insert(known.absent.end(), absent.begin(), absent.end());
  }
  return known;
}

bool VolumeSet::is_away() const {
  return std::ranges::any_of(members_, [](const auto& member) { return member->is_away(); });
}

LatencyCounts VolumeSet::counts(VolumeCall call) const {
  LatencyCounts all;
  for (const auto& member : members_) all += member->counts(call);
  return all;
}

Status VolumeSet::final_error() const {
  for (const auto& member : members_) TRY(member->final_error());
  return {};
}

Status VolumeSet::alloc(BlockRange blocks) { return member_of(raw(blocks.start)).alloc(blocks); }

Status VolumeSet::free(BlockRange blocks) { return member_of(raw(blocks.start)).free(blocks); }

Result<std::vector<BlockRange>> VolumeSet::list() {
  if (!is_striped()) return members_[0]->list();
  std::vector<BlockRange> all;
  for (size_t place = 0; place < places(); ++place) {
    for (BlockRange blocks : TRY(members_[place]->list())) {
      const bool elsewhere =
          place_of(blocks.start) != place || raw(blocks.end()) > raw(first_block_of(place + 1).start);
      if (elsewhere) return Error(EUCLEAN, "a block on the wrong brick");
      const BlockRange mark = first_block_of(place);
      if (place > 0 && blocks.start == mark.start) blocks = {mark.end(), blocks.count - 1};
      if (blocks.count > 0) all.push_back(blocks);
    }
  }
  return all;
}

Result<BrickStat> VolumeSet::stat() {
  BrickStat all = TRY(members_[0]->stat());
  for (size_t place = 1; place < places(); ++place) {
    const BrickStat one = TRY(members_[place]->stat());
    all.volume_capacity_blocks += one.volume_capacity_blocks;
    all.volume_used_blocks += one.volume_used_blocks;
    all.volume_mapped_blocks += one.volume_mapped_blocks;
    all.brick_capacity_blocks += one.brick_capacity_blocks;
    all.brick_used_blocks += one.brick_used_blocks;
    all.memory_blocks += one.memory_blocks;
    all.resident_blocks += one.resident_blocks;
    all.allocatable_blocks += one.allocatable_blocks;
    all.commits += one.commits;
    all.committed_bytes += one.committed_bytes;
  }
  return all;
}

std::string VolumeSet::name_full() const {
  if (!is_striped() && !is_replicated()) return "";
  std::vector<std::string> names;
  for (size_t place = 0; place < places(); ++place) {
    for (const std::string& name : members_[place]->full_bricks()) {
      names.push_back(is_replicated() ? name : names_[place]);
    }
  }
  return names.empty() ? "" : fmt::format(" (full: {})", fmt::join(names, ", "));
}

void VolumeSet::map_ahead(BlockRange blocks) {
  if (is_valid(blocks)) member_of(raw(blocks.start)).map_ahead(blocks);
}

// --- data

bool VolumeSet::is_one_place(std::span<const Piece> pieces, size_t* place) const {
  *place = 0;
  if (!is_striped()) return true;
  if (pieces.empty()) return true;
  *place = place_of(block_of(pieces.front().address));
  return std::ranges::all_of(pieces, [&](const Piece& piece) { return place_of(block_of(piece.address)) == *place; });
}

// Place by place: a request of the kernel's hardly ever touches two.
template <typename Call>
Status VolumeSet::on_each_place(std::span<const Piece> pieces, Call&& call) {
  if (!is_striped()) return call(*members_[0], pieces);
  size_t only = 0;
  if (is_one_place(pieces, &only)) {
    if (only >= places()) return Error(EIO, "on a brick that the set has not");
    return call(*members_[only], pieces);
  }
  std::vector<std::vector<Piece>> parts(places());
  for (const Piece& piece : pieces) {
    const size_t place = place_of(block_of(piece.address));
    if (place >= places()) return Error(EIO, "on a brick that the set has not");
    parts[place].push_back(piece);
  }
  for (size_t place = 0; place < places(); ++place) {
    if (parts[place].empty()) continue;
    TRY(call(*members_[place], std::span<const Piece>(parts[place])));
  }
  return {};
}

Status VolumeSet::read(std::span<const Piece> pieces, const Interruption* by) {
  return on_each_place(pieces, [&](Place& member, std::span<const Piece> part) { return member.read(part, by); });
}

Status VolumeSet::write(std::span<const Piece> pieces, Stage stage, const Interruption* by) {
  return on_each_place(pieces,
                       [&](Place& member, std::span<const Piece> part) { return member.write(part, stage, by); });
}

Status VolumeSet::try_read(std::span<const Piece> pieces) {
  return on_each_place(pieces, [](Place& member, std::span<const Piece> part) { return member.try_read(part); });
}

Status VolumeSet::try_write(std::span<const Piece> pieces) {
  return on_each_place(pieces, [](Place& member, std::span<const Piece> part) { return member.try_write(part); });
}

Result<RegisteredMemory> VolumeSet::register_memory(std::span<std::byte> memory) {
  return is_striped() || is_replicated() ? keys_.add(memory) : members_[0]->first().register_memory(memory);
}

// --- lent blocks

Status VolumeSet::begin_lending(BlockRange blocks, ClientId to, const Interruption* by) {
  return member_of(raw(blocks.start)).begin_lending(blocks, to, by);
}

void VolumeSet::end_lending(BlockRange blocks) { member_of(raw(blocks.start)).end_lending(blocks); }

Status VolumeSet::adopt(std::span<const LentRange> ranges, std::span<const LentPlace> written,
                        std::shared_ptr<LentBytes> bytes, const Interruption* by) {
  for (size_t place = 0; place < places(); ++place) {
    std::vector<LentRange> here;
    std::ranges::copy_if(ranges, std::back_inserter(here),
                         [&](const LentRange& range) { return place_of(block_of(range.address)) == place; });
    if (here.empty()) continue;
    const auto told = std::ranges::find(written, place, &LentPlace::place);
    if (told == written.end()) return Error(EAGAIN, "nobody knows which bricks were written to");
    TRY(members_[place]->adopt(here, told->bricks, bytes, by));
  }
  return {};
}

// Of all, whatever one says.
Status VolumeSet::expel(ClientId client) {
  Status status;
  for (const auto& member : members_) {
    const Status expelled = member->expel(client);
    if (!expelled.ok()) status = expelled;
  }
  return status;
}

// --- commits

Status VolumeSet::commit() {
  // Place 0 last, and with it what before_commit() says.
  return members_[0]->commit();
}

Status VolumeSet::commit_others(const Interruption* by) {
  std::vector<Place*> touched;
  for (size_t place = 1; place < places(); ++place) {
    if (!members_[place]->is_clean()) touched.push_back(members_[place].get());
  }
  if (touched.empty()) return {};
  std::vector<Status> results(touched.size());
  std::vector<Thread> threads;
  for (size_t i = 1; i < touched.size(); ++i) {
    threads.push_back(Thread([&results, &touched, i, by] { results[i] = touched[i]->commit(by); }));
  }
  results[0] = touched[0]->commit(by);
  for (Thread& thread : threads) thread.join();
  for (const Status& result : results) TRY(result);
  return {};
}

Status VolumeSet::before_commit(VolumeClient& first, uint64_t& record_number, const Interruption* by) {
  std::optional<uint64_t> position;
  if (keeps_record_) {
    MutexLock lock(mutex_);
    // Before the others are asked: what is written later is not covered.
    if (position_) position = position_();
  }
  TRY(commit_others(by));
  if (!position) return {};
  return write_commit_record(first, record_number, *position, by);
}

Status VolumeSet::write_commit_record(VolumeClient& first, uint64_t& record_number, uint64_t position,
                                      const Interruption* by) {
  std::vector<BootId> boots;
  std::vector<uint64_t> counts;
  for (size_t place = 0; place < places(); ++place) {
    boots.push_back(members_[place]->session().boot);
    const CommitCounter* const counter = counter_of(place);
    counts.push_back(counter == nullptr ? 0 : counter->last());
  }
  if (is_replicated() && record_number == 0) {
    const auto own = TRY(read_commit_record(first, id_));
    if (own) record_number = own->number;
  }
  uint64_t number = 0;
  {
    // Higher than all that any copy has, and not in the slot of the one in force here.
    MutexLock lock(mutex_);
    number = std::max(record_number, highest_record_) + 1;
    if (record_number > 0 && number % 2 == record_number % 2) ++number;
    highest_record_ = number;
    wrote_record_ = true;
  }
  StoredCommitSlot stored = encode_commit_record(id_, number, position, boots, counts);
  const Piece piece{kCommitRecordAddress[number % 2], {{reinterpret_cast<std::byte*>(&stored), sizeof(stored), 0}}};
  TRY(first.write_with_commit(piece, Stage::kJournal, by));
  record_number = number;
  return {};
}

// Null: its commits are not counted, or not yet.
CommitCounter* VolumeSet::counter_of(size_t place) const {
  MutexLock lock(mutex_);
  return place < counters_.size() ? counters_[place].get() : nullptr;
}

// Of one that has restarted.
Status VolumeSet::check_count(size_t place, Brick& brick) const {
  const CommitCounter* const counter = counter_of(place);
  if (counter == nullptr || counter->last() == 0) return {};
  const auto count = read_commit_count(brick, id_, place);
  if (!count.ok() && !count.error().is(ENOENT)) return count.error();
  if (count.ok() && *count >= counter->last()) return {};
  return Error(ENODATA, "the brick restarted with an older store");
}

Status VolumeSet::clear_torn_commit_record() {
  return keeps_record_ ? members_[0]->clear_torn_commit_record() : Status();
}

void VolumeSet::set_commit_position(std::function<uint64_t()> position) {
  MutexLock lock(mutex_);
  position_ = std::move(position);
}

uint64_t VolumeSet::uncommitted_bytes() const {
  uint64_t bytes = 0;
  for (const auto& member : members_) bytes += member->uncommitted_bytes();
  return bytes;
}

bool VolumeSet::is_settled() const {
  return std::ranges::all_of(members_, [](const auto& member) { return member->is_settled(); });
}

uint64_t VolumeSet::suspect_blocks() const {
  uint64_t blocks = 0;
  for (const auto& member : members_) blocks += member->suspect_blocks();
  return blocks;
}

Status VolumeSet::settle(std::span<const BlockRange> data, std::span<const BlockRange> journal,
                         std::span<const BlockRange> superblock) {
  // Also where no block is suspect: what was allocated there may not be durable, and the journal refers to it.
  auto parts = by_place(*this, data);
  for (size_t place = 1; place < places(); ++place) {
    parts[place].push_back(first_block_of(place));  // the mark, which list() does not show
    TRY(members_[place]->settle(parts[place], {}, {}));
  }
  TRY(members_[0]->settle(parts[0], journal, superblock));
  return note_made();
}

// What has no mark from now on has lost its copy, and what has an older one is of an older store. Places that were
// added since this client is the holder are the next one's.
Status VolumeSet::note_made() {
  if (!holds_map_) return {};
  const auto noted = keeper_->change([this](SetMap& map) {
    const std::span<MapPlace> known(map.places.data(), std::min(places(), map.places.size()));
    bool changed = !std::ranges::all_of(known, &MapPlace::made);
    for (MapPlace& place : known) place.made = true;
    for (const Mirror* mirror : mirrors_) changed |= mirror->tell_marks(map);
    return changed;
  });
  return noted.ok() ? Status() : noted.error();
}

// --- all of it

void VolumeSet::give_up_silent(std::chrono::milliseconds silence) {
  for (const auto& member : members_) member->give_up_silent(silence);
}

void VolumeSet::give_up_outage() {
  for (const auto& member : members_) member->give_up_outage();
}

void VolumeSet::stay_unsettled() {
  for (const auto& member : members_) member->stay_unsettled();
}

void VolumeSet::expect_no_restart() {
  for (const auto& member : members_) member->expect_no_restart();
}

void VolumeSet::interrupt() {
  for (const auto& member : members_) member->interrupt();
}

// Or nobody would give their blocks back. Bricks that do not answer are not waited for.
void VolumeSet::await_moves() {
  constexpr std::chrono::milliseconds kMost{2'000};
  constexpr std::chrono::milliseconds kLook{20};
  const auto until = std::chrono::steady_clock::now() + kMost;
  while (std::ranges::any_of(mirrors_, &Mirror::is_moving) && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kLook);
  }
}

// From the last place to the first: a thread of place 0's may be waiting for the others.
Status VolumeSet::close() {
  if (holds_map_) await_moves();
  stop_threads();
  let_go();
  Status result;
  for (size_t place = places(); place-- > 0;) {
    const Status closed = members_[place]->close();
    if (!closed.ok()) result = closed;
  }
  return result;
}

bool VolumeSet::wrote_record() const {
  MutexLock lock(mutex_);
  return wrote_record_;
}

// Unless something may be different.
void VolumeSet::let_go() {
  if (!std::exchange(holds_map_, false) || !std::ranges::all_of(mirrors_, &Mirror::can_let_go)) return;
  brickfs::let_go(
      *keeper_, [this] { return std::ranges::all_of(mirrors_, &Mirror::mark_last); },
      [this](SetMap& map) {
        if (wrote_record()) map.tail_lost = false;  // with it the journal says what it should
        for (const Mirror* mirror : mirrors_) mirror->tell_marks(map);
      });
}

// --- threads of a replicated set: one that looks how replicas are, and waits for nobody; one that looks what others do
// to the map; of each place one that leaves out those that are away, and one that brings replicas back

// A place that cannot be reached has not heard of it: what waits there would wait on.
void VolumeSet::fail_together() {
  for (const Mirror* lost : mirrors_) {
    const Status status = lost->final_error();
    if (status.code() != ESTALE) continue;
    for (Mirror* mirror : mirrors_) mirror->fail(status);
    return;
  }
}

void VolumeSet::start_threads() {
  const auto run = [this](std::chrono::milliseconds period, auto&& step) {
    threads_.push_back(Thread([this, period, step] {
      for (;;) {
        {
          MutexLock lock(threads_mutex_);
          if (!stopping_) threads_stop_.wait_for(lock, period);
          if (stopping_) return;
        }
        step();
      }
    }));
  };
  run(std::chrono::milliseconds(100), [this] {
    for (Mirror* mirror : mirrors_) mirror->watch();
    fail_together();
  });
  if (!holds_map_) {
    run(std::chrono::milliseconds(500), [this, began = what_readers_go_by(*keeper_->map())] {
      if (std::ranges::none_of(mirrors_, &Mirror::wants_map)) return;
      const auto asked = std::chrono::steady_clock::now();
      if (!keeper_->load().ok() || what_readers_go_by(*keeper_->map()) != began) return;
      for (Mirror* mirror : mirrors_) mirror->confirm(asked);
    });
    return;
  }
  run(std::chrono::milliseconds(2'000), [this] {
    const Status status = keeper_->refresh();
    if (status.code() != ESTALE) return;
    for (Mirror* mirror : mirrors_) mirror->fail(status);
  });
  for (Mirror* mirror : mirrors_) {
    run(std::chrono::milliseconds(100), [mirror] { mirror->keep(); });
    run(std::chrono::milliseconds(200), [mirror] {
      while (mirror->repair()) {
      }
    });
  }
}

void VolumeSet::stop_threads() {
  {
    MutexLock lock(threads_mutex_);
    stopping_ = true;
    threads_stop_.notify_all();
  }
  for (Mirror* mirror : mirrors_) mirror->stop_repair();
  for (Thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace brickfs
