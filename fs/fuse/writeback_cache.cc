// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/writeback_cache.h"

#include <cerrno>

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// All threads may wait here, and none serve what the kernel writes back: then they go on.
constexpr milliseconds kPatienceOfWriter{2'000};
constexpr seconds kTellFor{30};  // whoever writes later is somebody else
constexpr size_t kMostLost = 4096;
constexpr size_t kFilesAtOnce = 4096;

}  // namespace

// The limit breathes with free memory, and writers are stopped some pages late.
void WritebackCache::keep_room(uint64_t most_bytes) {
  filesystem_.reserve_for_writeback(2 * most_bytes, [this] { pages_.run_later([this] { write_back_all(); }); });
}

void WritebackCache::write_back_all() {
  Filesystem::KnownFiles known{{}, Ino{1}};
  while (known.next && !pages_.is_stopping()) {
    known = filesystem_.known_files(*known.next, kFilesAtOnce);
    for (const Ino ino : known.files) pages_.notice(ino);
  }
  filesystem_.settle_writeback();
}

Status WritebackCache::before_write(Ino ino, const Interruption* by) {
  if (filesystem_.is_short_for_writeback()) {
    if (pages_.write_back(ino, kPatienceOfWriter, by).code() == EINTR) return Error(EINTR, "interrupted");
    notices_.forget_attributes(ino);  // before the answer, so that the next write asks, too
  }
  const auto lost = take_lost(ino);
  return lost ? Status(*lost) : Status();
}

void WritebackCache::written(Ino ino, uint64_t end, const Status& status) {
  if (!status.ok()) {
    note_lost(ino, status.error());
    (void)filesystem_.cover_lost(ino, end);
  } else if (!filesystem_.is_short_for_writeback()) {
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
