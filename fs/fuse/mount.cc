// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/mount.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/fuse.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "fs/fuse/mount_table.h"
#include "fs/fuse/operations.h"
#include "fs/fuse/place.h"
#include "transport/base/log.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"

extern char** environ;

namespace brickfs {
namespace {

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
    log::debug("libfuse: {}", text);
    MutexLock lock(instance().mutex_);
    instance().last_ = std::move(text);
  }
  std::string last() {
    MutexLock lock(mutex_);
    return last_.empty() ? std::string("for a reason it does not give") : last_;
  }

 private:
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
  if (!has_option(command.kernel_options, "fsname=")) options.push_back("fsname=" + command.source);
  if (!has_option(command.kernel_options, "subtype=")) options.emplace_back("subtype=brickfs");
  if (geteuid() == 0) {
    if (!has_option(command.kernel_options, "nodev")) options.emplace_back("dev");
    if (!has_option(command.kernel_options, "nosuid")) options.emplace_back("suid");
  }
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

ssize_t receive_hook(int fd, void* buffer, size_t size, void*) { return ::read(fd, buffer, size); }

constexpr const char* kUmountHelper = "/sbin/umount.fuse.brickfs";

// Runs a program of the system, without a word, to its end.
Status run_quietly(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
  }
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Error(failed, "running a program");
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Status() : Error(EIO, "a program that was run");
}

}  // namespace

FuseMount::FuseMount(Filesystem& filesystem, const MountCommand& command)
    : filesystem_(filesystem),
      mountpoint_(command.mountpoint),
      writeback_cache_(command.writeback_cache),
      pages_([this](Ino ino, uint64_t offset, uint64_t length) {
        fuse_lowlevel_notify_inval_inode(session_, raw(ino), static_cast<off_t>(offset), static_cast<off_t>(length));
      }) {}

Result<std::unique_ptr<FuseMount>> FuseMount::attach(Filesystem& filesystem, const MountCommand& command,
                                                     std::string* why) {
  std::unique_ptr<FuseMount> mount(new FuseMount(filesystem, command));
  TRY(mount->start_session(command, why));
  return mount;
}

Status FuseMount::start_session(const MountCommand& command, std::string* why) {
  fuse_set_log_func(LibfuseLog::receive);
  std::string program = "brickfs";
  std::string flag = "-o";
  std::string options = join_options(libfuse_options(command, filesystem_.read_only()));
  std::array<char*, 4> values = {program.data(), flag.data(), options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, values.data());
  const fuse_lowlevel_ops operations = make_fuse_operations();
  session_ = fuse_session_new(&arguments, &operations, sizeof(operations), this);
  fuse_opt_free_args(&arguments);
  if (session_ == nullptr) {
    *why = fmt::format("libfuse refuses the mount options: {}", LibfuseLog::instance().last());
    return Error(EINVAL, "fuse session");
  }
  TRY(clear_dead_mounts(mountpoint_, why));
  if (fuse_session_mount(session_, mountpoint_.c_str()) != 0) {
    *why = fmt::format("cannot mount at {}: {}", mountpoint_, LibfuseLog::instance().last());
    return Error(EIO, "fuse mount");
  }
  const fuse_custom_io hooks{
      .writev = send_hook, .read = receive_hook, .splice_receive = nullptr, .splice_send = nullptr};
  if (fuse_session_custom_io(session_, &hooks, device()) != 0) return Error(ENOMEM, "fuse session");
  if (const auto entry = find_mount_at(mountpoint_)) {
    device_number_ = entry->device;
    listed_source_ = entry->source;
  }
  touch_permission_ = std::make_unique<TouchPermission>(mountpoint_, device_number_);
  filesystem_.ask_before_touching([this] { return touch_permission_->may_touch(); });
  return {};
}

FuseMount::~FuseMount() {
  filesystem_.ask_before_touching(nullptr);
  if (session_ == nullptr) return;
  if (!is_severed() && is_mounted()) unmount_lazily();
  // Of a live connection this would unmount whatever is on the mountpoint by now.
  if (is_severed()) fuse_session_unmount(session_);
  fuse_session_destroy(session_);  // closes the device
}

// As long as the connection lives, its device number is its own; later it may be another mount's, which then answers.
bool FuseMount::is_mounted() const {
  const auto entry = find_mount_at(mountpoint_);
  if (!entry || entry->device != device_number_) return false;
  if (!is_severed()) return true;
  return is_dead_mount(mountpoint_);
}

int FuseMount::device() const { return fuse_session_fd(session_); }

ssize_t FuseMount::send_hook(int, iovec* parts, int count, void* mount) {
  return static_cast<FuseMount*>(mount)->send(std::span(parts, static_cast<size_t>(count)));
}

ssize_t FuseMount::send(std::span<iovec> reply) {
  if (!initialised_.load(std::memory_order_relaxed) && amendment_.amend_reply(reply)) initialised_ = true;
  const auto& header = *static_cast<const fuse_out_header*>(reply[0].iov_base);
  FusePlace* const place = FusePlace::current();
  if (place != nullptr && place->serves(header.unique)) return place->send(reply);
  return ::writev(device(), reply.data(), static_cast<int>(reply.size()));
}

void FuseMount::unmount_lazily() const {
  if (umount2(mountpoint_.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) return;
  const int code = errno;
  if (code == EPERM && run_quietly({"fusermount3", "-u", "-q", "-z", "--", mountpoint_}).ok()) return;
  log::error("cannot unmount {}: {}; run: umount -l {}", mountpoint_, strerror(code), mountpoint_);
}

void FuseMount::detach() {
  if (is_severed() || !is_mounted()) return;
  const UniqueFd root(::open(mountpoint_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  unmount_lazily();
  if (root) syncfs(root.get());
}

bool FuseMount::is_severed() const {
  pollfd device_state{.fd = device(), .events = 0, .revents = 0};
  return poll(&device_state, 1, 0) == 1 && (device_state.revents & POLLERR) != 0;
}

void FuseMount::drop_attributes(Ino ino) {
  if (ino == kNoIno) return;
  const MutexLock lock(dropping_[raw(ino) % dropping_.size()]);
  if (filesystem_.take_told(ino)) fuse_lowlevel_notify_inval_inode(session_, raw(ino), -1, 0);
void FuseMount::drop_everything() {
  Ino from{1};
  for (std::vector<Ino> known; !(known = filesystem_.referenced_from(from)).empty();) {
    for (const Ino ino : known) {
      if (is_severed()) return;
      fuse_lowlevel_notify_inval_inode(session_, raw(ino), 0, 0);
    }
    from = Ino{raw(known.back()) + 1};
  }
}

}

// The name in the kernel's table would tell umount(8), but it looks at statfs(2), which tells no more than "fuse".
void FuseMount::register_umount_helper() const {
  if (geteuid() != 0 || access(kUmountHelper, X_OK) != 0) return;
  const Status told = run_quietly(
      {"mount", "-i", "-f", "-t", "fuse.brickfs", "-o", "uhelper=fuse.brickfs", listed_source_, mountpoint_});
  if (!told.ok())
    log::warn("umount will not wait until everything is durable: {} cannot be registered", kUmountHelper);
}

void FuseMount::raise_read_ahead() const {
  std::ofstream setting(fmt::format("/sys/class/bdi/{}/read_ahead_kb", device_number_));
  setting << kReadAheadBytes / kKiB << std::endl;
  if (!setting) log::debug("the kernel's read-ahead stays as it is");
}

}  // namespace brickfs
