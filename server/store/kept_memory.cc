// SPDX-License-Identifier: Apache-2.0
#include "server/store/kept_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "server/store/memory_room.h"
#include "transport/base/log.h"
#include "transport/base/size.h"

namespace brickfs {
namespace {

constexpr unsigned kHugeMemfd = MFD_HUGETLB | MFD_HUGE_2MB;
constexpr const char* kNotMemory = "not on tmpfs or hugetlbfs: name a file there, as /dev/shm/brick";
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr uint64_t kStatBlockBytes = 512;  // of stat::st_blocks

// The name by which this process, and linkat(), find an open file.
std::string own_link(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

bool is_memory(int fd) {
  struct statfs info {};
  return fstatfs(fd, &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == HUGETLBFS_MAGIC);
}

Status give_size(int fd, uint64_t bytes) {
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return errno_error("extending memory");
  while (fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno_error("reserving memory");
  }
  return {};
}

KeptTable::Place place_of(const struct stat& info) { return {info.st_dev, info.st_ino}; }

}  // namespace

Error KeptMemory::refuse(std::string* why, int code, const std::string& text) const {
  if (why != nullptr) *why = fmt::format("memory kept in {}: {}", name_, text);
  return Error(code, "opening kept memory");
}

Error KeptMemory::refuse(std::string* why, const char* doing, int code) const {
  return refuse(why, code, fmt::format("{}: {}", doing, std::strerror(code)));
}

Result<std::unique_ptr<KeptMemory>> KeptMemory::open(const std::string& path, uint32_t frames, std::string* why) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK));
  const int failure = fd ? 0 : errno;
  if (failure == ENOENT) return make_file(path, frames, why);
  std::unique_ptr<KeptMemory> kept(new KeptMemory(path, std::move(fd), frames));
  if (failure == ELOOP) return kept->refuse(why, ELOOP, "a link: name the file itself");
  if (failure != 0) return kept->refuse(why, "cannot be opened", failure);
  TRY(kept->check_file(why));
  TRY(kept->lock(why));
  TRY(kept->load(why));
  kept->tell();
  return kept;
}

// It has its name only once it is whole.
Result<std::unique_ptr<KeptMemory>> KeptMemory::make_file(const std::string& path, uint32_t frames, std::string* why) {
  const auto folder = std::filesystem::absolute(path).parent_path();
  UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  const int failure = fd ? 0 : errno;
  std::unique_ptr<KeptMemory> kept(new KeptMemory(path, std::move(fd), frames));
  if (failure == EOPNOTSUPP || failure == EISDIR) return kept->refuse(why, EINVAL, kNotMemory);
  if (failure != 0) return kept->refuse(why, "cannot be made", failure);
  TRY(kept->check_file(why));
  TRY(kept->lock(why));
  TRY(kept->check_room(why));
  TRY(kept->resize(why));
  TRY(kept->map(why));
  kept->is_zero_ = true;
  TRY(kept->make(why));
  if (linkat(AT_FDCWD, own_link(kept->fd_.get()).c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return kept->refuse(why, "cannot be given its name", errno);
  }
  kept->tell();
  return kept;
}

// Opened anew: the keeper's descriptor is the same open file for whoever has it, and a lock would be everybody's.
Result<std::unique_ptr<KeptMemory>> KeptMemory::open(MemoryKeeper& keeper, uint32_t frames, std::string* why) {
  const UniqueFd given = keeper.take();
  if (!given) return make_for(keeper, frames, why);
  UniqueFd fd(::open(own_link(given.get()).c_str(), O_RDWR | O_CLOEXEC));
  const int failure = fd ? 0 : errno;
  std::unique_ptr<KeptMemory> kept(new KeptMemory(keeper.name(), std::move(fd), frames));
  if (failure != 0) return kept->refuse(why, "cannot be opened", failure);
  TRY(kept->check_file(why));
  const int seals = fcntl(kept->fd_.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return kept->refuse(why, EPERM, "not made by brickd: its size can change");
  TRY(kept->lock(why));
  TRY(kept->load(why));
  kept->tell();
  return kept;
}

// Of huge pages, if enough of them are free.
Result<std::unique_ptr<KeptMemory>> KeptMemory::make_for(MemoryKeeper& keeper, uint32_t frames, std::string* why) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd shared(memfd_create("brick", kFlags | kHugeMemfd));
  if (!shared || !give_size(shared.get(), kept_bytes(frames)).ok()) {
    shared = UniqueFd(memfd_create("brick", kFlags));
    log::info("too few huge pages are free for {} of memory: normal pages are used", format_size(frames * kBlockBytes));
  }
  UniqueFd fd(::open(own_link(shared.get()).c_str(), O_RDWR | O_CLOEXEC));
  const int failure = fd ? 0 : errno;
  std::unique_ptr<KeptMemory> kept(new KeptMemory(keeper.name(), std::move(fd), frames));
  if (failure != 0) return kept->refuse(why, "cannot be made", failure);
  TRY(kept->check_room(why));
  TRY(kept->resize(why));
  if (fchmod(shared.get(), 0600) != 0 || fcntl(shared.get(), F_ADD_SEALS, kSeals) != 0) {
    return kept->refuse(why, "cannot be sealed", errno);
  }
  TRY(kept->lock(why));
  TRY(kept->map(why));
  kept->is_zero_ = true;
  TRY(kept->make(why));
  const Status handed_over = keeper.keep(shared.get());
  if (!handed_over.ok()) return kept->refuse(why, "cannot be handed over", handed_over.code());
  kept->tell();
  return kept;
}

// What is in it is believed: nobody else may have been able to write to it.
Status KeptMemory::check_file(std::string* why) const {
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return refuse(why, "cannot be examined", errno);
  if (!S_ISREG(info.st_mode)) return refuse(why, EINVAL, "not a regular file");
  if (!is_memory(fd_.get())) return refuse(why, EINVAL, kNotMemory);
  if (info.st_uid != geteuid()) {
    return refuse(why, EPERM, fmt::format("belongs to another user ({}); remove it, or run as that one", info.st_uid));
  }
  if ((info.st_mode & 077) != 0)
    return refuse(why, EPERM, "others may use it: look who has, then chmod 600 or remove it");
  if (info.st_nlink > 1) return refuse(why, EPERM, "has other names: remove them");
  return {};
}

Status KeptMemory::lock(std::string* why) {
  if (flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return refuse(why, "cannot be locked", errno);
  return refuse(why, EBUSY, "in use by another process");
}

// What is set aside as huge pages is not counted as free, and is refused by the system itself.
Status KeptMemory::check_room(std::string* why) const {
  struct statfs info {};
  if (fstatfs(fd_.get(), &info) != 0) return refuse(why, "cannot be examined", errno);
  const uint64_t room = memory_room_bytes();
  if (info.f_type == HUGETLBFS_MAGIC || room == 0 || kept_bytes(frames_) <= room) return {};
  return refuse(why, ENOMEM,
                fmt::format("all of {} is taken at once, and {} are free now", format_size(frames_ * kBlockBytes),
                            format_size(round_down(room, kMiB))));
}

Status KeptMemory::resize(std::string* why) {
  const uint64_t bytes = kept_bytes(frames_);
  const Status sized = give_size(fd_.get(), bytes);
  if (sized.ok()) return {};
  return refuse(why, fmt::format("there is no room for {}", format_size(bytes)).c_str(), sized.code());
}

Status KeptMemory::map(std::string* why) {
  const uint64_t frames_at = kept_frames_at(frames_);
  auto table = MappedMemory::of_file(fd_.get(), 0, frames_at);
  if (!table.ok()) return refuse(why, "cannot be mapped", table.code());
  auto frames = MappedMemory::of_file(fd_.get(), frames_at, frames_ * kBlockBytes);
  if (!frames.ok()) return refuse(why, "cannot be mapped", frames.code());
  table_memory_ = std::move(*table);
  if (kept_keys_fit(frames_)) {  // keys are in no core dump
    const auto keys = table_memory_.bytes().subspan(kept_keys_at(frames_));
    madvise(keys.data(), keys.size(), MADV_DONTDUMP);
  }
  frames_memory_ = std::move(*frames);
  madvise(frames_memory_.bytes().data(), frames_memory_.bytes().size(), MADV_HUGEPAGE);  // a wish
  return {};
}

Status KeptMemory::make(std::string* why) {
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return refuse(why, "cannot be examined", errno);
  table_.reset();
  table_ = KeptTable::make(table_memory_.bytes(), frames_, place_of(info));
  contents_ = {};
  is_new_ = true;
  return {};
}

Status KeptMemory::load(std::string* why) {
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return refuse(why, "cannot be examined", errno);
  std::string what;
  {
    const uint64_t bytes = static_cast<uint64_t>(info.st_size);
    if (bytes < kBlockBytes) return refuse(why, EUCLEAN, "is not a brick's memory; it is left as it is");
    const auto first = MappedMemory::of_file(fd_.get(), 0, kBlockBytes);
    if (!first.ok()) return refuse(why, "cannot be mapped", first.code());
    const auto frames = KeptTable::look(first->bytes(), place_of(info), &what);
    if (!frames.ok() && !frames.error().is(ENODATA)) return refuse(why, frames.code(), what);
    if (frames.ok() && *frames != frames_) {
      return refuse(why, EINVAL,
                    fmt::format("holds {}, not the {} that were asked for: give --memory {}, or give up what is there",
                                format_size(*frames * kBlockBytes), format_size(frames_ * kBlockBytes),
                                format_size(*frames * kBlockBytes)));
    }
    if (bytes != kept_bytes(frames_)) {
      return refuse(why, EUCLEAN,
                    fmt::format("is {} bytes long, not {}; it is left as it is", bytes, kept_bytes(frames_)));
    }
  }
  TRY(map(why));
  if (what.empty() && static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes < static_cast<uint64_t>(info.st_size)) {
    what = "has lost pages";
  }
  if (what.empty()) {
    auto table = KeptTable::open(table_memory_.bytes(), frames_, &contents_, &what);
    if (table.ok()) {
      table_ = std::move(*table);
      return {};
    }
  }
  log::error("memory kept in {} {}: it is given up: all that was in it is gone, and mounts of it fail", name_, what);
  TRY(resize(why));
  return make(why);
}

void KeptMemory::tell() const {
  if (is_new_) return log::info("memory is kept in {}: it outlives brickd", name_);
  log::info(
      "memory kept in {}: {} blocks are as they were left by a brickd that {}; all that is said of them is proved",
      name_, contents_.entries.size(), contents_.sealed ? "ended in order" : "ended without a word");
}

}  // namespace brickfs
