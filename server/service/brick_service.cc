// SPDX-License-Identifier: Apache-2.0
// Puts pool, store, blocks and volumes together.
#include "server/service/brick_service.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "server/service/server_session.h"
#include "server/service/silence_watch.h"
#include "server/service/volume_table.h"
#include "server/store/block_store.h"
#include "server/store/kept_memory.h"
#include "server/store/memory_room.h"
#include "server/store/pool.h"
#include "server/store/store_file.h"
#include "transport/base/log.h"
#include "transport/base/random.h"
#include "transport/base/size.h"
#include "transport/brick/store_trouble.h"

namespace brickfs {
namespace {

class BrickServiceImpl final : public BrickService {
 public:
  // At most one of `kept` and `store`.
  BrickServiceImpl(std::unique_ptr<KeptMemory> kept, std::unique_ptr<Pool> pool, std::unique_ptr<StoreFile> store,
                   const BrickConfig& config)
      : boot_(kept ? BootId{kept->table().boot()} : BootId{random_id<uint64_t>()}),
        lease_(config.lease),
        kept_(std::move(kept)),
        pool_(std::move(pool)),
        store_(std::move(store)),
        blocks_(*pool_, store_.get(), kept_ ? &kept_->table() : nullptr),
        volumes_(blocks_, records(), geometry(), config.grace, [this] { return medium(); }) {}
  ~BrickServiceImpl() override;

  // What store or kept memory had.
  Status load(const BrickConfig& config, std::string* why, const StoreFile::Contents& stored,
              const KeptTable::Contents& kept);

  using BrickService::open_session;
  Result<SessionPtr> open_session(const OpenRequest& request, PeerEnd peer, Holder* holder,
                                  const Abandoned& abandoned) override {
    return hold(TRY(volumes_.open(request, std::move(peer), holder, abandoned)));
  }
  std::span<std::byte> memory_for_devices() override { return pool_->keep_memory(); }
  void announce_device() override { has_device_ = true; }
  void watch_silence() override {
    MutexLock lock(stop_mutex_);
    if (!silence_watch_ && !stopped_) silence_watch_ = std::make_unique<SilenceWatch>(*this);
  }
  void expire_silent(std::chrono::steady_clock::time_point now) override { volumes_.fence_silent(lease_, now); }
  void announce_tcp(uint16_t port) override { volumes_.announce_tcp(port); }
  using BrickService::administer;
  AdminAnswer administer(const AdminRequest& request, const Abandoned& abandoned) override {
    return volumes_.administer(request, abandoned);
  }
  std::optional<std::vector<VolumeKey>> keys_of(const std::string& volume) const override {
    return volumes_.keys_of(volume);
  }
  std::optional<Secret> find_key(KeyId id) const override { return volumes_.find_key(id); }
  BrickNumbers numbers() const override;
  BootId boot() const override { return boot_; }
  Durability durability() const override { return store_ ? Durability::kDurable : Durability::kVolatile; }
  Status stop(const Progress& progress) override;

 private:
  std::string medium() const;
  Session geometry() const {
    Session session;
    session.boot = boot_;
    session.durability = durability();
    session.capacity_blocks = blocks_.capacity_blocks();
    session.memory_blocks = blocks_.memory_blocks();
    session.lease = lease_;
    return session;
  }

  VolumeRecords* records() const {
    if (kept_) return &kept_->table();
    return store_.get();
  }

  const BootId boot_;
  const std::chrono::milliseconds lease_;
  const std::unique_ptr<KeptMemory> kept_;
  const std::unique_ptr<Pool> pool_;
  const std::unique_ptr<StoreFile> store_;
  std::atomic<bool> has_device_{false};
  BlockStore blocks_;
  VolumeTable volumes_;
  Mutex stop_mutex_;
  std::optional<Status> stopped_ ABSL_GUARDED_BY(stop_mutex_);
  std::unique_ptr<SilenceWatch> silence_watch_ ABSL_GUARDED_BY(stop_mutex_);  // calls the service until it is gone
};

BrickServiceImpl::~BrickServiceImpl() {
  const Status stopped = BrickServiceImpl::stop({});
  if (!stopped.ok()) log::error("stopping the brick: {}", describe(stopped.error()));
}

std::string BrickServiceImpl::medium() const {
  std::string text =
      kept_ != nullptr ? fmt::format("memory that outlives brickd, kept in {}", kept_->name()) : "memory";
  if (store_ != nullptr) text.append(kStoreAt).append(store_->path());
  const auto add = [&text](std::string_view trouble) { text.append(kBeforeTrouble).append(trouble); };
  if (has_device_ && pool_->has_normal_pages()) add(kNormalPages);
  if (store_ != nullptr && store_->failed()) {
    add(kStoreFailed);
  } else if (blocks_.disk_is_full()) {
    add(kStoreDiskFull);
  }
  return text;
}

BrickNumbers BrickServiceImpl::numbers() const {
  BrickNumbers numbers;
  numbers.capacity_blocks = blocks_.capacity_blocks();
  numbers.memory_blocks = blocks_.memory_blocks();
  numbers.blocks = blocks_.counts();
  numbers.store_failed = store_ != nullptr && store_->failed();
  numbers.store_disk_full = blocks_.disk_is_full();
  numbers.medium = medium();
  volumes_.fill_numbers(numbers);
  return numbers;
}

Status BrickServiceImpl::load(const BrickConfig& config, std::string* why, const StoreFile::Contents& stored,
                              const KeptTable::Contents& kept) {
  volumes_.load(kept_ ? kept.volumes : stored.volumes, kept_ ? kept.keys : stored.keys);
  blocks_.adopt(stored.entries);
  blocks_.set_aside(stored.set_aside);
  blocks_.adopt(kept.entries);
  TRY(volumes_.finish_removals(why));
  return volumes_.configure(config.volumes, why);
}

Status BrickServiceImpl::stop(const Progress& progress) {
  MutexLock lock(stop_mutex_);
  if (!stopped_) {
    silence_watch_.reset();
    volumes_.shut();
    stopped_ = blocks_.write_back_all(progress);
    if (kept_) kept_->table().seal();
  }
  return *stopped_;
}

constexpr uint64_t kAlwaysThere = 64 * kMiB;  // not worth a look

// With a store: three quarters of what there is at most, as the rest of the machine lives on something, too.
uint64_t frames_by_default() {
  const uint64_t most = memory_most_bytes();
  return most == 0 ? kStoreSlotsMost : std::max<uint64_t>(most / 4 * 3 / kBlockBytes, 1);
}

// Memory is taken from the system as it is filled: what it does not have would be missed by clients, late, and by whom
// it kills then.
Status check_memory(uint64_t bytes, std::string* why) {
  if (bytes <= kAlwaysThere) return {};
  const uint64_t most = memory_most_bytes();
  if (most != 0 && bytes > most) {
    *why = fmt::format(
        "{} of memory: this machine (or our control group) has {} with its swap space; give less, or a store "
        "behind it (--file)",
        format_size(bytes), about_size(most));
    return Error(ENOMEM, "opening the brick");
  }
  const uint64_t room = memory_room_bytes();
  if (room != 0 && bytes > room) {
    log::warn("{} of memory are served, and {} are free now: once they are filled the system swaps, or ends processes",
              format_size(bytes), about_size(room));
  }
  return {};
}

Result<std::unique_ptr<Pool>> open_pool(uint64_t frames, std::string* why) {
  auto pool = Pool::open(static_cast<uint32_t>(frames));
  if (!pool.ok()) *why = fmt::format("{} of memory: {}", format_size(frames * kBlockBytes), std::strerror(pool.code()));
  return pool;
}

Result<std::unique_ptr<Pool>> pool_over(KeptMemory& kept, uint64_t frames, const KeptTable::Contents& contents) {
  std::vector<bool> in_use(frames);
  for (const KeptTable::Entry& entry : contents.entries) in_use[entry.frame] = true;
  return Pool::over(kept.take_frames(), in_use, kept.is_zero());
}

}  // namespace

Result<std::unique_ptr<BrickService>> BrickService::open(const BrickConfig& config, std::string* why) {
  return open(config, nullptr, why);
}

Result<std::unique_ptr<BrickService>> BrickService::open(const BrickConfig& config, std::unique_ptr<StoreDevice> device,
                                                         std::string* why) {
  std::string unread;
  if (why == nullptr) why = &unread;
  std::unique_ptr<StoreFile> store;
  StoreFile::Contents contents;
  uint64_t frames = config.memory_bytes / kBlockBytes;
  if (!config.store_path.empty()) {
    const auto damage = config.repair_store ? StoreFile::Damage::kGiveUp : StoreFile::Damage::kKeep;
    store = device ? TRY(StoreFile::open(std::move(device), config.store_path, config.store_bytes, why, damage))
                   : TRY(StoreFile::open(config.store_path, config.store_bytes, why, damage));
    contents = store->take_contents();
    frames = std::min<uint64_t>(config.memory_bytes == 0 ? frames_by_default() : frames, store->slots());
  }
  if (frames == 0) {
    *why = fmt::format("memory of {} holds no block: give {} at least", format_size(config.memory_bytes),
                       format_size(kBlockBytes));
    return Error(EINVAL, "opening the brick");
  }
  const bool is_kept = config.keeper != nullptr || !config.keep_path.empty();
  if (!is_kept) TRY(check_memory(frames * kBlockBytes, why));
  if (frames > kStoreSlotsMost) {
    *why = fmt::format("{} of memory: a brick has {} at most", format_size(config.memory_bytes),
                       format_size(kStoreSlotsMost * kBlockBytes));
    return Error(EINVAL, "opening the brick");
  }
  std::unique_ptr<KeptMemory> kept;
  if (store && is_kept) {
    *why = "a brick with a store keeps its memory there";
    return Error(EINVAL, "opening the brick");
  }
  if (!config.keep_path.empty()) kept = TRY(KeptMemory::open(config.keep_path, static_cast<uint32_t>(frames), why));
  if (config.keeper) kept = TRY(KeptMemory::open(*config.keeper, static_cast<uint32_t>(frames), why));
  const KeptTable::Contents left = kept ? kept->take_contents() : KeptTable::Contents();
  auto pool = kept ? pool_over(*kept, frames, left) : open_pool(frames, why);
  if (!pool.ok()) return pool.error();
  auto service = std::make_unique<BrickServiceImpl>(std::move(kept), *std::move(pool), std::move(store), config);
  TRY(service->load(config, why, contents, left));
  return std::unique_ptr<BrickService>(std::move(service));
}

}  // namespace brickfs
