// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_store_explorer.h"

#include <algorithm>
#include <utility>

#include "server/store/store_format.h"

namespace brickfs {
namespace {

constexpr size_t kEventsApart = 4;    // of those that are not synced, so many are kept alone, or lost alone
constexpr size_t kRandomStates = 4;   // at each place
constexpr uint64_t kReuseEvery = 16;  // states
constexpr uint64_t kDiskRoom = 5;     // slots, of a disk that is too small

// As a brickd that knew no second copy of the table made it.
DiskImage former_store() {
  StoreHeader header{};
  header.magic = kStoreMagic;
  header.version = kStoreVersion;
  header.block_bytes = kBlockBytes;
  header.uuid = {4711, 4712};
  header.slots_at = store_slots_at(kStoreSlots * kStoreGrowth);
  header = resized_header(header, kStoreSlots);
  DiskImage image;
  image.size_bytes = slots_begin(header) + kStoreSlots * kBlockBytes;
  for (uint64_t sector = 0; sector < kStoreHeaderBytes / kDiskSectorBytes; ++sector) {
    auto bytes = std::make_shared<DiskSector>();
    std::ranges::copy(bytes_of(header).subspan(sector * kDiskSectorBytes, kDiskSectorBytes), bytes->begin());
    image.put(sector, bytes);
  }
  return image;
}

// The last of several pieces for one sector decides, so any of them may be the one that the disk has.
using Keeps = std::function<bool(const DiskPiece&, size_t)>;

std::vector<Keeps> ways_to_lose(const std::vector<DiskPiece>& pending, std::mt19937_64& random) {
  std::vector<Keeps> ways;
  ways.emplace_back([](const DiskPiece&, size_t) { return false; });
  if (pending.empty()) return ways;
  ways.emplace_back([](const DiskPiece&, size_t) { return true; });
  std::vector<size_t> events;
  for (const DiskPiece& piece : pending) {
    if (events.empty() || events.back() != piece.event) events.push_back(piece.event);
  }
  std::ranges::shuffle(events, random);
  for (size_t i = 0; i < std::min(events.size(), kEventsApart); ++i) {
    const size_t event = events[i];
    ways.emplace_back([event](const DiskPiece& piece, size_t) { return piece.event == event; });
    ways.emplace_back([event](const DiskPiece& piece, size_t) { return piece.event != event; });
    ways.emplace_back([event](const DiskPiece& piece, size_t) { return piece.event <= event; });
  }
  for (size_t i = 0; i < kRandomStates; ++i) {
    const uint64_t salt = random() | 1;
    const uint64_t share = 1 + random() % 7;  // of eight
    ways.emplace_back(
        [salt, share](const DiskPiece&, size_t place) { return (((place + 1) * salt) >> 40) % 8 < share; });
  }
  return ways;
}

}  // namespace

// --- running

std::string StoreExplorer::work(CrashDisk& disk, uint64_t slots, StoreHistory& history, bool* stopped) {
  std::string why;
  auto service = open_store_service(disk, kStoreMemoryBlocks, slots, &why);
  if (service == nullptr) return disk.fails_sync < disk.syncs() ? "" : "the brick does not start: " + why;
  StoreWorkload workload(*service, disk, history, random_(), last_stamp_);
  std::string failure = workload.run();
  *stopped = failure.empty() && random_() % 3 == 0;
  if (!*stopped) disk.cut();
  workload.end(*stopped && random_() % 2 == 0);
  if (*stopped) {
    std::array<StampCommit, kStoreVolumesUsed> all;
    for (size_t i = 0; i < kStoreVolumesUsed; ++i) {
      all[i] = history.volumes[i].commit_of_all(history.moment(disk.events()));
      all[i].at_once = true;
    }
    const bool kept = service->stop().ok();
    for (size_t i = 0; i < kStoreVolumesUsed; ++i) {
      all[i].over = history.moment(disk.events());
      all[i].done = kept;
      history.volumes[i].commits.push_back(all[i]);
    }
  }
  service.reset();
  disk.revive();
  return failure;
}

// Opens what a crash left, on which clients go on: what they find holds from now on.
std::string StoreExplorer::begin_again(CrashDisk& disk, uint64_t slots, StoreHistory& next) {
  std::string why;
  const auto service = open_store_service(disk, kStoreMemoryBlocks, slots, &why);
  if (service == nullptr) return "the brick does not start again: " + why;
  const size_t now = next.moment(disk.events());
  for (size_t i = 0; i < kStoreVolumesUsed; ++i) {
    FoundBlocks found;
    uint64_t epoch = 0;
    if (std::string failure = read_volume(*service, i, found, epoch); !failure.empty()) return failure;
    next.volumes[i] = VolumeHistory::that_begins_with(found, epoch, now);
  }
  SpareVolume& spare = next.spare.changes.front().makes;
  if (std::string failure = read_spare(*service, spare); !failure.empty()) return failure;
  disk.cut();  // it writes nothing more
  return {};
}

DiskImage StoreExplorer::random_state(const CrashDisk& disk, size_t* place) {
  *place = random_() % (disk.events() + 1);
  DiskHistory history(disk.first_image());
  for (size_t i = 0; i < *place; ++i) history.apply(disk.log()[i], i);
  const auto ways = ways_to_lose(history.pending(), random_);
  return history.after(ways[random_() % ways.size()]);
}

std::string StoreExplorer::run(uint64_t seed) {
  seed_ = seed;
  random_.seed(seed);
  last_stamp_ = 0;
  const auto settings = [&](CrashDisk& disk) {
    disk.interleave = options_.interleave;
    if (random_() % 3 == 0) disk.fails_sync = disk.syncs() + random_() % 30;
  };
  CrashDisk disk(random_() % 4 == 0 ? former_store() : DiskImage());
  settings(disk);
  if (random_() % 4 == 0) disk.room_bytes = kDiskRoom * kBlockBytes;
  options_.on_run(seed);
  StoreHistory first;
  bool stopped = false;
  if (std::string why = work(disk, kStoreSlots, first, &stopped); !why.empty()) return why;
  if (std::string why = explore(disk,
                                [&](size_t place) {
                                  return Promise{&first, StoreHistory::end_of(place)};
                                });
      !why.empty())
    return why;

  // A process that dies leaves what it wrote; a machine does not. Then another brick, other clients, and another power
  // loss.
  const bool power_lost = random_() % 2 == 0;
  size_t lost_at = kNever;
  std::optional<CrashDisk> other;
  if (power_lost) other.emplace(random_state(disk, &lost_at));
  CrashDisk& second_disk = power_lost ? *other : disk;
  const size_t first_place = power_lost ? 0 : disk.events();
  second_disk.fails_sync = UINT64_MAX;
  second_disk.interleave = options_.interleave;
  options_.on_run(seed + 1);
  StoreHistory second;
  const uint64_t slots = random_() % 2 == 0 ? kStoreSlots : kStoreSlotsGrown;
  if (std::string why = begin_again(second_disk, slots, second); !why.empty()) return "after a crash: " + why;
  second_disk.revive();
  const size_t begun = second_disk.events();
  settings(second_disk);
  if (std::string why = work(second_disk, slots, second, &stopped); !why.empty()) return "after a crash: " + why;
  return explore(second_disk, [&](size_t place) {
    if (place >= begun) return Promise{&second, StoreHistory::end_of(place)};
    if (place < first_place) return Promise{};
    return Promise{&first, StoreHistory::end_of(power_lost ? lost_at : place)};
  });
}

// --- exploring

std::string StoreExplorer::explore(const CrashDisk& disk, const PromiseAt& promise) {
  DiskHistory history(disk.first_image());
  seen_.clear();
  seen_for_ = {};
  for (size_t place = 0; !options_.time_is_up(); ++place) {
    if (promise(place).history != nullptr) {
      if (std::string why = explore_place(history, promise(place)); !why.empty()) {
        return "power lost at event " + std::to_string(place) + " of " + std::to_string(disk.events()) + ": " + why;
      }
    }
    if (place == disk.events()) break;
    history.apply(disk.log()[place], place);
  }
  return {};
}

std::string StoreExplorer::explore_place(const DiskHistory& disk, const Promise& promise) {
  const auto differs = [&](const VolumeHistory& volume) { return volume.changes_between(seen_for_.at, promise.at); };
  if (seen_for_.history != promise.history || std::ranges::any_of(promise.history->volumes, differs) ||
      promise.history->spare.changes_between(seen_for_.at, promise.at)) {
    seen_.clear();
  }
  seen_for_ = promise;
  for (const Keeps& keeps : ways_to_lose(disk.pending(), random_)) {
    const DiskImage image = disk.after(keeps);
    if (!seen_.insert(image.hash()).second) {
      ++repeats_;
      continue;
    }
    if (std::string why = judge(image, promise); !why.empty()) return why;
  }
  return {};
}

// Of a store's two tables one sector is not what was written: a bit is another, or all is gone. Of the headers only
// where both are as they were written.
void StoreExplorer::damage(DiskImage& image) {
  StoreHeader header{};
  image.read(0, std::as_writable_bytes(std::span(&header, 1)));
  const uint64_t copy_at = copy_begins(header);
  if ((header.incompat_features & kStoreCopied) == 0 || header.checksum != store_checksum(header, 0)) return;
  StoreHeader copy{};
  image.read(copy_at, std::as_writable_bytes(std::span(&copy, 1)));
  const bool same_headers = std::ranges::equal(bytes_of(header), bytes_of(copy));
  const uint64_t at = random_() % 2 == 0 ? 0 : copy_at;
  const uint64_t first = (at + (same_headers ? 0 : kStoreHeaderBytes)) / kDiskSectorBytes;
  const uint64_t end = (at + kStoreEntriesAt + header.slots * sizeof(StoreEntry)) / kDiskSectorBytes + 1;
  std::vector<uint64_t> written;
  for (auto place = image.sectors.lower_bound(first); place != image.sectors.end() && place->first < end; ++place) {
    written.push_back(place->first);
  }
  if (written.empty()) return;
  const uint64_t sector = written[random_() % written.size()];
  auto bytes = std::make_shared<DiskSector>(*image.at(sector));
  (*bytes)[random_() % kDiskSectorBytes] ^= std::byte{1} << random_() % 8;
  image.put(sector, random_() % 4 == 0 ? nullptr : DiskSectorRef(bytes));
}

std::string StoreExplorer::judge(const DiskImage& image, const Promise& promise) {
  options_.on_run(0);
  ++states_;
  DiskImage damaged = image;
  if (random_() % 2 == 0) damage(damaged);
  CrashDisk disk(std::move(damaged));
  disk.recording = false;
  std::string why;
  {
    // It may have been made, and grown, or not; to grow it is possible in any case.
    const uint64_t as_it_is = disk.seen().size_bytes > kStoreHeaderBytes ? 0 : kStoreSlots;
    const auto service = open_store_service(disk, 1, states_ % 2 == 0 ? as_it_is : kStoreSlotsGrown, &why);
    if (service == nullptr) return "the store does not open: " + why;
    for (size_t i = 0; i < kStoreVolumesUsed; ++i) {
      FoundBlocks found;
      uint64_t epoch = 0;
      why = read_volume(*service, i, found, epoch);
      if (why.empty()) why = promise.history->volumes[i].judge(found, promise.at);
      if (why.empty()) why = promise.history->volumes[i].judge_epoch(epoch, promise.at);
      if (!why.empty()) return "volume " + std::string(kStoreVolumeNames[i]) + ": " + why;
    }
    SpareVolume spare;
    why = read_spare(*service, spare);
    if (why.empty()) why = promise.history->spare.judge(spare, promise.at);
    if (!why.empty()) return why;
  }
  return states_ % kReuseEvery == 0 ? judge_reuse(disk) : "";
}

// New blocks, on all the slots that are free, are zeros in the store too.
std::string StoreExplorer::judge_reuse(CrashDisk& disk) {
  OpenRequest request;
  request.client = ClientId{98};
  constexpr BlockAddress kFirst = block_after(BlockAddress{0}, 100);
  std::string why;
  uint64_t made = 0;
  for (const bool filled : {false, true}) {
    const auto service = open_store_service(disk, 1, 0, &why);
    if (service == nullptr) return "the store does not open again: " + why;
    const auto session = service->open_session(
        request, [] {}, nullptr);
    if (!session.ok()) return "no session on what was recovered";
    while (!filled && (*session)->alloc({block_after(kFirst, made), 1}).ok()) ++made;
    for (uint64_t i = 0; filled && i < made; ++i) {
      const auto handles = (*session)->map({block_after(kFirst, i), 1}, Access::kRead);
      if (!handles.ok()) return "a new block cannot be mapped";
      const auto not_zero = [](std::byte byte) { return byte != std::byte{0}; };
      if (std::ranges::any_of(
              (*session)
                  ->pin(handles->front().remote_key, handles->front().remote_address, kBlockBytes, Access::kRead)
                  ->bytes(),
              not_zero)) {
        return "a new block has bytes of an old one";
      }
      static_cast<void>((*session)->unmap({block_after(kFirst, i), 1}));
    }
  }
  return {};
}

}  // namespace brickfs
