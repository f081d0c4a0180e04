// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_store_workload.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "transport/base/thread.h"

namespace brickfs {
namespace {

constexpr size_t kOperations = 80;  // of each actor
constexpr size_t kBlocksOfActor = 2;
constexpr size_t kAdministrations = 10;
constexpr uint64_t kSpareBlocks = 3;
constexpr const char* kSpareVolume = "spare";
constexpr uint64_t kSpareClient = 7;
constexpr BlockRange block_range(size_t block) { return {block_after(BlockAddress{0}, block), 1}; }

void put_stamp(std::span<std::byte> sector, uint64_t value) {
  for (size_t i = 0; i < kStampBytes; i += sizeof(value)) std::memcpy(&sector[i], &value, sizeof(value));
}

uint64_t stamp_at(std::span<const std::byte> sector) {
  uint64_t value = 0;
  std::memcpy(&value, sector.data(), sizeof(value));
  std::array<std::byte, kStampBytes> whole;
  put_stamp(whole, value);
  return std::memcmp(whole.data(), sector.data(), kStampBytes) == 0 ? value : kNoStamp;
}

bool all_zeros(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// Bytes that are no stamp's make the stamp before them none.
std::array<uint64_t, kStamps> stamps_of(std::span<const std::byte> block) {
  std::array<uint64_t, kStamps> stamps{};
  for (size_t i = 0; i < kStamps; ++i) {
    const uint64_t end = i + 1 < kStamps ? kStampOffsets[i + 1] : kBlockBytes;
    const uint64_t behind = kStampOffsets[i] + kStampBytes;
    stamps[i] = all_zeros(block.subspan(behind, end - behind)) ? stamp_at(block.subspan(kStampOffsets[i], kStampBytes))
                                                               : kNoStamp;
  }
  return stamps;
}

OpenRequest request_of(size_t volume, uint64_t client, OpenMode mode) {
  OpenRequest request;
  request.volume = kStoreVolumeNames[volume];
  request.client = ClientId{client};
  request.client_name = "client " + std::to_string(client);
  request.mode = mode;
  return request;
}

}  // namespace

const std::array<const char*, kStoreVolumesUsed> kStoreVolumeNames = {"default", "other"};

std::unique_ptr<BrickService> open_store_service(CrashDisk& disk, uint64_t memory_blocks, uint64_t slots,
                                                 std::string* why) {
  BrickConfig config;
  config.memory_bytes = memory_blocks * kBlockBytes;
  config.store_path = "disk";
  config.store_bytes = slots * kBlockBytes;
  config.volumes = {{.name = kStoreVolumeNames[1], .quota_bytes = {}}};
  auto service = BrickService::open(config, std::make_unique<CrashDevice>(disk), why);
  return service.ok() ? *std::move(service) : nullptr;
}

std::string read_volume(BrickService& service, size_t volume, FoundBlocks& found, uint64_t& epoch) {
  found = {};
  const auto session = service.open_session(
      request_of(volume, 99, OpenMode::kReadOnly), [] {}, nullptr);
  if (!session.ok()) return "a volume cannot be opened";
  epoch = static_cast<uint64_t>((*session)->description().epoch) - 1;
  const auto page = (*session)->list(BlockAddress{0});
  if (!page.ok()) return "a volume cannot be listed";
  for (const BlockRange& extent : page->extents) {
    for (uint64_t i = 0; i < extent.count; ++i) {
      const BlockAddress address = block_after(extent.start, i);
      const uint64_t block = raw(address) / kBlockBytes;
      if (block >= kStoreBlocksUsed) return "a block that nobody knows";
      const auto handles = (*session)->map({address, 1}, Access::kRead);
      if (!handles.ok()) return "block " + std::to_string(block) + " cannot be read";
      found[block].exists = true;
      found[block].stamps =
          stamps_of((*session)
                        ->pin(handles->front().remote_key, handles->front().remote_address, kBlockBytes, Access::kRead)
                        ->bytes());
      if (!(*session)->unmap({address, 1}).ok()) return "a block cannot be unmapped";
    }
  }
  return {};
}

std::string read_spare(BrickService& service, SpareVolume& found) {
  const AdminAnswer all = service.administer({});
  if (all.status != 0) return "the volumes cannot be listed";
  found = {};
  uint64_t used = 0;
  for (const VolumeStatus& volume : all.volumes) {
    used += volume.used_blocks;
    if (volume.name == kSpareVolume) found = {true, volume.size_blocks.value_or(0), volume.used_blocks};
  }
  if (all.volumes.size() != kStoreVolumesUsed + (found.exists ? 1 : 0)) return "there are other volumes";
  const auto session = service.open_session(
      request_of(0, 97, OpenMode::kObserve), [] {}, nullptr);
  const auto stat = session.ok() ? (*session)->stat() : session.error();
  if (!stat.ok()) return "the brick does not say what is used";
  return stat->brick_used_blocks == used ? "" : "there are blocks of no volume";
}

// --- one who holds a volume

class StoreWorkload::Client {
 public:
  Client(size_t volume, SessionPtr session) : volume_(volume), session_(std::move(session)) {}
  size_t volume() const { return volume_; }
  ServerSession& session() { return *session_; }
  void end(bool close) {
    if (close) static_cast<void>(session_->close());
    session_.reset();
  }

 private:
  const size_t volume_;
  SessionPtr session_;
};

// One of his threads, with blocks of its own.
class StoreWorkload::Actor {
 public:
  Actor(StoreWorkload& all, Client& client, size_t first_block)
      : all_(all),
        client_(client),
        history_(all.history_.volumes[client.volume()]),
        first_(first_block),
        random_(all.random_()) {}
  void run() {
    for (size_t i = 0; i < kOperations && !over_; ++i) step();
  }

 private:
  size_t now() const { return all_.now(); }
  void step();
  void alloc(size_t block);
  void free(size_t block);
  void map(size_t block);
  void write(size_t block);
  void unmap(size_t block);
  void commit();
  void add_ranges(size_t block, std::vector<CommitRange>& ranges, StampCommit& commit, uint32_t& round);
  // True: go on. A session that has ended ends the actor; a store that fails leaves the block alone from then on.
  bool answered(size_t block, const Status& status);
  const BlockLife& life(size_t block) const { return history_.blocks[block].back(); }

  StoreWorkload& all_;
  Client& client_;
  VolumeHistory& history_;
  const size_t first_;
  std::mt19937_64 random_;
  std::array<std::optional<Handle>, kStoreBlocksUsed> mapped_;
  std::array<bool, kStoreBlocksUsed> left_alone_{};
  bool over_ = false;
};

bool StoreWorkload::Actor::answered(size_t block, const Status& status) {
  if (status.ok()) return true;
  if (status.error().is(ESTALE)) {
    over_ = true;
  } else if (status.error().is(EIO)) {
    left_alone_[block] = true;
  } else if (!status.error().is(ENOSPC) && !status.error().is(ENOMEM)) {
    all_.fail("a call answers " + std::string(std::strerror(status.code())));
  }
  return false;
}

void StoreWorkload::Actor::step() {
  const size_t block = first_ + random_() % kBlocksOfActor;
  if (random_() % 8 == 0) return commit();
  if (left_alone_[block]) return;
  if (!history_.exists(block)) return alloc(block);
  switch (random_() % 8) {
    case 0:
      return free(block);
    case 1:
      return unmap(block);
    default:
      return mapped_[block] ? write(block) : map(block);
  }
}

void StoreWorkload::Actor::alloc(size_t block) {
  auto& lives = history_.blocks[block];
  lives.push_back({.alloc_began = now(), .writes = {}});
  const size_t mine = lives.size() - 1;
  const Status made = client_.session().alloc(block_range(block));
  if (made.ok()) {
    lives[mine].alloc_ended = now();
  } else if (made.error().is(ESTALE)) {
    lives.pop_back();
  } else {  // nobody knows
    lives[mine].free_began = lives[mine].alloc_began;
  }
  answered(block, made);
}

void StoreWorkload::Actor::free(size_t block) {
  BlockLife& mine = history_.blocks[block].back();
  mine.free_began = now();
  history_.note_stored(block, now());
  mapped_[block].reset();
  const Status freed = client_.session().free(block_range(block));
  if (freed.ok()) mine.free_ended = now();
  if (!freed.ok() && freed.error().is(ESTALE)) mine.free_began = kNever;
  if (!freed.ok() && freed.error().is(ENOSPC)) all_.fail("freeing needs room");
  answered(block, freed);
}

void StoreWorkload::Actor::map(size_t block) {
  const auto handles = client_.session().map(block_range(block), Access::kReadWrite);
  if (!handles.ok()) {
    if (handles.error().is(ENOMEM)) unmap(first_ + random_() % kBlocksOfActor);
    answered(block, handles.error());
    return;
  }
  const auto pin = client_.session().pin(handles->front().remote_key, handles->front().remote_address, kBlockBytes,
                                         Access::kReadWrite);
  if (!pin.ok()) return;
  mapped_[block] = handles->front();
  const auto found = stamps_of(pin->bytes());
  for (size_t stamp = 0; stamp < kStamps; ++stamp) {
    const auto& writes = life(block).writes[stamp];
    if (found[stamp] != (writes.empty() ? 0 : writes.back().value)) {
      all_.fail("block " + std::to_string(block) + " reads other bytes than were written");
    }
  }
}

void StoreWorkload::Actor::write(size_t block) {
  const size_t stamp = random_() % kStamps;
  const Handle& handle = *mapped_[block];
  const auto pin = client_.session().pin(handle.remote_key, handle.remote_address + kStampOffsets[stamp], kStampBytes,
                                         Access::kReadWrite);
  if (!pin.ok()) {
    over_ = true;
    return;
  }
  put_stamp(pin->bytes(), ++all_.last_stamp_);
  history_.blocks[block].back().writes[stamp].push_back({.value = all_.last_stamp_, .at = now()});
  if (random_() % 2 == 0) write(block);
}

void StoreWorkload::Actor::unmap(size_t block) {
  if (!mapped_[block]) return;
  mapped_[block].reset();
  history_.note_stored(block, now());
  answered(block, client_.session().unmap(block_range(block)));
}

void StoreWorkload::Actor::add_ranges(size_t block, std::vector<CommitRange>& ranges, StampCommit& commit,
                                      uint32_t& round) {
  const auto add = [&](uint64_t offset, uint64_t length, size_t first_stamp, size_t end_stamp) {
    const bool behind = !ranges.empty() && random_() % 2 == 0;
    if (behind) ++round;
    ranges.push_back({block * kBlockBytes + offset, length, behind});
    for (size_t stamp = first_stamp; stamp < end_stamp; ++stamp) {
      commit.named.push_back(
          {block, history_.blocks[block].size() - 1, stamp, life(block).writes[stamp].size(), round});
    }
  };
  if (random_() % 3 == 0) return add(0, kBlockBytes, 0, kStamps);
  for (size_t stamp = 0; stamp < kStamps; ++stamp) {
    if (random_() % 2 == 0) add(kStampOffsets[stamp], kStampBytes, stamp, stamp + 1);
  }
}

void StoreWorkload::Actor::commit() {
  std::vector<CommitRange> ranges;
  StampCommit commit{.began = now(), .named = {}};
  uint32_t round = 0;
  const size_t other = random_() % kBlocksOfActor;  // goes first
  for (const size_t block : {first_ + other, first_ + 1 - other}) {
    if (history_.exists(block) && !left_alone_[block] && random_() % 4 != 0) add_ranges(block, ranges, commit, round);
  }
  history_.commits.push_back(commit);
  const size_t mine = history_.commits.size() - 1;
  const Status committed = client_.session().commit(ranges);
  history_.commits[mine].over = now();
  history_.commits[mine].done = committed.ok();
  if (committed.ok()) return;
  if (committed.error().is(ESTALE)) over_ = true;
  if (committed.error().is(ENOSPC)) all_.fail("a commit needs room that was not reserved");
}

// --- all of them

StoreWorkload::StoreWorkload(BrickService& service, CrashDisk& disk, StoreHistory& history, uint64_t seed,
                             uint64_t& last_stamp)
    : service_(service), disk_(disk), history_(history), random_(seed), last_stamp_(last_stamp) {}

StoreWorkload::~StoreWorkload() = default;

void StoreWorkload::fail(std::string why) {
  if (failure_.empty()) failure_ = std::move(why);
}

void StoreWorkload::run_actors(size_t volume, size_t client, size_t actors) {
  auto session = service_.open_session(
      request_of(volume, client, OpenMode::kExclusive), [] {}, nullptr);
  if (!session.ok()) return;  // the store fails
  history_.volumes[volume].epochs.emplace_back(now(), static_cast<uint64_t>((*session)->description().epoch));
  clients_.push_back(std::make_unique<Client>(volume, *std::move(session)));
  Client& owner = *clients_.back();
  std::vector<Thread> threads;
  for (size_t i = 0; i < actors; ++i) {
    threads.emplace_back([this, &owner, i] { Actor(*this, owner, i * kBlocksOfActor).run(); });
  }
  for (Thread& thread : threads) thread.join();
}

// By the death of who had it, or by force. What he had written is committed, whole block by whole block.
std::string StoreWorkload::take_over() {
  VolumeHistory& history = history_.volumes[0];
  OpenRequest request = request_of(0, 3, OpenMode::kExclusive);
  request.steal = true;
  auto session = service_.open_session(
      request, [] {}, nullptr);
  if (!session.ok()) return {};
  history.epochs.emplace_back(now(), static_cast<uint64_t>((*session)->description().epoch));
  StampCommit commit = history.commit_of_all(now());
  std::vector<CommitRange> ranges;
  for (size_t block = 0; block < kStoreBlocksUsed; ++block) {
    if (history.exists(block) && history.blocks[block].back().alloc_ended != kNever)
      ranges.push_back({block * kBlockBytes, kBlockBytes, false});
  }
  clients_.push_back(std::make_unique<Client>(0, *std::move(session)));
  history.commits.push_back(commit);
  const size_t mine = history.commits.size() - 1;
  const Status committed = clients_.back()->session().commit(ranges);
  history.commits[mine].over = now();
  history.commits[mine].done = committed.ok();
  if (committed.ok() || committed.error().is(EIO)) return {};
  return "the taker cannot commit: " + std::string(std::strerror(committed.code()));
}

// True: go on. `refusal`: what he is to be told; 0: nothing.
bool StoreWorkload::ask(const AdminRequest& request, const SpareVolume& makes, int refusal) {
  auto& changes = history_.spare.changes;
  const size_t mine = changes.size();
  if (refusal == 0) changes.push_back({.began = now(), .ended = kNever, .makes = makes});
  const AdminAnswer answer = service_.administer(request);
  if (answer.status == EIO) return false;
  if (answer.status != refusal) {
    fail("an administrator is told " + std::string(std::strerror(answer.status)));
    return false;
  }
  if (refusal == 0) changes[mine].ended = now();
  return true;
}

// One block more, for good.
bool StoreWorkload::fill_spare() {
  SpareVolume makes = history_.spare.last();
  if (of_spare_ == nullptr) {
    OpenRequest request = request_of(0, kSpareClient, OpenMode::kExclusive);
    request.volume = kSpareVolume;
    auto session = service_.open_session(
        request, [] {}, nullptr);
    if (!session.ok()) return false;
    of_spare_ = *std::move(session);
  }
  const BlockRange block = block_range(makes.used_blocks++);
  auto& changes = history_.spare.changes;
  changes.push_back({.began = now(), .ended = kNever, .makes = makes});
  const Status made = of_spare_->alloc(block);
  if (!made.ok() && (made.error().is(ENOSPC) || made.error().is(EDQUOT))) {
    const bool may_be_full = made.error().is(ENOSPC) || makes.used_blocks > makes.size_blocks;
    if (!may_be_full) fail("a block within its size is too much for a volume");
    changes.pop_back();
    return true;
  }
  if (!made.ok() || !of_spare_->commit({}).ok()) return false;
  changes.back().ended = now();
  if (makes.used_blocks > makes.size_blocks) fail("a volume has more blocks than its size");
  return true;
}

int StoreWorkload::refusal_of_removal() {
  for (const VolumeStatus& volume : service_.administer({}).volumes) {
    if (volume.name == kSpareVolume) return volume.holder ? EBUSY : volume.used_blocks > 0 ? ENOTEMPTY : 0;
  }
  return ENOENT;
}

bool StoreWorkload::administer_once(std::mt19937_64& random) {
  const SpareVolume now = history_.spare.last();
  AdminRequest request{
      .action = AdminAction::kCreate, .volume = kSpareVolume, .size_blocks = 1 + random() % kSpareBlocks};
  if (!now.exists) return ask(request, {true, *request.size_blocks, 0}, 0);
  switch (random() % 8) {
    case 0:
      return ask(request, {}, EEXIST);
    case 1:
      request.action = AdminAction::kResize;
      return ask(request, {true, *request.size_blocks, now.used_blocks},
                 *request.size_blocks < now.used_blocks ? EDQUOT : 0);
    case 2:
    case 3:
      request = {.action = AdminAction::kRemove, .volume = kSpareVolume, .size_blocks = {}, .force = random() % 3 != 0};
      if (!ask(request, {}, request.force ? 0 : refusal_of_removal())) return false;
      if (!history_.spare.last().exists) of_spare_.reset();
      return true;
    default:
      return fill_spare();
  }
}

void StoreWorkload::administer(uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < kAdministrations && failure_.empty(); ++i) {
    for (uint64_t pause = random() % 40; pause > 0; --pause) disk_.interleave();
    if (!administer_once(random)) return;
  }
}

std::string StoreWorkload::run() {
  std::vector<Thread> threads;
  threads.emplace_back([this, seed = random_()] { administer(seed); });
  threads.emplace_back([this] { run_actors(0, 1, 2); });
  threads.emplace_back([this] { run_actors(1, 2, 1); });
  const uint64_t patience = random_() % 3 == 0 ? random_() % 400 : UINT64_MAX;  // of who takes over
  if (patience != UINT64_MAX) {
    threads.emplace_back([this, patience] {
      for (uint64_t i = 0; i < patience && failure_.empty(); ++i) disk_.interleave();
      if (std::string why = take_over(); !why.empty()) fail(std::move(why));
    });
  }
  for (Thread& thread : threads) thread.join();
  return failure_;
}

void StoreWorkload::end(bool close) {
  for (const auto& client : clients_) {
    VolumeHistory& history = history_.volumes[client->volume()];
    for (size_t block = 0; close && block < kStoreBlocksUsed; ++block) history.note_stored(block, now());
    client->end(close);
  }
  clients_.clear();
  if (of_spare_ != nullptr && close) static_cast<void>(of_spare_->close());
  of_spare_.reset();
}

}  // namespace brickfs
