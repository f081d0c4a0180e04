// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/cache/writeback_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "transport/base/bytes.h"

namespace brickfs {

namespace {

std::string setting(const std::string& directory, const std::string& device, const char* name) {
  return directory + "/" + device + "/" + name;
}

}  // namespace

bool tells_dirty_limit(const std::string& directory) {
  std::error_code failed;
  for (const auto& device : std::filesystem::directory_iterator(directory, failed)) {
    return access((device.path() / "max_bytes").c_str(), R_OK) == 0;
  }
  return false;
}

std::optional<uint64_t> read_dirty_limit(const std::string& device, const std::string& directory) {
  uint64_t bytes = 0;
  unsigned strict = 0;
  std::ifstream limit(setting(directory, device, "max_bytes"));
  std::ifstream holds(setting(directory, device, "strict_limit"));
  if (!(limit >> bytes) || !(holds >> strict) || strict != 1) return std::nullopt;
  return bytes;
}

std::optional<uint64_t> set_dirty_limit(const std::string& device, uint64_t bytes, const std::string& directory) {
  std::ofstream limit(setting(directory, device, "max_bytes"));
  limit << bytes << std::endl;
  return read_dirty_limit(device, directory);
}

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// All threads may wait here, and none serve what the kernel writes back: then they go on.
constexpr milliseconds kPatienceOfWriter{2'000};
constexpr seconds kTellFor{30};  // whoever writes later is somebody else
constexpr size_t kMostLost = 4096;
constexpr uint64_t kShareOfRoom = 16;           // of what is free, the kernel may have, at most
constexpr uint64_t kLeastAllowed = 256 * kKiB;  // with less, writes are no faster than without it
constexpr uint64_t kBeyondLimit = 2 * kMiB;     // several writers, of large pages, are stopped late
constexpr uint64_t kMuchMore = 4;               // than it may have: worth the trouble
constexpr size_t kFilesAtOnce = 4096;

}  // namespace

void WritebackCache::keep_room(uint64_t most_bytes, Limit limit) {
  most_bytes_ = most_bytes;
  limit_ = std::move(limit);
  reserve(most_bytes);
}

// The limit breathes with free memory, and writers are stopped some pages late.
void WritebackCache::reserve(uint64_t bytes) {
  allowed_bytes_ = bytes;
  files_.reserve_for_writeback(2 * bytes + kBeyondLimit, [this] { pages_.run_later([this] { make_room(); }); });
}

uint64_t WritebackCache::share_of_room() const {
  return std::clamp(files_.stat().free_units * kUnitBytes / kShareOfRoom, std::min(kLeastAllowed, most_bytes_),
                    most_bytes_);
}

// First it may have less, then it writes back what it has.
void WritebackCache::make_room() {
  const uint64_t less = share_of_room();
  const bool is_less = less < allowed_bytes_ && limit_(less).value_or(UINT64_MAX) < allowed_bytes_;
  write_back_all();
  is_less ? reserve(less) : files_.settle_writeback();
}

void WritebackCache::give_room_back() {
  const uint64_t more = share_of_room();
  if (more > allowed_bytes_) {
    reserve(more);
    (void)limit_(more);
  }
  is_giving_back_ = false;
}

void WritebackCache::write_back_all() {
  FileOperations::KnownFiles known{{}, Ino{1}};
  while (known.next && !pages_.is_stopping()) {
    known = files_.known_files(*known.next, kFilesAtOnce);
    for (const Ino ino : known.files) pages_.notice(ino);
  }
}

Status WritebackCache::before_write(Ino ino, const Interruption* by) {
  if (files_.is_short_for_writeback()) {
    if (pages_.write_back(ino, kPatienceOfWriter, by).code() == EINTR) return Error(EINTR, "interrupted");
    notices_.forget_attributes(ino);  // before the answer, so that the next write asks, too
  }
  const auto lost = take_lost(ino);
  return lost ? Status(*lost) : Status();
}

void WritebackCache::written(Ino ino, uint64_t end, const Status& status) {
  if (!status.ok()) {
    note_lost(ino, status.error());
    (void)files_.cover_lost(ino, end);
  } else if (!files_.is_short_for_writeback()) {
    const uint64_t allowed = allowed_bytes_;
    if (allowed < most_bytes_ && share_of_room() >= std::min(kMuchMore * allowed, most_bytes_) &&
        !is_giving_back_.exchange(true)) {
      pages_.run_later([this] { give_room_back(); });
    }
    return;
  }
  notices_.forget_attributes(ino);
}

void WritebackCache::note_lost(Ino ino, const Error& error) {
  MutexLock lock(mutex_);
  const auto now = Clock::now();
  if (lost_.size() >= kMostLost)
    absl::erase_if(lost_, [now](const auto& lost) { return now - lost.second.at > kTellFor; });
  if (lost_.size() < kMostLost) lost_.insert_or_assign(ino, Lost{error, now});
}

std::optional<Error> WritebackCache::take_lost(Ino ino) {
  MutexLock lock(mutex_);
  const auto found = lost_.find(ino);
  if (found == lost_.end()) return std::nullopt;
  const Lost lost = found->second;
  lost_.erase(found);
  if (Clock::now() - lost.at > kTellFor) return std::nullopt;
  return lost.error;
}

void WritebackCache::forget_lost(Ino ino) {
  MutexLock lock(mutex_);
  lost_.erase(ino);
}

}  // namespace brickfs
