// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_device.h"

#include <algorithm>
#include <cstring>

#include "transport/base/bytes.h"

namespace brickfs {
namespace {

constexpr uint64_t kPageBytes = 4096;  // in which room is given

uint64_t scatter(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Of what a failed sync should have written, whether this got to the disk.
bool is_lost(const DiskPiece& piece, size_t sync) { return scatter(piece.sector * 1'000'003 + sync) % 2 == 0; }

DiskSectorRef sector_of(std::span<const std::byte> bytes) {
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; })) return nullptr;
  auto made = std::make_shared<DiskSector>();
  std::memcpy(made->data(), bytes.data(), kDiskSectorBytes);
  return made;
}

bool same(const DiskSectorRef& one, const DiskSectorRef& other) {
  return one == other || (one != nullptr && other != nullptr && *one == *other);
}

}  // namespace

void DiskImage::put(uint64_t sector, const DiskSectorRef& bytes) {
  if (bytes == nullptr) {
    sectors.erase(sector);
  } else {
    sectors[sector] = bytes;
  }
}

DiskSectorRef DiskImage::at(uint64_t sector) const {
  const auto found = sectors.find(sector);
  return found == sectors.end() ? nullptr : found->second;
}

void DiskImage::read(uint64_t offset, std::span<std::byte> into) const {
  std::memset(into.data(), 0, into.size());
  const uint64_t end = offset + into.size();
  for (auto place = sectors.lower_bound(offset / kDiskSectorBytes); place != sectors.end(); ++place) {
    const uint64_t at = place->first * kDiskSectorBytes;
    if (at >= end) break;
    const uint64_t from = std::max(at, offset);
    const uint64_t to = std::min(at + kDiskSectorBytes, end);
    std::memcpy(&into[from - offset], &(*place->second)[from - at], to - from);
  }
}

// Of the bytes themselves would cost more: a sector is shared by all images that have it from one write.
uint64_t DiskImage::hash() const {
  uint64_t sum = scatter(size_bytes + 1);
  for (const auto& [sector, bytes] : sectors) sum += scatter(sector * 31 + reinterpret_cast<uintptr_t>(bytes.get()));
  return sum;
}

// --- DiskHistory

void DiskHistory::keep(DiskImage& image, const DiskPiece& piece) {
  if (piece.size_bytes != 0) {
    image.size_bytes = std::max(image.size_bytes, piece.size_bytes);
  } else {
    image.put(piece.sector, piece.bytes);
  }
}

void DiskHistory::apply(const DiskEvent& event, size_t number) {
  switch (event.kind) {
    case DiskEvent::Kind::kSyncBegan:
      return;
    case DiskEvent::Kind::kWrite:
      for (DiskPiece piece : event.pieces) {
        piece.event = number;
        lost_.erase(piece.sector);
        pending_.push_back(std::move(piece));
      }
      return;
    case DiskEvent::Kind::kSyncEnded:
    case DiskEvent::Kind::kSyncFailed:
      break;
  }
  const bool failed = event.kind == DiskEvent::Kind::kSyncFailed;
  std::vector<DiskPiece> later;
  for (const DiskPiece& piece : pending_) {
    if (piece.event >= event.began) {
      later.push_back(piece);
    } else if (failed && piece.size_bytes == 0 && is_lost(piece, event.began)) {
      lost_.insert(piece.sector);
    } else {
      keep(durable_, piece);
    }
  }
  pending_ = std::move(later);
}

DiskImage DiskHistory::after(const std::function<bool(const DiskPiece&, size_t)>& keeps) const {
  DiskImage image = durable_;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (keeps(pending_[i], i)) keep(image, pending_[i]);
  }
  image.sectors.erase(image.sectors.lower_bound(divide_up(image.size_bytes, kDiskSectorBytes)), image.sectors.end());
  return image;
}

// --- CrashDisk

void CrashDisk::add(DiskEvent event) {
  if (!recording) return;
  history_.apply(event, events_.size());
  events_.push_back(std::move(event));
}

Status CrashDevice::read(uint64_t offset, std::span<std::byte> into) const {
  if (disk_.dead_) return Error(EIO, "the process is dead");
  if (offset + into.size() > disk_.cache_.size_bytes) return Error(EIO, "beyond the end");
  disk_.cache_.read(offset, into);
  return {};
}

Status CrashDisk::take_room(uint64_t offset, uint64_t length_bytes) {
  if (dead_) return Error(EIO, "the process is dead");
  if (room_bytes == UINT64_MAX) return {};
  std::vector<uint64_t> wanted;
  for (uint64_t page = offset / kPageBytes; page * kPageBytes < offset + length_bytes; ++page) {
    if (!pages_.contains(page)) wanted.push_back(page);
  }
  if (wanted.size() * kPageBytes > room_left()) return Error(ENOSPC, "the disk is full");
  pages_.insert(wanted.begin(), wanted.end());
  return {};
}

uint64_t CrashDisk::room_left() const {
  if (room_bytes == UINT64_MAX) return UINT64_MAX;
  return room_bytes - std::min(room_bytes, pages_.size() * kPageBytes);
}

Status CrashDisk::write(uint64_t offset, std::span<const std::byte> from) {
  interleave();
  const Status room = take_room(offset, from.size());
  if (!room.ok()) {  // as much as there is room for is written
    if (dead_ || from.size() <= kPageBytes) return room;
    const uint64_t first = kPageBytes - offset % kPageBytes;
    TRY(write(offset, from.first(first)));
    return write(offset + first, from.subspan(first));
  }
  if (fails_writes > 0) {
    --fails_writes;
    return Error(EIO, "writing");
  }
  DiskEvent event;
  for (uint64_t done = 0; done < from.size();) {
    const uint64_t sector = (offset + done) / kDiskSectorBytes;
    const uint64_t begin = (offset + done) % kDiskSectorBytes;
    const uint64_t length = std::min(kDiskSectorBytes - begin, from.size() - done);
    DiskSector bytes{};
    const DiskSectorRef before = cache_.at(sector);
    if (before != nullptr) bytes = *before;
    std::memcpy(&bytes[begin], &from[done], length);
    done += length;
    DiskSectorRef after = sector_of(bytes);
    if (same(before, after) && !history_.lost().contains(sector)) continue;  // on the disk, or waiting
    cache_.put(sector, after);
    event.pieces.push_back({.sector = sector, .bytes = std::move(after)});
  }
  if (offset + from.size() > cache_.size_bytes) {
    cache_.size_bytes = offset + from.size();
    event.pieces.push_back({.bytes = nullptr, .size_bytes = cache_.size_bytes});
  }
  if (!event.pieces.empty()) add(std::move(event));
  interleave();
  return {};
}

Status CrashDisk::punch(uint64_t offset, uint64_t length_bytes) {
  interleave();
  if (dead_) return Error(EIO, "the process is dead");
  const uint64_t end = (offset + length_bytes) / kDiskSectorBytes;
  DiskEvent event;
  const auto zero = [&](uint64_t sector) { event.pieces.push_back({.sector = sector, .bytes = nullptr}); };
  auto place = cache_.sectors.lower_bound(offset / kDiskSectorBytes);
  while (place != cache_.sectors.end() && place->first < end) {
    zero(place->first);
    place = cache_.sectors.erase(place);
  }
  for (auto lost = history_.lost().lower_bound(offset / kDiskSectorBytes); lost != history_.lost().end() && *lost < end;
       ++lost)
    zero(*lost);
  pages_.erase(pages_.lower_bound(offset / kPageBytes), pages_.lower_bound((offset + length_bytes) / kPageBytes));
  if (!event.pieces.empty()) add(std::move(event));
  interleave();
  return {};
}

Status CrashDisk::grow(uint64_t size_bytes) {
  interleave();
  if (dead_) return Error(EIO, "the process is dead");
  cache_.size_bytes = size_bytes;
  add({.kind = DiskEvent::Kind::kWrite, .pieces = {{.bytes = nullptr, .size_bytes = size_bytes}}});
  interleave();
  return {};
}

Status CrashDisk::sync() {
  if (dead_) return Error(EIO, "the process is dead");
  const size_t began = events_.size();
  const bool fails = syncs_++ == fails_sync;
  add({.kind = DiskEvent::Kind::kSyncBegan, .pieces = {}});
  for (int i = 0; i < 3; ++i) interleave();  // it takes a while
  if (dead_) return Error(EIO, "the process is dead");
  add({.kind = fails ? DiskEvent::Kind::kSyncFailed : DiskEvent::Kind::kSyncEnded, .pieces = {}, .began = began});
  if (fails) return Error(EIO, "syncing");
  return {};
}

void CrashDisk::forget_cache() {
  if (dead_ || !recording) return;
  cache_ = history_.after([](const DiskPiece&, size_t) { return true; });
}

}  // namespace brickfs
