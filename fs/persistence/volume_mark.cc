// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/volume_mark.h"

#include <xxhash.h>

#include "transport/base/bytes.h"

namespace brickfs {
namespace {

uint64_t checksum_of(const StoredMark& stored) { return XXH3_64bits(&stored, offsetof(StoredMark, checksum)); }

}  // namespace

Result<Mark> read_mark(VolumeSet& volume) {
  StoredMark stored;
  const Piece piece{StoredMark::kAddress, {{reinterpret_cast<std::byte*>(&stored), sizeof(stored), 0}}};
  TRY(volume.read(std::span(&piece, 1)));
  if (stored.magic != StoredMark::kMagic || stored.checksum != checksum_of(stored)) return Mark::kNone;
  const Mark mark{stored.mark};
  return mark == Mark::kMaking || mark == Mark::kClean ? mark : Mark::kNone;
}

Status write_mark(VolumeSet& volume, Mark mark) {
  StoredMark stored;
  if (mark == Mark::kNone) {
    stored.magic = 0;
  } else {
    stored.mark = static_cast<uint64_t>(mark);
    stored.checksum = checksum_of(stored);
  }
  const Piece piece{StoredMark::kAddress, {{reinterpret_cast<std::byte*>(&stored), sizeof(stored), 0}}};
  TRY(volume.write(std::span(&piece, 1), Stage::kSuperblock));
  return volume.commit();
}

}  // namespace brickfs
