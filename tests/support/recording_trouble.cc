// SPDX-License-Identifier: Apache-2.0
// What happens to the bricks of a set with copies while clients use them: sessions and their ends, outages, deaths,
// writes of a former holder that land late, and the map.
#include <fmt/core.h>

#include <algorithm>

#include "tests/support/recording_brick.h"
#include "transport/base/check.h"
#include "transport/volume/replica_format.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnect{4'000};   // so long a client waits for an answer to its open()
constexpr milliseconds kMapTakes{120};    // a change: longer than anybody waits before he looks again
constexpr milliseconds kNoticed{300};     // from then on a brick is silent
constexpr milliseconds kDigested{5'000};  // behind an outage: who was to be left out for it is

}  // namespace

std::string BrickTrouble::text() const {
  static constexpr const char* kWhat[] = {"is silent", "is cut off", "dies", "is wiped"};
  return fmt::format("brick {} {} with change {}, for {} ms (seed {})", brick, kWhat[static_cast<size_t>(kind)], at,
                     away.count(), seed);
}

// --- sessions

Result<uint64_t> RecordingMedium::open_session(size_t part, const OpenRequest& request) {
  if (map_ == nullptr) return 0;
  interleave();
  MutexLock lock(mutex_);
  land_late();
  const Outage& outage = outages_[brick_of(part)];
  const auto most = Clock::now() + kConnect;
  while (outage.silent && Clock::now() < outage.until && Clock::now() < most) {
    changed_.wait_until(lock, std::min(outage.until, most));
  }
  if (Clock::now() < outage.until) return Error(outage.silent ? ETIMEDOUT : ECONNREFUSED, "brick");
  Link& link = links_[part];
  if (request.resume != Epoch{} && link.client != request.client) return Error(ESTALE, "another client has it");
  link.client = request.client;
  return ++link.session;
}

void RecordingMedium::end_session(size_t part, uint64_t session) {
  MutexLock lock(mutex_);
  if (links_[part].session == session) ++links_[part].session;
  changed_.notify_all();
}

int RecordingMedium::reach(size_t part, uint64_t session) {
  if (map_ == nullptr) return 0;
  MutexLock lock(mutex_);
  land_late();
  const Outage& outage = outages_[brick_of(part)];
  while (outage.silent && Clock::now() < outage.until && links_[part].session == session) {
    changed_.wait_until(lock, outage.until);
  }
  if (links_[part].session != session) return ENOTCONN;
  return Clock::now() < outage.until ? ENOTCONN : 0;
}

// Another thread may have struck its brick since it was reached.
bool RecordingMedium::is_over(Caller caller) const {
  return map_ != nullptr && links_[caller.part].session != caller.session;
}

bool RecordingMedium::is_silent(size_t part) const {
  if (map_ == nullptr) return false;
  MutexLock lock(mutex_);
  const Outage& outage = outages_[brick_of(part)];
  return outage.silent && Clock::now() < outage.until;
}

// Of a session that was lost nothing is heard any more.
milliseconds RecordingMedium::silence(size_t part, uint64_t session) const {
  if (map_ == nullptr) return {};
  MutexLock lock(mutex_);
  const Outage& outage = outages_[brick_of(part)];
  const bool lasts = links_[part].session == session;
  if (lasts && Clock::now() >= outage.until) return {};
  const auto silent = std::chrono::duration_cast<milliseconds>(Clock::now() - outage.since);
  return silent < kNoticed ? milliseconds(0) : silent;
}

// --- trouble

void RecordingMedium::plan(const BrickTrouble& trouble) {
  MutexLock lock(mutex_);
  planned_ = trouble;
  changes_ = 0;
}

bool RecordingMedium::is_planned() const {
  MutexLock lock(mutex_);
  return planned_.has_value();
}

const BrickTrouble* RecordingMedium::due() {
  if (map_ == nullptr) return nullptr;
  MutexLock lock(mutex_);
  if (!planned_ || ++changes_ != planned_->at) return nullptr;
  striking_ = *planned_;
  return &striking_;
}

bool RecordingMedium::has_trouble(size_t part, const BrickTrouble& trouble) const {
  MutexLock lock(mutex_);
  return brick_of(part) == trouble.brick;
}

void RecordingMedium::strike() {
  MutexLock lock(mutex_);
  const BrickTrouble trouble = striking_;
  planned_.reset();  // only now may the next one be planned
  be_away(trouble.brick, trouble.kind == BrickTrouble::Kind::kSilent, trouble.away);
  if (trouble.kind == BrickTrouble::Kind::kDies || trouble.kind == BrickTrouble::Kind::kIsWiped) die(trouble);
}

void RecordingMedium::be_away(size_t brick, bool silent, milliseconds away) {
  outages_[brick] = {Clock::now(), Clock::now() + away, silent};
  for (size_t part = 0; part < state_.places && !silent; ++part) {
    if (brick_of(part) == brick) ++links_[part].session;
  }
  changed_.notify_all();  // who waits for an earlier outage to end waits for this one now, which may be shorter
}

void RecordingMedium::cut_off(size_t brick, milliseconds away) {
  MutexLock lock(mutex_);
  be_away(brick, false, away);
}

bool RecordingMedium::is_away(size_t brick) const {
  MutexLock lock(mutex_);
  return Clock::now() < outages_[brick].until;
}

bool RecordingMedium::is_back(size_t brick) const {
  MutexLock lock(mutex_);
  const Outage& outage = outages_[brick];
  return outage.until == Clock::time_point() || Clock::now() >= outage.until + kDigested;
}

// What was under way to it has come to an end.
void RecordingMedium::die(const BrickTrouble& trouble) {
  std::erase_if(under_way_, [&](const auto& entry) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (state_.brick_of(entry.second->address) != trouble.brick) return false;
    entry.second->end = tick();
    return true;
  });
  BrickEvent event;
  event.kind = BrickEvent::Kind::kDeath;
  event.place = trouble.brick;
  event.wiped = trouble.kind == BrickTrouble::Kind::kIsWiped;
  event.seed = trouble.seed;
  carry_out(std::move(event));
}

void RecordingMedium::add_late(LateWrite late) {
  MutexLock lock(mutex_);
  late_.push_back(std::move(late));
}

void RecordingMedium::land_late() {
  ++calls_;
  std::erase_if(late_, [&](LateWrite& late) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (calls_ < late.at) return false;
    if (links_[state_.place_of(late.address)].session > 0) return true;  // the brick refuses it
    BrickEvent event;
    event.kind = BrickEvent::Kind::kWrite;
    event.address = late.address;
    event.bytes = std::move(late.bytes);
    carry_out(std::move(event));
    return true;
  });
}

// --- the map

class RecordingMapStore final : public MapStore {
 public:
  explicit RecordingMapStore(std::shared_ptr<RecordingMedium> medium)
      : medium_(std::move(medium)), store_(medium_->map_) {}

  Result<Stored> load() override {
    medium_->interleave();
    return store_.load();
  }
  Result<uint64_t> replace(const SetMap& map, uint64_t version) override {
    medium_->interleave();
    medium_->let_pass(kMapTakes);
    const auto replaced = store_.replace(map, version);
    if (replaced.ok()) medium_->map_changed(map);
    medium_->interleave();
    return replaced;
  }
  std::string trouble() const override { return store_.trouble(); }

 private:
  const std::shared_ptr<RecordingMedium> medium_;
  MemoryMapStore store_;
};

std::unique_ptr<MapStore> RecordingMedium::map_store() {
  return std::make_unique<RecordingMapStore>(shared_from_this());
}

void RecordingMedium::let_pass(milliseconds time) {
  MutexLock lock(mutex_);
  const auto until = Clock::now() + time;
  while (Clock::now() < until) changed_.wait_until(lock, until);
}

void RecordingMedium::map_changed(const SetMap& map) {
  MutexLock lock(mutex_);
  BrickEvent event;
  event.kind = BrickEvent::Kind::kMap;
  event.map = std::make_shared<SetMap>(map);
  carry_out(std::move(event));
}

std::optional<size_t> RecordingMedium::part_of(const std::string& source) const {
  MutexLock lock(mutex_);
  for (size_t part = 0; part < state_.places; ++part) {
    if (replica_of(state_, part).source == source) return part;
  }
  return std::nullopt;
}

std::string RecordingMedium::violation() const {
  MutexLock lock(mutex_);
  return violation_;
}

// Its mark and its rows may be read of any replica.
void RecordingMedium::look_at_read(size_t part, uint64_t address, std::span<const std::byte> bytes) {
  const MapReplica& replica = replica_of(state_, part);
  if (replica.state == ReplicaState::kInSync || !violation_.empty()) return;
  const uint64_t offset = address - part * kPlaceBytes;
  if (offset >= kReplicaAreaOffset && offset < kBlockBytes) return;
  for (size_t other = 0; other < state_.places; ++other) {
    if (state_.place_of_part[other] != state_.place_of_part[part]) continue;
    const uint64_t there = offset + other * kPlaceBytes;
    if (replica_of(state_, other).state != ReplicaState::kInSync || !state_.visible.contains(block_of(there))) continue;
    std::vector<std::byte> expected(bytes.size());
    state_.visible.read(there, expected);
    if (std::ranges::equal(expected, bytes)) return;
  }
  violation_ = fmt::format("{}, which is not in sync, is read at {:#x}", replica.source, offset);
}

}  // namespace brickfs
