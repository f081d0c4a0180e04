// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "transport/base/check.h"
#include "transport/volume/replica_format.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAway[] = {milliseconds(300), milliseconds(3'000), milliseconds(20'000),
                                  milliseconds(86'400'000)};
constexpr milliseconds kBrief[] = {milliseconds(300), milliseconds(3'000)};
constexpr uint64_t kLatestCall = 40;  // of a mount, with which a late write lands
constexpr milliseconds kSettles{120'000};
constexpr milliseconds kSettleStep{500};

bool is_in_sync(const BrickState& state, size_t part) { return replica_of(state, part).state == ReplicaState::kInSync; }

// It has what it had when it was last called in sync.
bool is_whole(const BrickState& state, size_t part, bool durable) {
  if (!is_in_sync(state, part)) return false;
  const BootId boot = replica_of(state, part).boot;
  if (boot == BootId{} || boot == state.boot_of(part)) return true;
  return durable && state.visible.contains(BlockAddress{part * kPlaceBytes});
}

bool has_all_without(const BrickState& state, bool durable, uint32_t bricks) {
  for (size_t place = 0; place < state.map->places.size(); ++place) {
    bool has = false;
    for (size_t part = 0; part < state.places; ++part) {
      has |= state.place_of_part[part] == place && (bricks >> state.brick_of_part[part] & 1) == 0 &&
             is_whole(state, part, durable);
    }
    if (!has) return false;
  }
  return true;
}

}  // namespace

BrickState empty_replicas(size_t bricks, size_t copies) {
  std::vector<NamedBrick> named;
  for (size_t brick = 0; brick < bricks; ++brick) {
    named.push_back({fmt::format("tcp://{}:20470", static_cast<char>('a' + brick)), ""});
  }
  std::string why;
  SetMap map;
  map.set[0] = std::byte{1};
  map.generation = 1;
  map.wanted = copies;
  map.places = plan_places(named, copies, "default", &why).value();
  BrickState state;
  state.bricks = bricks;
  state.places = 0;
  for (size_t place = 0; place < map.places.size(); ++place) {
    for (MapReplica& replica : map.places[place].replicas) {
      CHECK(state.places < BrickState::kMostPlaces);
      const auto brick = std::ranges::find_if(
          named, [&](const NamedBrick& one) { return replica.source.starts_with(one.brick + "/"); });
      state.brick_of_part[state.places] = static_cast<uint8_t>(brick - named.begin());
      state.place_of_part[state.places] = static_cast<uint8_t>(place);
      replica.id[7] = static_cast<std::byte>(++state.places);
      replica.state = ReplicaState::kInSync;
    }
  }
  state.map = std::make_shared<SetMap>(std::move(map));
  return state;
}

std::vector<uint32_t> dispensable(const BrickState& state, bool durable) {
  std::vector<uint32_t> sets;
  for (uint32_t bricks = 1; bricks < 1u << state.bricks; ++bricks) {
    if (has_all_without(state, durable, bricks)) sets.push_back(bricks);
  }
  return sets;
}

bool is_healthy(const BrickState& state) {
  for (size_t part = 0; part < state.places; ++part) {
    if (!is_in_sync(state, part) || replica_of(state, part).boot != state.boot_of(part)) return false;
  }
  return true;
}

BrickTrouble random_trouble(const BrickState& state, std::mt19937_64& random) {
  BrickTrouble trouble;
  trouble.kind = static_cast<BrickTrouble::Kind>(random() % 4);
  trouble.brick = random() % state.bricks;
  trouble.at = 1 + random() % (uint64_t{2} << random() % 6);
  trouble.away = kAway[random() % std::size(kAway)];
  trouble.seed = random() % 1024;
  return trouble;
}

std::optional<size_t> brick_that_is_out(const BrickState& state) {
  std::optional<size_t> out;
  for (size_t part = 0; part < state.places; ++part) {
    if (is_in_sync(state, part)) continue;
    if (out.value_or(state.brick_of_part[part]) != state.brick_of_part[part]) return std::nullopt;
    out = state.brick_of_part[part];
  }
  return out;
}

BrickTrouble random_further_trouble(const BrickState& state, size_t out, std::mt19937_64& random) {
  BrickTrouble trouble = random_trouble(state, random);
  if (trouble.brick == out) return trouble;
  trouble.kind = random() % 2 == 0 ? BrickTrouble::Kind::kSilent : BrickTrouble::Kind::kCutOff;
  trouble.away = kBrief[random() % std::size(kBrief)];
  return trouble;
}

// --- what a mount meets

void MountTrouble::prepare(RecordingMedium& medium) const {
  for (size_t brick = 0; (absent >> brick) != 0; ++brick) {
    if ((absent >> brick & 1) != 0) medium.cut_off(brick, away);
  }
  for (const LateWrite& write : late) medium.add_late(write);
}

std::string MountTrouble::text() const {
  std::string text;
  if (lost != 0) text += fmt::format("; bricks {:#b} are lost", lost);
  if (absent != 0) text += fmt::format("; bricks {:#b} are not reached for {} ms", absent, away.count());
  for (const LateWrite& write : late)
    text += fmt::format("; {} bytes at {:#x} land late", write.bytes.size(), write.address);
  return text;
}

uint64_t MountTrouble::digest() const {
  uint64_t digest = lost * 16 + absent + static_cast<uint64_t>(away.count()) * 1'000'003;
  for (const LateWrite& write : late) digest = digest * 31 + write.at * 7 + write.address;
  return digest;
}

// One of them; none: there is no such.
static uint32_t some_dispensable(const BrickState& state, bool durable, std::mt19937_64& random) {
  const std::vector<uint32_t> sets = dispensable(state, durable);
  return sets.empty() ? 0 : sets[random() % sets.size()];
}

MountTrouble random_mount_trouble(BrickState& state, const BrickLog& log, const CrashPoint& point,
                                  std::mt19937_64& random) {
  MountTrouble trouble;
  const uint64_t kind = random() % 4;
  if (kind == 0) {
    trouble.lost = some_dispensable(state, log.durable, random);
    for (size_t brick = 0; brick < state.bricks; ++brick) {
      if ((trouble.lost >> brick & 1) != 0) let_die(state, brick, log.durable, true, 0);
    }
  }
  if (kind == 1) {
    trouble.absent = some_dispensable(state, log.durable, random);
    trouble.away = kAway[random() % std::size(kAway)];
  }
  if (point.of != CrashOf::kClient || kind == 3) return trouble;
  for (const BrickEvent& event : log.events) {
    const bool under_way = event.begin < point.tick && event.end >= point.tick;
    if (event.kind != BrickEvent::Kind::kWrite || !under_way || random() % 2 == 0) continue;
    if ((trouble.lost >> state.brick_of(event.address) & 1) != 0) continue;
    trouble.late.push_back({1 + random() % kLatestCall, event.address, event.bytes});
  }
  return trouble;
}

// --- what is settled

std::string await_in_sync(const RecordingMedium& medium, const std::function<void(milliseconds)>& pass) {
  std::string missing;
  bool again = false;  // whatever it does may end in between
  for (milliseconds passed{0}; passed < kSettles; passed += kSettleStep) {
    missing.clear();
    const BrickState state = medium.state();
    for (size_t part = 0; part < state.places; ++part) {
      const bool serves = is_in_sync(state, part) && replica_of(state, part).boot == state.boot_of(part);
      const size_t brick = state.brick_of_part[part];
      if (medium.is_away(brick) ? !is_in_sync(state, part) : serves && medium.is_back(brick)) continue;
      missing = replica_of(state, part).source;
    }
    if (missing.empty() && again) return "";
    again = missing.empty();
    pass(kSettleStep);
  }
  return missing + " neither comes back in sync nor is left out";
}

std::string difference_of_replicas(const BrickState& state) {
  const auto blocks_of = [&](size_t part) {
    std::vector<uint64_t> blocks;
    for (const BlockAddress block : state.visible.blocks()) {
      if (state.place_of(raw(block)) == part) blocks.push_back(raw(block) - part * kPlaceBytes);
    }
    return blocks;
  };
  for (size_t part = 0; part < state.places; ++part) {
    size_t first = 0;
    while (state.place_of_part[first] != state.place_of_part[part] || !is_in_sync(state, first)) ++first;
    if (first == part || !is_in_sync(state, part)) continue;
    const std::string name = replica_of(state, part).source;
    const std::vector<uint64_t> blocks = blocks_of(part);
    const std::vector<uint64_t> expected = blocks_of(first);
    if (blocks != expected) {
      std::vector<uint64_t> differ;
      std::ranges::set_symmetric_difference(blocks, expected, std::back_inserter(differ));
      return fmt::format("{} has other blocks than the first copy: {:#x}", name, fmt::join(differ, ", "));
    }
    for (const uint64_t block : blocks) {
      for (uint64_t page = block; page < block + kBlockBytes; page += CrashImage::kPageBytes) {
        if (page >= kReplicaAreaOffset && page < kReplicaAreaEnd) continue;
        std::array<std::byte, CrashImage::kPageBytes> mine;
        std::array<std::byte, CrashImage::kPageBytes> others;
        state.visible.read(page + part * kPlaceBytes, mine);
        state.visible.read(page + first * kPlaceBytes, others);
        if (mine == others) continue;
        const auto differ = std::ranges::mismatch(mine, others);
        return fmt::format("{} has other bytes than the first copy at {:#x}", name,
                           page + static_cast<uint64_t>(differ.in1 - mine.begin()));
      }
    }
  }
  return "";
}

}  // namespace brickfs
