// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/mount.h"

#define FUSE_USE_VERSION 314

#include <fcntl.h>
#include <fmt/core.h>
#include <fuse3/fuse_lowlevel.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fs/fuse/cache/writeback_cache.h"
#include "fs/fuse/protocol/buffers.h"
#include "fs/mount/mount_flags.h"
#include "fs/mount/mount_program.h"
#include "fs/mount/status/mount_table.h"
#include "transport/base/log.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

namespace {

// What a program that this process starts (fusermount3, by libfuse) says on standard error.
//
// Threads: one at a time; what others write meanwhile gets to where it should, a moment later.
class CapturedStderr {
 public:
  // From now on. Without memory for it nothing is captured.
  CapturedStderr();
  ~CapturedStderr() { (void)take({}); }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  // Until now: the last line that begins with the program's name and a colon, without them, or nothing. Lines of others
  // go to standard error.
  std::string take(std::string_view program);

 private:
  UniqueFd kept_;  // a file in memory
  UniqueFd standard_error_;
};

std::string read_from_start(int fd) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t bytes = 0; (bytes = pread(fd, part.data(), part.size(), static_cast<off_t>(text.size()))) > 0;) {
    text.append(part.data(), static_cast<size_t>(bytes));
  }
  return text;
}

CapturedStderr::CapturedStderr()
    : kept_(memfd_create("standard error", MFD_CLOEXEC)), standard_error_(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
  if (kept_ && standard_error_) dup2(kept_.get(), STDERR_FILENO);
}

std::string CapturedStderr::take(std::string_view program) {
  std::string last;
  if (!kept_ || !standard_error_) return last;
  dup2(standard_error_.get(), STDERR_FILENO);
  std::istringstream lines(read_from_start(kept_.get()));
  kept_.reset();
  const std::string start = std::string(program) + ": ";
  for (std::string line; std::getline(lines, line);) {
    if (!program.empty() && line.starts_with(start)) {
      last = line.substr(start.size());
    } else {
      line.push_back('\n');
      (void)!::write(STDERR_FILENO, line.data(), line.size());
    }
  }
  return last;
}

constexpr const char* kFusermount = "fusermount3";  // which mounts for those who may not

// What libfuse said last; it has no other way to tell why it failed.
class LibfuseLog {
 public:
  static LibfuseLog& instance() {
    static LibfuseLog log;
    return log;
  }
  static void receive(fuse_log_level, const char* format, va_list arguments) {
    std::array<char, 1024> line{};
    vsnprintf(line.data(), line.size(), format, arguments);
    std::string text(line.data());
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (getpid() != instance().process_) {  // a child, about to become fusermount3, that did not
      text = fmt::format("{}: {}\n", kFusermount, text);
      (void)!::write(STDERR_FILENO, text.data(), text.size());
      return;
    }
    log::debug("libfuse: {}", text);
    MutexLock lock(instance().mutex_);
    instance().last_ = std::move(text);
  }
  std::string last() {
    MutexLock lock(mutex_);
    return last_.empty() ? std::string("for a reason it does not give") : last_;
  }

 private:
  const pid_t process_ = getpid();
  Mutex mutex_;
  std::string last_ ABSL_GUARDED_BY(mutex_);
};

bool has_option(const std::vector<std::string>& options, std::string_view start) {
  return std::any_of(options.begin(), options.end(),
                     [start](const std::string& option) { return option.starts_with(start); });
}

// For libfuse: -o's of its own and of the kernel. A root user's mount has devices and set-uid programs, as any other
// has.
std::vector<std::string> libfuse_options(const MountCommand& command, bool read_only) {
  std::vector<std::string> options = {"default_permissions"};
  options.push_back("fsname=" + command.listed_source());
  if (!has_option(command.kernel_options, "subtype=")) options.emplace_back("subtype=brickfs");
  if (geteuid() == 0) {
    if (!has_option(command.kernel_options, "nodev")) options.emplace_back("dev");
    if (!has_option(command.kernel_options, "nosuid")) options.emplace_back("suid");
  }
  if (is_for_everybody(command)) options.emplace_back("allow_other");
  if (read_only) options.emplace_back("ro");
  options.insert(options.end(), command.kernel_options.begin(), command.kernel_options.end());
  return options;
}

// As one -o argument; a comma or backslash within an option has a backslash before it.
std::string join_options(const std::vector<std::string>& options) {
  std::string joined;
  for (const std::string& option : options) {
    if (!joined.empty()) joined.push_back(',');
    for (const char c : option) {
      if (c == ',' || c == '\\') joined.push_back('\\');
      joined.push_back(c);
    }
  }
  return joined;
}

FuseSession::Rules rules_of(const MountCommand& command, Sharing sharing) {
  const auto& options = command.kernel_options;
  return {.writeback_cache = command.writeback == Writeback::kOn,
          .syncs_names = has_option(options, "sync") || has_option(options, "dirsync"),
          .only_owner_and_root = has_option(options, "allow_root"),
          .owner = getuid(),
          .sharing = sharing};
}

constexpr uint64_t kLeastDirtyLimit = 4 * kMiB;
constexpr std::chrono::milliseconds kAnswered{5'000};  // which requests are, of a mount that is detached
constexpr std::chrono::milliseconds kFailed{2'000};    // which they are, once the volume is lost
constexpr std::chrono::milliseconds kLook{2};
constexpr uint64_t kDirtyShare = 16;  // of the volume, at most, the kernel may have written and not written back

}  // namespace

FuseMount::FuseMount(FileOperations& files, const MountCommand& command, Sharing sharing)
    : files_(files), mountpoint_(command.mountpoint), session_(files, rules_of(command, sharing)) {}

Result<std::unique_ptr<FuseMount>> FuseMount::attach(FileOperations& files, const MountCommand& command,
                                                     Sharing sharing, std::string* why) {
  std::unique_ptr<FuseMount> mount(new FuseMount(files, command, sharing));
  TRY(mount->start_session(command, why));
  return mount;
}

Status FuseMount::start_session(const MountCommand& command, std::string* why) {
  fuse_set_log_func(LibfuseLog::receive);
  std::string program = "brickfs";
  std::string flag = "-o";
  std::string options = join_options(libfuse_options(command, files_.read_only()));
  std::array<char*, 4> values = {program.data(), flag.data(), options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, values.data());
  const fuse_lowlevel_ops operations{};  // requests are not its business
  libfuse_ = fuse_session_new(&arguments, &operations, sizeof(operations), this);
  fuse_opt_free_args(&arguments);
  if (libfuse_ == nullptr) {
    *why = fmt::format("libfuse refuses the mount options: {}", LibfuseLog::instance().last());
    return Error(EINVAL, "fuse session");
  }
  TRY(mount_session(why));
  session_.connect(device());
  if (const auto entry = find_mount_at(mountpoint_)) device_number_ = entry->device;
  TRY(add_mount_flags(command, why));
  if (session_.writeback() != nullptr) keep_room_for_writeback();
  touch_permission_ = std::make_unique<TouchPermission>(mountpoint_, device_number_);
  files_.ask_before_touching([this] { return touch_permission_->may_touch(); });
  return {};
}

Status FuseMount::mount_session(std::string* why) {
  CapturedStderr standard_error;
  if (fuse_session_mount(libfuse_, mountpoint_.c_str()) == 0) return {};
  std::string reason = standard_error.take(kFusermount);
  if (reason.empty()) reason = LibfuseLog::instance().last();
  *why = fmt::format("cannot mount at {}: {}", mountpoint_, reason);
  return Error(EIO, "fuse mount");
}

// Of a small volume so much would be kept that it were always short.
void FuseMount::keep_room_for_writeback() {
  const uint64_t most = std::max(files_.stat().total_units * kUnitBytes / kDirtyShare, kLeastDirtyLimit);
  auto limit = read_dirty_limit(device_number_);
  if (limit && *limit > most) limit = set_dirty_limit(device_number_, most);
  if (limit) {
    return session_.writeback()->keep_room(
        *limit, [device = device_number_](uint64_t bytes) { return set_dirty_limit(device, bytes); });
  }
  log::warn("the kernel does not say how much it may have in its write-back cache: no room is kept for that");
}

FuseMount::~FuseMount() {
  files_.ask_before_touching(nullptr);
  if (libfuse_ == nullptr) return;
  if (!is_severed() && is_mounted()) unmount_lazily();
  // Of a live connection this would unmount whatever is on the mountpoint by now.
  if (is_severed()) fuse_session_unmount(libfuse_);
  fuse_session_destroy(libfuse_);  // closes the device
}

// As long as the connection lives, its device number is its own; later it may be another mount's, which then answers.
std::vector<std::string> FuseMount::mountpoints() const {
  std::vector<std::string> places;
  for (const MountEntry& entry : find_mounts_of(device_number_)) {
    if (!is_severed() || is_dead_mount(entry.mountpoint)) places.push_back(entry.mountpoint);
  }
  return places;
}

bool FuseMount::is_mounted() const { return !mountpoints().empty(); }

int FuseMount::device() const { return fuse_session_fd(libfuse_); }

// Whatever lies over it stays.
void FuseMount::unmount_lazily() const {
  std::vector<std::string> places = mountpoints();
  std::reverse(places.begin(), places.end());  // one may be below another
  for (const std::string& place : places) {
    const auto top = find_mount_at(place);
    if (!top || top->device != device_number_ || umount2(place.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) continue;
    const int code = errno;
    if (code == EPERM && run_quietly({"fusermount3", "-u", "-q", "-z", "--", place}).ok()) continue;
    log::error("cannot unmount {}: {}; run: umount -l {}", place, strerror(code), place);
  }
}

// Most kernels call a page written as soon as its request is on its way.
void FuseMount::detach(const std::function<bool()>& gives_up) {
  if (is_severed()) return;
  const std::vector<std::string> places = mountpoints();
  if (places.empty()) return;
  const UniqueFd root(::open(places.front().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  unmount_lazily();
  if (root) ::syncfs(root.get());
  await_answers(kAnswered, gives_up);
}

void FuseMount::await_answers(std::chrono::milliseconds most, const std::function<bool()>& gives_up) const {
  const auto until = std::chrono::steady_clock::now() + most;
  while (waiting_requests(device_number_) > 0 && std::chrono::steady_clock::now() < until && !gives_up()) {
    std::this_thread::sleep_for(kLook);
  }
}

bool FuseMount::is_severed() const {
  pollfd device_state{.fd = device(), .events = 0, .revents = 0};
  return poll(&device_state, 1, 0) == 1 && (device_state.revents & POLLERR) != 0;
}

// What waited for a brick has its error soon. Before, its pages are locked, and whoever is killed while the kernel
// waits for them does not end, nor do those whose requests he has.
void FuseMount::drop_everything() {
  session_.locks().stop();
  await_answers(kFailed, [this] { return is_severed(); });
  session_.cache().drop_everything([this] { return is_severed(); });
}

void FuseMount::raise_read_ahead() const {
  std::ofstream setting(fmt::format("/sys/class/bdi/{}/read_ahead_kb", device_number_));
  setting << kReadAheadBytes / kKiB << std::endl;
  if (!setting) log::debug("the kernel's read-ahead stays as it is");
}

}  // namespace brickfs
