// SPDX-License-Identifier: Apache-2.0
// What is read from a volume and from a store, with the checksums over it made right.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fs/inode/inode_table.h"
#include "fs/operations/filesystem.h"
#include "fs/persistence/checkpoint_format.h"
#include "fs/persistence/journal_format.h"
#include "fs/persistence/tree_scan.h"
#include "fs/recovery/check.h"
#include "fs/recovery/tree_loader.h"
#include "server/store/store_file.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/crash_device.h"
#include "tests/support/embedded_volume.h"
#include "tests/support/mounted_volume.h"
#include "tests/support/volume_image.h"
#include "transport/base/check.h"

namespace brickfs::fuzz {
namespace {

constexpr uint64_t kSeed = 0;
constexpr uint64_t kImageBytes = 24 * kMiB;

// A tree that is served has been judged: its rows can be written again, and are taken again.
void load(Input rows) {
  InodeTable inodes;
  TreeLoader loader(inodes);
  const bool whole = decode_rows(rows, loader).ok();
  loader.end_rows();
  Findings findings;
  if (!loader.judge(findings) || !whole) return;
  TreeScan scan(inodes);
  Transaction again;
  while (scan.next(again, 64 * kKiB)) {
  }
  InodeTable second;
  TreeLoader reader(second);
  CHECK(decode_rows(again.bytes(), reader).ok());
}

void make_some(Filesystem& filesystem, const std::string& prefix) {
  const Caller root = root_caller();
  const Ino folder = filesystem.make_directory(kRootIno, prefix + "d", 0755, root)->ino;
  const Ino file = filesystem.create(folder, "file", 0644, root)->ino;
  std::array<std::byte, 5000> bytes{};
  bytes.fill(std::byte{7});
  const LocalSlice slice{bytes.data(), bytes.size(), 0};
  CHECK(filesystem.write(file, 0, {&slice, 1}, false, nullptr).ok());
  CHECK(filesystem.set_xattr(file, "user.a", bytes_of(uint64_t{1}), 0, root).ok());
  CHECK(filesystem.make_symlink(kRootIno, prefix + "symlink", "d/file", root).ok());
  const Ino unlinked = filesystem.create(folder, "unlinked", 0644, root)->ino;
  static_cast<void>(unlinked);
  CHECK(filesystem.unlink(folder, "unlinked").ok());
}

std::unique_ptr<Filesystem> try_mount(EmbeddedVolume& volume) {
  std::string why;
  auto filesystem = Filesystem::mount(volume.open(), {}, &why);
  return filesystem.ok() ? *std::move(filesystem) : nullptr;
}

// Rows of all kinds in the checkpoint, and in the journal behind it.
VolumeImage image_of_a_volume() {
  EmbeddedVolume volume(kImageBytes);
  {
    const auto filesystem = try_mount(volume);
    make_some(*filesystem, "a");
    CHECK(filesystem->checkpoint().ok());
    make_some(*filesystem, "b");
    CHECK(filesystem->sync_all().ok());
  }
  return VolumeImage::of(*volume.open());
}

// A small store with two volumes and blocks in both.
const DiskImage& image_of_a_store() {
  static const DiskImage image = [] {
    CrashDisk disk((DiskImage()));
    std::string why;
    auto store = StoreFile::open(std::make_unique<CrashDevice>(disk), "fuzz", 8 * kBlockBytes, &why);
    CHECK(store.ok());
    for (uint32_t id = 0; id < 2; ++id) {
      StoreVolume record{};
      std::strcpy(record.name.data(), id == 0 ? "default" : "other");
      record.quota_blocks = UINT64_MAX;
      record.in_use = kVolumeInUse;
      CHECK((*store)->write_volume(id, record).ok());
    }
    for (uint32_t slot = 0; slot < 4; ++slot)
      CHECK((*store)->write_entry({slot % 2, BlockAddress{slot * kBlockBytes}, slot}).ok());
    CHECK((*store)->sync().ok());
    return disk.seen();
  }();
  return image;
}

template <typename Record>
void reseal(CrashDisk& disk, uint64_t at, uint64_t seed) {
  Record record{};
  disk.seen().read(at, std::span(reinterpret_cast<std::byte*>(&record), sizeof(record)));
  record.checksum = store_checksum(record, seed);
  CHECK(CrashDevice(disk).write(at, std::as_bytes(std::span(&record, 1))).ok());
}

}  // namespace

void rows(Input input) { load(input); }

// A block's header and a batch, sealed; the numbers in both and the rows are the input's.
void journal(Input input) {
  Cut cut(input);
  JournalBlockHeader block;
  block.address = cut.number<uint64_t>();
  block.first_lsn = cut.number<uint64_t>();
  block.durable_through = cut.number<uint64_t>();
  seal(block, kSeed);
  static_cast<void>(parse_block_header(bytes_of(block), block.address, kSeed));
  static_cast<void>(parse_block_header(input, 0, kSeed));
  static_cast<void>(parse_batch_header(input, 0, kSeed));
  JournalBatchHeader batch;
  batch.transactions = cut.number<uint16_t>();
  batch.first_lsn = cut.number<uint64_t>();
  const Input payload = cut.rest();
  batch.payload_bytes = static_cast<uint32_t>(payload.size());
  seal(batch, payload, kSeed);
  std::vector<std::byte> bytes(batch_bytes(payload.size()));
  std::memcpy(bytes.data(), &batch, sizeof(batch));
  std::copy(payload.begin(), payload.end(), bytes.begin() + sizeof(batch));
  if (!parse_batch_header(bytes, batch.address, kSeed)) return;
  static_cast<void>(for_each_transaction(payload, batch.transactions, [](std::span<const std::byte> rows) {
    load(rows);
    return Status();
  }));
}

void checkpoint(Input input) {
  std::vector<std::byte> chunk(kChunkBytes);
  static_cast<void>(parse_chunk(input, kSeed));
  Cut cut(input);
  ChunkHeader header;
  header.sequence = cut.number<uint8_t>();
  header.rows = cut.number<uint32_t>();
  header.row_bytes = cut.number<uint32_t>();
  const Input rest = cut.bytes(kChunkRowBytes);
  std::copy(rest.begin(), rest.end(), chunk.begin() + sizeof(header));
  seal(header, std::span(chunk).subspan(sizeof(header), std::min<size_t>(header.row_bytes, kChunkRowBytes)), kSeed);
  std::memcpy(chunk.data(), &header, sizeof(header));
  if (const auto parsed = parse_chunk(chunk, kSeed)) load(std::span(chunk).subspan(sizeof(header), parsed->row_bytes));
}

// Numbers of a whole volume, any of them changed: it can be checked; and what can be mounted can be used.
void volume_image(Input input) {
  static const VolumeImage whole = image_of_a_volume();
  static const std::vector<StoredField> fields = whole.fields();
  VolumeImage image = whole;
  Cut cut(input);
  while (!cut.empty()) {
    const StoredField& field = fields[cut.number<uint16_t>() % fields.size()];
    const auto how = cut.number<uint8_t>();
    image.set(field, how < 128 ? image.get(field) + how - 64 : cut.number<uint64_t>());
  }
  EmbeddedVolume volume(kImageBytes);
  if (!image.write_to(*volume.open()).ok()) return;
  {
    std::string why;
    static_cast<void>(check_filesystem(*volume.open(OpenMode::kReadOnly), {}, &why));
  }
  const auto filesystem = try_mount(volume);
  if (filesystem == nullptr || filesystem->read_only()) return;
  static_cast<void>(filesystem->create(kRootIno, "new", 0644, root_caller()));
  static_cast<void>(filesystem->sync_all());
}

// Bytes of a whole store, any of them changed.
void store(Input input) {
  CrashDisk disk(image_of_a_store());
  disk.recording = false;
  CrashDevice device(disk);
  Cut cut(input);
  const auto damage = (cut.number<uint8_t>() & 1) != 0 ? StoreFile::Damage::kGiveUp : StoreFile::Damage::kKeep;
  StoreHeader header{};
  CHECK(device.read(0, std::span(reinterpret_cast<std::byte*>(&header), sizeof(header))).ok());
  while (!cut.empty()) {
    const auto where = cut.number<uint16_t>();
    const uint64_t within = where >> 2;
    const Input bytes = cut.bytes(1 + cut.number<uint8_t>() % 16);
    if ((where & 3) == 0) {
      CHECK(device.write(within % 96, bytes).ok());
      reseal<StoreHeader>(disk, 0, 0);
    } else if ((where & 3) == 1) {
      const uint64_t id = within / sizeof(StoreVolume) % 4;
      const uint64_t at = kStoreVolumesAt + id * sizeof(StoreVolume);
      CHECK(device.write(at + within % (sizeof(StoreVolume) - 16), bytes).ok());
      reseal<StoreVolume>(disk, at, header.uuid[0] + id);
    } else if ((where & 3) == 2) {
      const uint64_t slot = within / sizeof(StoreEntry) % 8;
      const uint64_t at = kStoreEntriesAt + slot * sizeof(StoreEntry);
      CHECK(device.write(at + within % (sizeof(StoreEntry) - 16), bytes).ok());
      reseal<StoreEntry>(disk, at, header.uuid[1] + slot);
    } else {
      CHECK(device.write(within * 64, bytes).ok());  // whose checksum is then wrong
    }
  }
  std::string why;
  const auto opened = StoreFile::open(std::make_unique<CrashDevice>(disk), "fuzz", 0, &why, damage);
  if (!opened.ok()) {
    CHECK(!why.empty());
    return;
  }
  for (const StoreFile::Entry& entry : (*opened)->take_contents().entries) CHECK(entry.slot < (*opened)->slots());
}

}  // namespace brickfs::fuzz
