// SPDX-License-Identifier: Apache-2.0
// A file system, and an open file of it, as the C interface has them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fs/library/brickfs.h"
#include "fs/library/buffer.h"
#include "fs/library/call.h"
#include "fs/library/file_locks.h"
#include "fs/library/options.h"
#include "fs/library/patience.h"
#include "fs/library/workers.h"
#include "fs/operations/filesystem.h"
#include "fs/operations/gate.h"

struct brickfs_fs {
  // Of a volume that other machines have, too.
  struct Shared {
    brickfs::FileOperations& files;
    std::function<brickfs::Status()> unmount;  // it may be left, or given up, behind that
    std::shared_ptr<void> owner;
  };
  brickfs::FileOperations& files() { return shared ? shared->files : *filesystem; }
  // Before each call: fs/operations/gate.h. ECANCELED: given up.
  brickfs::Status gate() {
    if (abandoned) return brickfs::Error(ECANCELED, "the file system was given up");
    return brickfs::gate(files());
  }

  std::string name;  // the source as it was given
  brickfs::library::Options options;
  brickfs::Caller caller;  // acts as root would, but new files are somebody's
  // The file system once it is mounted, until it is unmounted: whom the volume asks to commit.
  std::shared_ptr<std::atomic<brickfs::Filesystem*>> commit_target =
      std::make_shared<std::atomic<brickfs::Filesystem*>>(nullptr);
  std::unique_ptr<brickfs::Filesystem> filesystem;
  std::optional<Shared> shared;           // in the place of it
  std::atomic<uint64_t> files_opened{0};  // as their locks are told from each other
  brickfs::library::FileLocks locks;
  brickfs::library::Children children;
  std::optional<brickfs::library::Workers> workers;
  std::atomic<bool> abandoned{false};  // brickfs_fs_abandon()
};

struct brickfs_file {
  brickfs_file(brickfs_fs& of, brickfs::Ino number, int open_flags) : fs(of), ino(number), flags(open_flags) {
    fs.children.add();
  }
  ~brickfs_file() {
    if (!fs.shared) fs.locks.release_all(ino, this);
    if (fs.shared && has_locked) static_cast<void>(fs.files().release_locks(ino, 0, number));
    fs.files().forget(ino, 1);
    fs.children.remove();
  }
  brickfs_file(const brickfs_file&) = delete;
  brickfs_file& operator=(const brickfs_file&) = delete;

  brickfs::Status gate() { return fs.gate(); }
  bool reads() const;
  bool writes() const;
  brickfs::Touch touch() const;

  brickfs_fs& fs;
  const brickfs::Ino ino;  // a reference, given back at the end
  const int flags;         // of open(2)
  const uint64_t number{++fs.files_opened};
  std::atomic<bool> has_locked{false};  // on a shared volume, perhaps
  std::atomic<unsigned> under_way{0};   // requests of queues
};

namespace brickfs::library {

// One read or write of an open file, whole. Checks what the system call checks.
Result<uint64_t> read_file(brickfs_file& file, uint64_t offset, std::span<const LocalSlice> into);
Result<uint64_t> write_file(brickfs_file& file, uint64_t offset, std::span<const LocalSlice> from);
Status sync_file(brickfs_file& file);

struct stat to_stat(const Attributes& attributes);

// Of each call on a file system, or on what is open of one: as guarded(), and not for null, nor once the volume is lost
// or given up; and it says why it was interrupted.
template <typename Handle, typename Body>
auto served(Handle* handle, Body&& body) noexcept -> decltype(body()) {
  return guarded([&]() -> decltype(body()) {
    if (handle == nullptr) return -EFAULT;
    if (const Status refused = handle->gate(); !refused.ok()) return code_of(refused);
    return told(body());
  });
}

}  // namespace brickfs::library
