// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_states.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace brickfs {
namespace {

using Shape = Landing::Shape;

constexpr uint32_t kWord = 8;          // what memory takes whole
constexpr uint32_t kLine = 64;         // what travels together
constexpr uint32_t kSector = 512;      // what a disk takes whole
constexpr uint32_t kDensePlaces = 48;  // of each shape
constexpr uint32_t kSparsePlaces = 2;
constexpr uint32_t kDenseRandoms = 12;
constexpr uint32_t kSparseRandoms = 1;
constexpr size_t kMostInFlight = 4;  // of which all combinations of whole and none are tried

// The parts that landed of the grains from `from` to `to` of `bytes`: step(offset, length).
template <typename Step>
void for_each_landed(const Landing& landing, uint64_t bytes, uint64_t from, uint64_t to, Step&& step) {
  const uint64_t grains = divide_up(bytes, landing.grain);
  uint64_t first = from;
  while (first < to) {
    if (!landing.covers(first, grains)) {
      ++first;
      continue;
    }
    uint64_t end = first + 1;
    while (end < to && landing.covers(end, grains)) ++end;
    step(first * landing.grain, std::min<uint64_t>(end * landing.grain, bytes) - first * landing.grain);
    first = end;
  }
}

// What a commit of `range` has brought from memory to the store.
void land_range(BrickState& state, const CommitRange& range, const Landing& landing) {
  if (landing.shape == Shape::kAll) return state.stored.copy_from(state.visible, range.address, range.length_bytes);
  constexpr uint64_t kStep = CrashImage::kPageBytes;  // sectors and what is smaller lie within one
  for (uint64_t offset = 0; offset < range.length_bytes;) {
    const uint64_t next =
        std::min(round_down(range.address + offset, kStep) + kStep - range.address, range.length_bytes);
    if (!state.stored.shares_page(state.visible, range.address + offset)) {
      for_each_landed(
          landing, range.length_bytes, divide_up(offset, landing.grain), divide_up(next, landing.grain),
          [&](uint64_t at, uint64_t length) { state.stored.copy_from(state.visible, range.address + at, length); });
    }
    offset = next;
  }
}

// As good as a hash, for its purpose.
uint64_t mix(uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Indices 1 .. limit - 1: all, or some spread over them with both ends.
std::vector<uint32_t> places(uint64_t limit, uint32_t most) {
  std::vector<uint32_t> out;
  if (limit <= 1) return out;
  const uint64_t count = limit - 1;
  if (count <= most) {
    for (uint64_t i = 1; i <= count; ++i) out.push_back(static_cast<uint32_t>(i));
    return out;
  }
  // The ends are where headers and checksums are.
  const uint32_t head = most / 2;
  const uint32_t tail = most / 4;
  for (uint32_t i = 1; i <= head; ++i) out.push_back(i);
  for (uint32_t i = 0; i < most - head - tail; ++i) {
    out.push_back(static_cast<uint32_t>(head + 1 + (count - head - tail) * i / (most - head - tail)));
  }
  for (uint32_t i = tail; i > 0; --i) out.push_back(static_cast<uint32_t>(count - i + 1));
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

const char* name_of(Shape shape) {
  switch (shape) {
    case Shape::kNone:
      return "none";
    case Shape::kAll:
      return "all";
    case Shape::kPrefix:
      return "first";
    case Shape::kSuffix:
      return "last";
    case Shape::kWithout:
      return "without";
    case Shape::kOnly:
      return "only";
    case Shape::kEven:
      return "even";
    case Shape::kOdd:
      return "odd";
    case Shape::kRandom:
      return "random";
    case Shape::kAsTorn:
      return "as the torn one";
  }
  return "";
}

std::string describe(const BrickEvent& event) {
  switch (event.kind) {
    case BrickEvent::Kind::kWrite:
      return fmt::format("write of {} bytes at {:#x}", event.bytes.size(), event.address);
    case BrickEvent::Kind::kAlloc:
      return fmt::format("alloc of {} at {:#x}", event.blocks.count, raw(event.blocks.start));
    case BrickEvent::Kind::kFree:
      return fmt::format("free of {} at {:#x}", event.blocks.count, raw(event.blocks.start));
    case BrickEvent::Kind::kCommit:
      return fmt::format("commit of {} ranges", event.ranges.size());
    case BrickEvent::Kind::kDeath:
      return fmt::format("brick {} dies{}", event.place, event.wiped ? " and is wiped" : "");
    case BrickEvent::Kind::kMap:
      return fmt::format("map of generation {}", event.map->generation);
  }
  return "";
}

// What the bricks that live have.
template <typename IsDead>
void revive(BrickState& state, const BrickState& alive, IsDead&& is_dead) {
  const auto take = [&](CrashImage& into, const CrashImage& from) {
    for (const BlockAddress block : into.blocks()) {
      if (!is_dead(raw(block))) into.remove(block);
    }
    for (const BlockAddress block : from.blocks()) {
      if (is_dead(raw(block))) continue;
      into.add(block);
      into.copy_from(from, raw(block), kBlockBytes);
    }
  };
  if (state.places == 1) return;
  state.map = alive.map;
  for (size_t part = 0; part < state.places; ++part) {
    if (!is_dead(part * kPlaceBytes)) state.lives[part] = alive.lives[part];
  }
  take(state.visible, alive.visible);
  take(state.stored, alive.stored);
  for (const auto& [into, from] :
       {std::pair(&state.allocated, &alive.allocated), std::pair(&state.freed, &alive.freed)}) {
    std::ranges::copy_if(*from, std::inserter(*into, into->end()), [&](uint64_t block) { return !is_dead(block); });
  }
}

size_t brick_of_commit(const BrickState& state, const BrickEvent& commit) {
  return state.brick_of(commit.place * kPlaceBytes);
}

void land(BrickState& state, const BrickEvent& event, const Landing& landing, bool durable) {
  if (landing.shape == Shape::kNone) return;
  if (landing.shape == Shape::kAll || event.kind != BrickEvent::Kind::kWrite) return apply(state, event, durable);
  if (!state.visible.contains(block_of(event.address))) return;
  for_each_landed(landing, event.bytes.size(), 0, divide_up(event.bytes.size(), landing.grain),
                  [&](uint64_t offset, uint64_t length) {
                    state.visible.write(event.address + offset, std::span(event.bytes).subspan(offset, length));
                  });
}

// Of `write` the words have landed in which it is equal to `torn`. False: that changes nothing, or `torn` is not whole.
bool make_whole(BrickState& state, const BrickEvent& write, const BrickEvent& torn) {
  const auto end_of = [](const BrickEvent& event) { return event.address + event.bytes.size(); };
  const uint64_t from = std::max(write.address, torn.address);
  const uint64_t to = std::min(end_of(write), end_of(torn));
  const BlockAddress first = block_of(torn.address);
  const uint64_t blocks = divide_up(end_of(torn) - raw(first), kBlockBytes);
  if (from >= to || !state.visible.contains_all({first, blocks})) return false;
  const auto bytes_of = [](const BrickEvent& event, uint64_t at, uint64_t length) {
    return std::span(event.bytes).subspan(at - event.address, length);
  };
  const auto is_whole = [&] {
    std::vector<std::byte> found(torn.bytes.size());
    state.visible.read(torn.address, found);
    return found == torn.bytes;
  };
  if (is_whole()) return false;
  bool equal = true;
  for (uint64_t at = from; at < to;) {
    const uint64_t length = std::min(round_down(at, kWord) + kWord, to) - at;
    const auto word = bytes_of(write, at, length);
    if (std::ranges::equal(word, bytes_of(torn, at, length))) {
      state.visible.write(at, word);
    } else {
      equal = false;
    }
    at += length;
  }
  return !equal && is_whole();
}

}  // namespace

bool Landing::covers(uint64_t index, uint64_t grains) const {
  switch (shape) {
    case Shape::kNone:
    case Shape::kAsTorn:
      return false;
    case Shape::kAll:
      return true;
    case Shape::kPrefix:
      return index < count;
    case Shape::kSuffix:
      return index + count >= grains;
    case Shape::kWithout:
      return index != count;
    case Shape::kOnly:
      return index == count;
    case Shape::kEven:
      return index % 2 == 0;
    case Shape::kOdd:
      return index % 2 == 1;
    case Shape::kRandom:
      return (mix(index ^ uint64_t{count} << 32) & 1) != 0;
  }
  return false;
}

std::string Landing::text() const {
  if (shape == Shape::kNone || shape == Shape::kAll || shape == Shape::kAsTorn) return name_of(shape);
  return fmt::format("{} {} of {} bytes", name_of(shape), count, grain);
}

std::string CrashPoint::text() const {
  std::string text = fmt::format("{} dies at tick {}", of == CrashOf::kClient ? "client" : "brick", tick);
  for (const auto& [event, landing] : landings) text += fmt::format("; {}: {}", describe(*event), landing.text());
  if (!blocks.empty()) text += "; " + blocks;
  if (!bricks.empty()) text += "; " + bricks;
  return text;
}

std::vector<Landing> CrashStates::landings_of(uint64_t bytes) {
  std::vector<Landing> landings;
  const uint32_t most = dense_ ? kDensePlaces : kSparsePlaces;
  for (const uint32_t grain : {kLine, kWord}) {
    const uint64_t grains = divide_up(bytes, grain);
    if (grains <= 1) continue;
    for (const uint32_t place : places(grains, most)) {
      landings.push_back({Shape::kPrefix, grain, place});
      landings.push_back({Shape::kSuffix, grain, place});
      landings.push_back({Shape::kWithout, grain, place - 1});
      landings.push_back({Shape::kOnly, grain, place - 1});
    }
    landings.push_back({Shape::kEven, grain, 0});
    landings.push_back({Shape::kOdd, grain, 0});
    for (uint32_t i = 0; i < (dense_ ? kDenseRandoms : kSparseRandoms); ++i) {
      landings.push_back({Shape::kRandom, grain, static_cast<uint32_t>(random_())});
    }
  }
  return landings;
}

void CrashStates::for_each(const Visit& visit) {
  for_each_moment([&](const BrickState& base, uint64_t tick, const InFlight& in_flight) {
    return of_ == CrashOf::kClient ? visit_client(base, tick, in_flight, visit)
                                   : visit_bricks(base, tick, in_flight, visit);
  });
}

void CrashStates::for_each_made_whole(std::span<const BrickEvent* const> torn, const Visit& visit) {
  for_each_moment([&](const BrickState& base, uint64_t tick, const InFlight& in_flight) {
    for (const BrickEvent* const write : in_flight) {
      if (write->kind != BrickEvent::Kind::kWrite) continue;
      for (const BrickEvent* const earlier : torn) {
        BrickState state = base;
        if (!make_whole(state, *write, *earlier)) continue;
        if (!visit(std::move(state), {of_, tick, {{write, Landing{Shape::kAsTorn, kWord, 0}}}, "", ""})) return false;
      }
    }
    return true;
  });
}

void CrashStates::for_each_moment(const VisitMoment& visit) {
  // At each beginning the set of what is under way is largest; the ends of things are in those sets as "landed wholly".
  std::vector<const BrickEvent*> ended;  // by their end
  for (const BrickEvent& event : log_.events) {
    if (event.end != BrickEvent::kNever) ended.push_back(&event);
  }
  std::ranges::sort(ended, {}, &BrickEvent::end);
  BrickState base = log_.before;
  size_t next_end = 0;
  InFlight in_flight;
  const auto advance = [&](uint64_t tick) {
    for (; next_end < ended.size() && ended[next_end]->end < tick; ++next_end) {
      apply(base, *ended[next_end], log_.durable);
      std::erase(in_flight, ended[next_end]);
    }
  };
  for (const BrickEvent& event : log_.events) {
    advance(event.begin);
    in_flight.push_back(&event);
    // More will be under way before anything of this ends.
    const BrickEvent* following = &event + 1;
    const bool last = following == log_.events.data() + log_.events.size();
    const uint64_t first_end = (*std::ranges::min_element(in_flight, {}, &BrickEvent::end))->end;
    if (event.begin < from_ || (!last && following->begin < first_end)) continue;
    if (!visit(base, event.begin, in_flight)) return;
  }
  advance(BrickEvent::kNever);
  visit(base, log_.end, in_flight);
}

bool CrashStates::visit_client(const BrickState& base, uint64_t tick, const InFlight& in_flight, const Visit& visit) {
  const auto go = [&](const std::vector<Landing>& landings) {
    if (!is_chosen()) return true;
    BrickState state = base;
    CrashPoint point{CrashOf::kClient, tick, {}, "", ""};
    for (size_t i = 0; i < in_flight.size(); ++i) {
      if (landings[i].shape == Shape::kNone) continue;
      land(state, *in_flight[i], landings[i], log_.durable);
      point.landings.emplace_back(in_flight[i], landings[i]);
    }
    return visit(std::move(state), point);
  };
  const size_t count = in_flight.size();
  const size_t combined = std::min(count, kMostInFlight);
  for (size_t set = 0; set < size_t{1} << combined; ++set) {
    std::vector<Landing> landings(count);
    for (size_t i = 0; i < count; ++i)
      landings[i].shape = (set >> std::min(i, combined - 1) & 1) != 0 ? Shape::kAll : Shape::kNone;
    if (!go(landings)) return false;
  }
  for (size_t i = 0; i < count; ++i) {
    if (in_flight[i]->kind != BrickEvent::Kind::kWrite) continue;
    for (const Landing& landing : landings_of(in_flight[i]->bytes.size())) {
      for (const Shape others : {Shape::kNone, Shape::kAll}) {
        std::vector<Landing> landings(count, Landing{others, 8, 0});
        landings[i] = landing;
        if (!go(landings)) return false;
        if (count == 1) break;
      }
    }
  }
  return true;
}

// For each range of a commit how it landed. Stages before the one that is under way are whole, those behind it nothing.
std::vector<std::vector<Landing>> CrashStates::commit_landings(const BrickEvent& commit) {
  std::vector<std::vector<Landing>> choices;
  const size_t count = commit.ranges.size();
  std::vector<Landing> done(count);
  size_t first = 0;
  while (first < count) {
    size_t end = first + 1;
    while (end < count && !commit.ranges[end].after_previous) ++end;
    const auto with_stage = [&](auto&& landing_of) {
      std::vector<Landing> choice = done;
      for (size_t i = first; i < end; ++i) choice[i] = landing_of(i);
      choices.push_back(std::move(choice));
    };
    choices.push_back(done);
    for (size_t i = first; i < end && end - first > 1; ++i) {
      with_stage([&](size_t j) { return Landing{j == i ? Shape::kAll : Shape::kNone, kSector, 0}; });
      with_stage([&](size_t j) { return Landing{j == i ? Shape::kNone : Shape::kAll, kSector, 0}; });
    }
    const uint32_t most = dense_ ? 6 : 2;
    for (size_t i = first; i < end; ++i) {
      for (const uint32_t place : places(divide_up(commit.ranges[i].length_bytes, kSector), most)) {
        for (const Shape others : {Shape::kNone, Shape::kAll}) {
          with_stage([&](size_t j) {
            return j == i ? Landing{Shape::kPrefix, kSector, place} : Landing{others, kSector, 0};
          });
        }
      }
    }
    for (const uint32_t grain : {kSector, kLine, kWord}) {
      for (uint32_t i = 0; i < (dense_ ? 4u : 1u); ++i) {
        with_stage([&](size_t) { return Landing{Shape::kRandom, grain, static_cast<uint32_t>(random_())}; });
        // Of one range only the end.
        const size_t range = first + random_() % (end - first);
        const uint64_t grains = divide_up(commit.ranges[range].length_bytes, grain);
        const Landing last{Shape::kSuffix, grain, static_cast<uint32_t>(random_() % grains)};
        with_stage([&](size_t j) { return j == range ? last : Landing{Shape::kAll, kSector, 0}; });
      }
    }
    for (size_t i = first; i < end; ++i) done[i] = Landing{Shape::kAll, kSector, 0};
    first = end;
  }
  choices.push_back(done);
  return choices;
}

bool CrashStates::visit_bricks(const BrickState& base, uint64_t tick, const InFlight& in_flight, const Visit& visit) {
  const uint32_t all = (1u << base.brick_count()) - 1;
  if (!visit_brick(base, base, tick, all, in_flight, visit)) return false;
  if (base.places == 1) return true;
  // What was under way to a brick that lives has landed, or not, or one of the writes in part.
  std::vector<BrickState> living(2, base);
  for (const BrickEvent* event : in_flight) apply(living[0], *event, log_.durable);
  for (const BrickEvent* event : in_flight) {
    if (event->kind != BrickEvent::Kind::kWrite) continue;
    for (const Landing& landing :
         {Landing{Shape::kPrefix, kLine, 1}, Landing{Shape::kRandom, kWord, static_cast<uint32_t>(random_())}}) {
      if (!is_chosen()) continue;
      living.push_back(base);
      land(living.back(), *event, landing, log_.durable);
      if (!dense_) break;
    }
  }
  for (uint32_t dead = 1; dead < all; ++dead) {
    for (const BrickState& alive : living) {
      if (!visit_brick(base, alive, tick, dead, in_flight, visit)) return false;
    }
  }
  return true;
}

bool CrashStates::visit_brick(const BrickState& base, const BrickState& alive, uint64_t tick, uint32_t dead,
                              const InFlight& in_flight, const Visit& visit) {
  // What else is under way may be done already, as far as a commit takes it along.
  BrickState reached = base;
  std::vector<const BrickEvent*> commits;
  for (const BrickEvent* event : in_flight) {
    if (event->kind == BrickEvent::Kind::kCommit && (dead >> brick_of_commit(base, *event) & 1) != 0)
      commits.push_back(event);
    if (event->kind == BrickEvent::Kind::kAlloc || event->kind == BrickEvent::Kind::kFree) apply(reached, *event, true);
  }
  reached.map = alive.map;
  CrashPoint begun{CrashOf::kBrick, tick, {}, "", ""};
  if (base.brick_count() > 1) begun.bricks = fmt::format("of the bricks die {:#b}", dead);
  if (!visit_tables(reached, alive, dead, begun, true, visit)) return false;
  // Each alone, as if the others had not begun.
  for (const BrickEvent* const commit : commits)
    for (const auto& choice : commit_landings(*commit)) {
      if (!is_chosen()) continue;
      BrickState cut = reached;
      CrashPoint point = begun;
      for (size_t i = 0; i < choice.size(); ++i) {
        const CommitRange& range = commit->ranges[i];
        if (choice[i].shape == Shape::kNone) continue;
        land_range(cut, range, choice[i]);
        point.landings.emplace_back(commit, choice[i]);
      }
      BrickState settled = cut;  // the table goes first
      for (const uint64_t block : commit->settled) {
        if (settled.freed.erase(block) > 0) settled.stored.remove(BlockAddress{block});
        settled.allocated.erase(block);
      }
      if (!visit_tables(settled, alive, dead, point, false, visit)) return false;
    }
  return true;
}

// What comes back: `stored`, with each of the blocks that were allocated or freed since or without it.
bool CrashStates::visit_tables(const BrickState& stored, const BrickState& alive, uint32_t dead, CrashPoint point,
                               bool all, const Visit& visit) {
  const auto is_dead = [&](uint64_t block) { return (dead >> stored.brick_of(block) & 1) != 0; };
  std::vector<uint64_t> open;
  std::ranges::copy_if(stored.allocated, std::back_inserter(open), is_dead);
  const size_t born = open.size();
  std::ranges::copy_if(stored.freed, std::back_inserter(open), is_dead);
  const auto go = [&](const char* name, auto&& is_there) {
    if (!is_chosen()) return true;
    BrickState state = stored;
    state.allocated.clear();
    state.freed.clear();
    for (size_t i = 0; i < open.size(); ++i) {
      if (!is_there(i)) state.stored.remove(BlockAddress{open[i]});
    }
    state.visible = state.stored;
    for (size_t part = 0; part < state.places; ++part) state.lives[part] += is_dead(part * kPlaceBytes) ? 1 : 0;
    revive(state, alive, is_dead);
    point.blocks = open.empty() ? "" : fmt::format("{} of {} blocks allocated or freed since", name, open.size());
    return visit(std::move(state), point);
  };
  if (!go("all", [](size_t) { return true; })) return false;
  if (open.empty()) return true;
  if (!go("none", [](size_t) { return false; })) return false;
  if (!go("the new", [&](size_t i) { return i < born; })) return false;
  if (!go("the old", [&](size_t i) { return i >= born; })) return false;
  const uint32_t randoms = all ? (dense_ ? 6 : 2) : 1;
  for (uint32_t r = 0; r < randoms; ++r) {
    const uint64_t seed = random_();
    if (!go("some", [&](size_t i) { return (mix(i ^ seed) & 1) != 0; })) return false;
  }
  if (!all || !dense_) return true;
  for (size_t one = 0; one < open.size(); ++one) {
    if (!go("one", [&](size_t i) { return i == one; }) || !go("all but one", [&](size_t i) { return i != one; }))
      return false;
  }
  return true;
}

}  // namespace brickfs
