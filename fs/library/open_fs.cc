// SPDX-License-Identifier: Apache-2.0
// Opening and closing a file system, and what concerns all of it.
#include "fs/library/open_fs.h"

#include <cstring>
#include <utility>

#include "fs/library/open_shared.h"
#include "fs/library/quiet.h"
#include "fs/library/signals_blocked.h"
#include "fs/operations/ending.h"
#include "transport/base/mutex.h"

namespace brickfs::library {
namespace {

VolumeOptions volume_options(const OpenPlan& plan, brickfs_fs& fs) {
  VolumeOptions options;
  options.open = plan.request;
  options.embedded = plan.source.embedded();
  options.soft = plan.options.soft;
  options.on_commit_wanted = [target = fs.commit_target] {
    if (Filesystem* const filesystem = *target) filesystem->want_commit();
  };
  return options;
}

Status mount(const OpenPlan& plan, brickfs_fs& fs, std::string* why) {
  std::unique_ptr<VolumeSet> volume;
  const VolumeOptions options = volume_options(plan, fs);
  const OpenOnce once = [&](SourceFailure& failure) -> Status {
    volume = TRY(open_source(plan.source, plan.name, {plan.secret, plan.options.etcd}, options, false, failure));
    return {};
  };
  TRY(open_when_free(plan, once, why));
  const Status durable = check_durability(plan, volume->session().durability, why);
  if (!durable.ok()) {
    static_cast<void>(volume->close());  // or the brick would hold it for us
    return durable.error();
  }
  std::string reason;
  auto mounted = Filesystem::mount(std::move(volume),
                                   {.read_only = plan.options.read_only, .no_atime = plan.options.no_atime}, &reason);
  if (!mounted.ok()) {
    *why = plan.name + ": " + (reason.empty() ? strerror(mounted.code()) : reason);
    return mounted.error();
  }
  fs.filesystem = std::move(*mounted);
  *fs.commit_target = fs.filesystem.get();
  return {};
}

Status open(const char* source, const char* options, brickfs_fs& fs, std::string* why) {
  const OpenPlan plan = TRY(plan_open(source, options, why));
  if (plan.options.follow) {
    *why = "option follow is for blocks: files are not read beside who writes them";
    return Error(EINVAL, "options");
  }
  fs.name = plan.name;
  fs.options = plan.options;
  fs.caller = {.uid = plan.options.uid,
               .gid = plan.options.gid,
               .umask = plan.options.umask,
               .in_group = [](uint32_t) { return true; },
               .groups = [] { return Groups{.all = true}; },
               .is_administrator = [] { return true; }};
  fs.workers.emplace(plan.options.workers);
  if (!plan.options.shared) return mount(plan, fs, why);
  fs.shared.emplace(TRY(open_shared(plan, why)));
  return {};
}

// The end of a file system, as that of a mount's process: what does not come to its end is given up after `linger`.
class Closing {
 public:
  explicit Closing(brickfs_fs& fs) : fs_(fs), ending_(fs.files(), fs.options.linger) {}
  ~Closing() { stop_watching(); }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

  // With one line in `why` if not all is committed.
  Status run(std::string* why) {
    ending_.begin();
    fs_.workers->run([this] { watch(); });  // without a thread for it: for ever
    const Status unmounted = fs_.shared ? fs_.shared->unmount() : fs_.filesystem->unmount();
    stop_watching();
    const Status outcome = ending_.outcome(unmounted);
    if (outcome.ok()) return {};
    const std::string lost = ending_.gave_up() ? ending_.lost() : describe(fs_.files().uncommitted());
    *why = fs_.name + ": closed; " +
           (lost.empty() ? outcome.error().what()
                         : "not committed, and lost as far as it has not reached the brick: " + lost);
    return outcome;
  }

 private:
  // Also where the unmount ends by an exception.
  void stop_watching() {
    {
      MutexLock lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    fs_.workers.reset();
  }
  void watch() {
    constexpr std::chrono::milliseconds kLook{100};
    MutexLock lock(mutex_);
    while (!ended_) {
      changed_.wait_for(lock, kLook);
      lock.unlock();
      ending_.check();
      lock.lock();
    }
  }

  brickfs_fs& fs_;
  Ending ending_;
  Mutex mutex_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace
}  // namespace brickfs::library

using namespace brickfs::library;

int brickfs_fs_open(const char* source, const char* options, brickfs_fs** fs) {
  return guarded([&]() -> int {
    if (source == nullptr || fs == nullptr) return -EFAULT;
    be_quiet();
    const SignalsBlocked blocked;
    std::string why;
    auto opened = std::make_unique<brickfs_fs>();
    const brickfs::Status status = open(source, options, *opened, &why);
    set_open_error(status.ok() ? std::string() : why.empty() ? std::string(strerror(status.code())) : std::move(why));
    if (status.ok()) *fs = opened.release();
    return code_of(status);
  });
}

int brickfs_fs_close(brickfs_fs* fs) {
  return guarded([&]() -> int {
    if (fs == nullptr) return -EFAULT;
    if (!fs->children.none()) return -EBUSY;
    const std::unique_ptr<brickfs_fs> gone(fs);
    *gone->commit_target = nullptr;
    std::string why;
    const brickfs::Status closed = Closing(*gone).run(&why);
    set_open_error(std::move(why));
    return code_of(closed);
  });
}

int brickfs_fs_abandon(brickfs_fs* fs) {
  return guarded([&]() -> int {
    if (fs == nullptr) return -EFAULT;
    fs->abandoned = true;
    fs->locks.end_waits();
    if (fs->shared) static_cast<void>(fs->files().release_machine_locks(0));  // and who waits for one ends
    fs->files().volume().interrupt();
    return 0;
  });
}

int brickfs_fs_sync(brickfs_fs* fs) {
  return served(fs, [&]() -> int { return code_of(fs->files().sync_all(context())); });
}

int brickfs_fs_is_read_only(brickfs_fs* fs) {
  return served(fs, [&]() -> int { return fs->files().read_only() ? 1 : 0; });
}

int brickfs_fs_statvfs(brickfs_fs* fs, struct statvfs* stat) {
  return served(fs, [&]() -> int {
    if (stat == nullptr) return -EFAULT;
    const brickfs::FilesystemStat now = fs->files().stat();
    *stat = {};
    stat->f_bsize = stat->f_frsize = now.unit_bytes;
    stat->f_blocks = now.total_units;
    stat->f_bfree = stat->f_bavail = now.free_units;
    stat->f_files = now.inodes + now.free_inodes;
    stat->f_ffree = stat->f_favail = now.free_inodes;
    stat->f_namemax = brickfs::limits::kNameBytes;
    return 0;
  });
}

int brickfs_fs_buffer(brickfs_fs* fs, void* memory, size_t length, brickfs_buffer** buffer) {
  return served(fs, [&]() -> int {
    if (buffer == nullptr) return -EFAULT;
    const auto made = make_buffer(memory, length, fs->children, [&](std::span<std::byte> bytes) {
      return fs->files().volume().register_memory(bytes);
    });
    if (!made.ok()) return code_of(made.error());
    *buffer = *made;
    return 0;
  });
}
