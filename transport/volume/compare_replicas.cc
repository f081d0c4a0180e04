// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/compare_replicas.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "transport/base/thread.h"
#include "transport/brick/block_set.h"
#include "transport/volume/set_membership.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;

class Comparing {
 public:
  Comparing(VolumeSet& set, const CompareOptions& options) : set_(set), options_(options) {}

  Result<ReplicaComparison> run();

 private:
  struct Copy {
    std::string source;
    VolumeClient* client;
    BlockSet blocks;
    std::vector<std::byte> bytes = std::vector<std::byte>(kBlockBytes);  // of the block that is compared
    Status status;
  };
  struct Place {
    std::vector<Copy> copies;
    BlockSet blocks;       // that any copy has
    BlockSet passed_over;  // may differ
  };

  Result<Place> look_at(size_t number);
  void note_absent(size_t number, const Place& place);
  Status compare(size_t number, Place& place);
  Status compare_block(size_t number, Place& place, BlockAddress block);
  void judge(size_t number, const Copy& first, const Copy& other, BlockAddress block);
  void note(ReplicaDifference difference);
  void keep_pace() const;

  VolumeSet& set_;
  const CompareOptions& options_;
  const Clock::time_point began_ = Clock::now();
  ReplicaComparison result_;
  uint64_t done_ = 0;  // blocks
  uint64_t all_ = 0;
};

Result<ReplicaComparison> Comparing::run() {
  std::vector<Place> places;
  for (size_t number = 0; number < set_.places(); ++number) {
    places.push_back(TRY(look_at(number)));
    note_absent(number, places.back());
    if (places.back().copies.size() > 1) all_ += places.back().blocks.count();
  }
  for (size_t number = 0; number < places.size(); ++number) TRY(compare(number, places[number]));
  return std::move(result_);
}

Result<Comparing::Place> Comparing::look_at(size_t number) {
  Place place;
  const bool unclean = set_.is_unclean();
  for (const auto& [source, client] : set_.mirror(number).copies()) {
    Copy copy;
    copy.source = source;
    copy.client = client;
    const auto listed = TRY(client->list());
    copy.blocks = BlockSet{listed};
    if (unclean && contains_block(listed, first_block_of(number).start)) {
      place.passed_over.insert(TRY(read_activity_log(*client, number)));
    }
    place.blocks.insert(copy.blocks);
    place.copies.push_back(std::move(copy));
  }
  if (!unclean) return place;
  place.passed_over.insert(first_block_of(number));
  for (const Copy& copy : place.copies) place.passed_over.insert(place.blocks.without(copy.blocks));
  place.passed_over = place.passed_over.intersection(place.blocks);
  return place;
}

void Comparing::note_absent(size_t number, const Place& place) {
  const auto known = set_.known_map();
  if (!known) return;
  for (const MapReplica& replica : known->map.places[number].replicas) {
    if (replica.state != ReplicaState::kInSync) continue;
    if (std::ranges::find(place.copies, replica.source, &Copy::source) == place.copies.end())
      result_.not_there.push_back(replica.source);
  }
}

Status Comparing::compare(size_t number, Place& place) {
  if (place.copies.size() < 2) {
    result_.alone += 1;
    return {};
  }
  Status status;
  place.blocks.for_each(1, [&](BlockRange block) {
    if (options_.progress) options_.progress("blocks compared", done_, all_);
    done_ += 1;
    if (options_.stopped && options_.stopped()) {
      status = Error(EINTR, "a comparison");
    } else if (place.passed_over.contains(block)) {
      result_.passed_over += 1;
    } else {
      status = compare_block(number, place, block.start);
      keep_pace();
    }
    return status.ok();
  });
  return status;
}

Status Comparing::compare_block(size_t number, Place& place, BlockAddress block) {
  std::vector<Copy*> having;
  for (Copy& copy : place.copies) {
    if (copy.blocks.contains({block, 1})) having.push_back(&copy);
  }
  Copy& first = *having.front();
  std::vector<Thread> threads;
  const auto read = [block](Copy& copy) {
    const Piece piece{raw(block), {{copy.bytes.data(), static_cast<uint32_t>(kBlockBytes), 0}}};
    copy.status = copy.client->read(std::span(&piece, 1));
  };
  for (size_t i = 1; i < having.size(); ++i) threads.push_back(Thread([&read, copy = having[i]] { read(*copy); }));
  read(first);
  for (Thread& thread : threads) thread.join();
  for (const Copy* copy : having) TRY(copy->status);
  result_.blocks += 1;
  for (const Copy& copy : place.copies) {
    if (!copy.blocks.contains({block, 1})) note({number, block, raw(block), 0, first.source, copy.source});
  }
  for (size_t i = 1; i < having.size(); ++i) judge(number, first, *having[i], block);
  return {};
}

void Comparing::judge(size_t number, const Copy& first, const Copy& other, BlockAddress block) {
  const bool has_own = block == first_block_of(number).start;
  uint64_t differing = 0;
  uint64_t at = 0;
  const auto count = [&](uint64_t from, uint64_t to) {
    if (std::memcmp(&first.bytes[from], &other.bytes[from], to - from) == 0) return;
    for (uint64_t i = from; i < to; ++i) {
      if (first.bytes[i] == other.bytes[i]) continue;
      if (differing == 0) at = i;
      differing += 1;
    }
  };
  count(0, has_own ? kReplicaAreaOffset : kBlockBytes);
  if (has_own) count(kCommonAgainOffset, kBlockBytes);
  if (differing > 0) note({number, block, raw(block) + at, differing, first.source, other.source});
}

void Comparing::note(ReplicaDifference difference) {
  result_.differing += 1;
  if (result_.differences.size() < ReplicaComparison::kKept) result_.differences.push_back(std::move(difference));
}

void Comparing::keep_pace() const {
  if (options_.bytes_per_second == 0) return;
  const auto bytes = static_cast<double>(result_.blocks * kBlockBytes);
  const std::chrono::duration<double> due(bytes / static_cast<double>(options_.bytes_per_second));
  std::this_thread::sleep_until(began_ + std::chrono::duration_cast<Clock::duration>(due));
}

}  // namespace

Result<ReplicaComparison> compare_replicas(VolumeSet& set, const CompareOptions& options) {
  return Comparing(set, options).run();
}

}  // namespace brickfs
