// SPDX-License-Identifier: Apache-2.0
// Does memory that another brickd left prove itself? Every record in it verifies, none is missing (the summary has
// their sum), no block is in two frames, all numbers are within bounds.
#include <fmt/core.h>
#include <string.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "server/store/kept_table.h"

namespace brickfs {
namespace {

Error not_kept(std::string* why, int code, std::string text) {
  if (why != nullptr) *why = std::move(text);
  return Error(code, "opening kept memory");
}

// Of two copies that take turns, the one that holds; `second` is the one for odd generations.
template <typename Record>
Result<std::optional<Record>> newer(std::span<const std::byte> memory, uint64_t at, uint64_t seed) {
  std::optional<Record> found;
  for (uint64_t place = 0; place < 2; ++place) {
    const auto bytes = memory.subspan(at + place * sizeof(Record));
    if (load<uint64_t>(bytes.subspan(offsetof(Record, checksum))) == 0) continue;  // never written, or being written
    const auto record = load<Record>(bytes);
    if (record.checksum != kept_checksum(record, seed) || record.generation % 2 != place || record.generation == 0) {
      return Error(ENODATA, "a record");
    }
    const bool adjoins =
        !found || record.generation == found->generation + 1 || record.generation + 1 == found->generation;
    if (!adjoins) return Error(ENODATA, "a record");
    if (!found || record.generation > found->generation) found = record;
  }
  return found;
}

}  // namespace

Result<uint32_t> KeptTable::look(std::span<const std::byte> memory, Place place, std::string* why) {
  if (memory.size() < sizeof(KeptHeader)) return not_kept(why, EUCLEAN, "is not a brick's memory; it is left as it is");
  const auto header = load<KeptHeader>(memory);
  if (header.magic != kKeptMagic) return not_kept(why, EUCLEAN, "is not a brick's memory; it is left as it is");
  if (header.version != kKeptVersion || header.block_bytes != kBlockBytes) {
    return not_kept(why, ENOTSUP,
                    fmt::format("was left by another brickd (format {}, blocks of {} bytes); this one knows format {}: "
                                "start that one, or give up what is there",
                                header.version, header.block_bytes, kKeptVersion));
  }
  if (header.checksum == 0) return not_kept(why, ENODATA, "was not made to its end");
  if (header.checksum != kept_checksum(header, 0)) return not_kept(why, ENODATA, "has a damaged header");
  if ((header.incompat_features & ~kKeptKeyed) != 0) {
    return not_kept(why, ENOTSUP, "was left by a newer brickd: start that one, or give up what is there");
  }
  if (header.device != place.device || header.inode != place.inode) {
    return not_kept(why, EXDEV, "is a copy of a brick's memory: what it says was true once; remove it");
  }
  const bool has_keys = (header.incompat_features & kKeptKeyed) != 0;
  if (header.frames == 0 || header.frames > kKeptFramesMost || header.boot == 0 ||
      (has_keys && !kept_keys_fit(header.frames))) {
    return not_kept(why, EUCLEAN, "has impossible numbers in its header");
  }
  return static_cast<uint32_t>(header.frames);
}

// Everything is read before anything is believed.
class KeptTable::Reader {
 public:
  Reader(const KeptTable& table, std::string* why) : table_(table), memory_(table.memory_), why_(why) {}

  Status read() {
    TRY(read_summary());
    TRY(read_volumes());
    if (table_.has_keys()) TRY(read_keys());
    TRY(read_entries());
    if (sum_ != summary_.sum) return damaged("its records are not those that its summary counts");
    return {};
  }

  const KeptSummary& summary() const { return summary_; }
  uint64_t sum_of_all() const { return sum_ ^ left_out_; }
  const std::vector<VolumeNow>& volumes_now() const { return volumes_now_; }
  const std::vector<uint64_t>& keys_now() const { return keys_now_; }
  const std::vector<uint32_t>& undone() const { return undone_; }
  Contents take_contents() { return std::move(contents_); }

 private:
  Status damaged(std::string text) { return not_kept(why_, ENODATA, "does not prove itself: " + std::move(text)); }

  Status read_summary() {
    const auto found = newer<KeptSummary>(memory_, kKeptSummariesAt, table_.header().uuid[0]);
    if (!found.ok() || !*found) return damaged("its summary");
    summary_ = **found;
    const bool known_state = summary_.state == KeptState::kServing || summary_.state == KeptState::kSealed;
    const bool nothing = summary_.change == KeptChange::kNone;
    const bool blocks = summary_.change == KeptChange::kBlocks && is_valid(changing());
    const bool volume = summary_.change == KeptChange::kVolume;
    const bool key = summary_.change == KeptChange::kKey && table_.has_keys();
    if (!known_state || !(nothing || blocks || volume || key) ||
        summary_.volume >= (key ? kStoreKeys : kStoreVolumes) || (!nothing && summary_.state == KeptState::kSealed)) {
      return damaged("impossible numbers in its summary");
    }
    contents_.sealed = summary_.state == KeptState::kSealed;
    return {};
  }

  Status read_volumes() {
    contents_.volumes.resize(kStoreVolumes);
    volumes_now_.resize(kStoreVolumes);
    for (uint32_t id = 0; id < kStoreVolumes; ++id) {
      const auto found =
          newer<KeptVolume>(memory_, kKeptVolumesAt + 2 * id * sizeof(KeptVolume), table_.header().uuid[0] + id + 1);
      if (!found.ok()) return damaged(fmt::format("the record of volume {}", id));
      if (!*found) continue;
      const KeptVolume& kept = **found;
      auto record = std::bit_cast<StoreVolume>(kept);
      record.reserved = {};
      if (!is_sound(record)) return damaged(fmt::format("impossible numbers in the record of volume {}", id));
      contents_.volumes[id] = record;
      volumes_now_[id] = {kept.generation, kept.checksum};
      const bool changes = summary_.change == KeptChange::kVolume && summary_.volume == id;
      count(kept.checksum, changes);
    }
    return {};
  }

  // One that was being taken away may hold still: then nobody was told that it is gone.
  Status read_keys() {
    for (uint32_t place = 0; place < kStoreKeys; ++place) {
      auto record = load<StoreKey>(memory_.subspan(table_.key_at(place)));
      if (record.checksum == 0) continue;
      const bool is_right = record.checksum == kept_checksum(record, table_.key_seed(place)) && is_sound(record) &&
                            contents_.volumes[record.volume].in_use != 0;
      if (is_right) contents_.keys.push_back({place, record.volume, key_in(record)});
      keys_now_[place] = record.checksum;
      count(record.checksum, summary_.change == KeptChange::kKey && summary_.volume == place);
      ::explicit_bzero(&record, sizeof(record));
      if (!is_right) return damaged(fmt::format("key {}", place));
    }
    return {};
  }

  Status read_entries() {
    absl::flat_hash_set<std::pair<uint32_t, uint64_t>> known;
    for (uint32_t frame = 0; frame < table_.frames_; ++frame) {
      auto entry = load<KeptEntry>(memory_.subspan(kKeptEntriesAt + frame * sizeof(KeptEntry)));
      if (entry.checksum == 0) continue;
      const bool blank = entry.content == kept_content(entry.checksum, true);
      const bool filled = entry.content == kept_content(entry.checksum, false);
      entry.content = 0;
      const BlockAddress address{entry.address};
      if (entry.checksum != kept_checksum(entry, table_.header().uuid[1] + frame) || !(blank || filled) ||
          !is_valid({address, 1}) || entry.volume >= kStoreVolumes || contents_.volumes[entry.volume].in_use == 0) {
        return damaged(fmt::format("entry {} of its block table", frame));
      }
      if (!known.emplace(entry.volume, entry.address).second) return damaged("a block is in two frames");
      const bool changes = summary_.change == KeptChange::kBlocks && summary_.volume == entry.volume &&
                           address >= changing().start && address < changing().end();
      if (changes) {
        undone_.push_back(frame);
      } else {
        contents_.entries.push_back({entry.volume, address, frame, blank});
        count(entry.checksum, false);
      }
    }
    return {};
  }

  BlockRange changing() const { return {BlockAddress{summary_.start}, summary_.count}; }
  void count(uint64_t checksum, bool changes) { (changes ? left_out_ : sum_) ^= checksum; }

  const KeptTable& table_;
  const std::span<const std::byte> memory_;
  std::string* const why_;
  KeptSummary summary_{};
  Contents contents_;
  std::vector<VolumeNow> volumes_now_;
  std::vector<uint64_t> keys_now_ = std::vector<uint64_t>(kStoreKeys);
  std::vector<uint32_t> undone_;
  uint64_t sum_ = 0;
  uint64_t left_out_ = 0;  // of what is being changed, and holds
};

Result<std::unique_ptr<KeptTable>> KeptTable::open(std::span<std::byte> memory, uint32_t frames, Contents* contents,
                                                   std::string* why) {
  std::unique_ptr<KeptTable> table(new KeptTable(memory, frames));
  Reader reader(*table, why);
  TRY(reader.read());
  MutexLock lock(table->mutex_);
  table->generation_ = reader.summary().generation;
  table->sum_ = reader.sum_of_all();
  table->volumes_ = reader.volumes_now();
  table->keys_ = reader.keys_now();
  table->undo(reader.undone());
  *contents = reader.take_contents();
  return table;
}

}  // namespace brickfs
