// SPDX-License-Identifier: Apache-2.0
#include "tests/support/recording_state.h"

#include <algorithm>
#include <random>

#include "transport/base/check.h"

namespace brickfs {
namespace {

void alloc_in(BrickState& state, BlockRange blocks, bool durable) {
  for (uint64_t i = 0; i < blocks.count; ++i) {
    const BlockAddress block = block_after(blocks.start, i);
    state.visible.add(block);
    if (!durable) continue;
    state.stored.add(block);
    state.allocated.insert(raw(block));
    state.freed.erase(raw(block));
  }
}

void free_in(BrickState& state, BlockRange blocks, bool durable) {
  for (uint64_t i = 0; i < blocks.count; ++i) {
    const BlockAddress block = block_after(blocks.start, i);
    state.visible.remove(block);
    if (!durable) continue;
    // One that was never durable may still have become so in the meantime.
    state.freed.insert(raw(block));
    state.allocated.erase(raw(block));
  }
}

void commit_in(BrickState& state, const BrickEvent& commit) {
  for (const uint64_t block : commit.settled) {
    if (state.freed.erase(block) > 0) state.stored.remove(BlockAddress{block});
    state.allocated.erase(block);
  }
  for (const CommitRange& range : commit.ranges)
    state.stored.copy_from(state.visible, range.address, range.length_bytes);
}

// What decides about a mount.
uint64_t digest_of(const SetMap& map) {
  uint64_t digest = map.generation * 4 + (map.tail_lost ? 1 : 0) + (map.lease_wait ? 2 : 0);
  if (map.holder) digest = (digest * 31 + map.holder->epoch) * 2 + (map.holder->let_go ? 1 : 0);
  for (const MapPlace& place : map.places) {
    for (const MapReplica& replica : place.replicas) {
      digest = (digest * 31 + static_cast<uint64_t>(replica.state)) * 31 + replica.since;
      digest = digest * 31 + static_cast<uint64_t>(replica.boot);
    }
  }
  return digest;
}

}  // namespace

uint64_t BrickState::suspect_blocks(size_t place) const {
  uint64_t suspects = 0;
  for (const BlockAddress block : visible.blocks()) {
    if (place_of(raw(block)) != place) continue;
    if (!stored.contains(block) || stored.digest(block) != visible.digest(block)) ++suspects;
  }
  return suspects;
}

uint64_t BrickState::digest() const {
  uint64_t digest = visible.digest() * 31 + stored.digest();
  for (const uint64_t block : allocated) digest = digest * 31 + block + 1;
  for (const uint64_t block : freed) digest = digest * 37 + block + 2;
  for (const uint64_t life : lives) digest = digest * 41 + life;
  return map == nullptr ? digest : digest * 43 + digest_of(*map);
}

void apply(BrickState& state, const BrickEvent& event, bool durable) {
  switch (event.kind) {
    case BrickEvent::Kind::kWrite:
      // Its block may be gone: then nobody will miss it.
      if (state.visible.contains_all({block_of(event.address), 1})) state.visible.write(event.address, event.bytes);
      return;
    case BrickEvent::Kind::kAlloc:
      return alloc_in(state, event.blocks, durable);
    case BrickEvent::Kind::kFree:
      return free_in(state, event.blocks, durable);
    case BrickEvent::Kind::kCommit:
      if (durable) commit_in(state, event);
      return;
    case BrickEvent::Kind::kDeath:
      return let_die(state, event.place, durable, event.wiped, event.seed);
    case BrickEvent::Kind::kMap:
      state.map = event.map;
      return;
  }
}

void let_die(BrickState& state, size_t brick, bool durable, bool wiped, uint64_t seed) {
  std::minstd_rand random(static_cast<uint32_t>(seed | 1));
  const auto is_there = [&](uint64_t block) { return state.brick_of(block) == brick; };
  for (const BlockAddress block : state.visible.blocks()) {
    if (is_there(raw(block))) state.visible.remove(block);
  }
  for (std::set<uint64_t>* open : {&state.allocated, &state.freed}) {
    for (const uint64_t block : *open) {
      if (is_there(block) && random() % 2 == 0) state.stored.remove(BlockAddress{block});
    }
    std::erase_if(*open, is_there);
  }
  for (const BlockAddress block : state.stored.blocks()) {
    if (!is_there(raw(block))) continue;
    if (wiped || !durable) {
      state.stored.remove(block);
      continue;
    }
    state.visible.add(block);
    state.visible.copy_from(state.stored, raw(block), kBlockBytes);
  }
  for (size_t part = 0; part < state.places; ++part) {
    if (is_there(part * kPlaceBytes)) ++state.lives[part];
  }
}

const MapReplica& replica_of(const BrickState& state, size_t part) {
  for (const MapPlace& place : state.map->places) {
    if (part < place.replicas.size()) return place.replicas[part];
    part -= place.replicas.size();
  }
  CHECK(false);
}

}  // namespace brickfs
