// SPDX-License-Identifier: Apache-2.0
// The C interface to names: making, moving, removing and listing them.
#include <limits.h>
#include <sys/sysmacros.h>

#include <cstring>

#include "fs/library/open_fs.h"
#include "fs/library/path_walk.h"

namespace brickfs::library {
namespace {

enum class Makes { kDirectory, kOther };

// A new name; `make(directory, name)` answers with attributes.
template <typename Make>
Status make_name(brickfs_fs& fs, const char* path, Makes makes, Make make) {
  LastName last(fs.files());
  TRY(last.find(path));
  if (last.is_root() || last.is_dots()) return Error(EEXIST, "it is there");
  if (last.ends_with_slash() && makes == Makes::kOther) {
    const InodeRef found(fs.files(), TRY(fs.files().lookup(last.directory(), last.name())));
    return Error(EEXIST, "it is there");
  }
  const InodeRef made(fs.files(), TRY(make(last.directory(), last.name())));
  return {};
}

Status make_special(brickfs_fs& fs, const char* path, uint32_t mode, dev_t device) {
  if (device > UINT32_MAX) return Error(EINVAL, "device");
  const uint32_t type = mode & S_IFMT;
  if (type == S_IFDIR) return Error(EPERM, "a directory");
  return make_name(fs, path, Makes::kOther, [&](Ino directory, std::string_view name) -> Result<Attributes> {
    if (type == 0 || type == S_IFREG) return fs.files().create(directory, name, mode & 07777, fs.caller, context());
    return fs.files().make_node(directory, name, mode, static_cast<uint32_t>(device), fs.caller, context());
  });
}

Status make_link(brickfs_fs& fs, const char* path, const char* new_path) {
  const InodeRef inode = TRY(resolve(fs.files(), path, Follow::kNotLast));
  return make_name(fs, new_path, Makes::kOther, [&](Ino directory, std::string_view name) {
    return fs.files().link(inode.ino(), directory, name, context());
  });
}

Status make_symlink(brickfs_fs& fs, std::string_view target, const char* path) {
  if (target.empty()) return Error(ENOENT, "an empty target");
  if (target.size() >= PATH_MAX) return Error(ENAMETOOLONG, "the target is too long");
  return make_name(fs, path, Makes::kOther, [&](Ino directory, std::string_view name) {
    return fs.files().make_symlink(directory, name, target, fs.caller, context());
  });
}

Status remove_name(brickfs_fs& fs, const char* path) {
  LastName last(fs.files());
  TRY(last.find(path));
  if (last.is_root() || last.is_dots()) return Error(EISDIR, "a directory");
  if (last.ends_with_slash()) {
    const InodeRef found = TRY(last.lookup());
    return Error(found.is_directory() ? EISDIR : ENOTDIR, "the path ends with a slash");
  }
  return fs.files().unlink(last.directory(), last.name(), context());
}

Status remove_directory(brickfs_fs& fs, const char* path) {
  LastName last(fs.files());
  TRY(last.find(path));
  if (last.is_root()) return Error(EBUSY, "the root");
  if (last.is_dots()) return Error(last.name() == "." ? EINVAL : ENOTEMPTY, "not a name");
  return fs.files().remove_directory(last.directory(), last.name(), context());
}

Result<Rename> rename_kind(unsigned flags) {
  switch (flags) {
    case 0:
      return Rename::kReplace;
    case 1:  // RENAME_NOREPLACE
      return Rename::kNoReplace;
    case 2:  // RENAME_EXCHANGE
      return Rename::kExchange;
    default:
      return Error(EINVAL, "flags of a rename");
  }
}

// Behind a name with a slash there has to be a directory. In the kernel's order.
Status check_slashes(brickfs_fs& fs, const LastName& from, const LastName& to, Rename how) {
  const InodeRef moved(fs.files(), TRY(fs.files().lookup(from.directory(), from.name())));
  const auto there = fs.files().lookup(to.directory(), to.name());
  if (there.ok()) fs.files().forget(there->ino, 1);
  if (there.ok() && how == Rename::kNoReplace) return Error(EEXIST, "it is there");
  if (how == Rename::kExchange) {
    if (!there.ok()) return there.error();
    if (to.ends_with_slash() && !S_ISDIR(there->mode)) return Error(ENOTDIR, "not a directory");
  }
  const bool matters = from.ends_with_slash() || how != Rename::kExchange;
  if (matters && !moved.is_directory()) return Error(ENOTDIR, "not a directory");
  return {};
}

Status rename_path(brickfs_fs& fs, const char* from_path, const char* to_path, unsigned flags) {
  const Rename how = TRY(rename_kind(flags));
  LastName from(fs.files());
  LastName to(fs.files());
  TRY(from.find(from_path));
  TRY(to.find(to_path));
  if (from.is_root() || from.is_dots()) return Error(EBUSY, "not a name");
  if (to.is_root() || to.is_dots()) return Error(how == Rename::kNoReplace ? EEXIST : EBUSY, "not a name");
  if (from.ends_with_slash() || to.ends_with_slash()) TRY(check_slashes(fs, from, to, how));
  static_cast<void>(
      TRY(fs.files().rename(from.directory(), from.name(), to.directory(), to.name(), how, nullptr, context())));
  return {};
}

template <typename Call>
int on_path(brickfs_fs* fs, const char* path, Call call) {
  return served(fs, [&]() -> int {
    if (path == nullptr) return -EFAULT;
    return code_of(call(*fs));
  });
}

}  // namespace
}  // namespace brickfs::library

struct brickfs_dir {
  brickfs_dir(brickfs_fs& of, brickfs::library::InodeRef directory) : fs(of), inode(std::move(directory)) {
    fs.children.add();
  }
  ~brickfs_dir() { fs.children.remove(); }
  brickfs::Status gate() { return fs.gate(); }

  brickfs_fs& fs;
  const brickfs::library::InodeRef inode;
  uint64_t next = 0;  // behind what was read ahead
  bool at_end = false;
  std::vector<brickfs_dirent> ahead;
  size_t used = 0;  // of these
};

namespace brickfs::library {
namespace {

constexpr size_t kEntriesAhead = 128;

Status read_ahead(brickfs_dir& dir) {
  dir.ahead.clear();
  dir.used = 0;
  const auto visitor = [&](const DirectoryEntry& entry) {
    if (dir.ahead.size() == kEntriesAhead || entry.name.size() >= sizeof(brickfs_dirent::name)) return false;
    brickfs_dirent& out = dir.ahead.emplace_back();
    out.ino = raw(entry.ino);
    out.next = entry.next_offset;
    out.type = entry.type;
    out.length = static_cast<uint32_t>(entry.name.size());
    std::memcpy(out.name, entry.name.data(), entry.name.size());
    return true;
  };
  TRY(dir.fs.files().read_directory(dir.inode.ino(), dir.next, false, visitor, Touch::kAtime, context()));
  dir.at_end = dir.ahead.size() < kEntriesAhead;
  if (!dir.ahead.empty()) dir.next = dir.ahead.back().next;
  return {};
}

// False: there are no more.
Result<bool> next_entry(brickfs_dir& dir, brickfs_dirent& entry, struct stat* stat) {
  for (;;) {
    if (dir.used == dir.ahead.size()) {
      if (dir.at_end) return false;
      TRY(read_ahead(dir));
      if (dir.ahead.empty()) return false;
    }
    entry = dir.ahead[dir.used++];
    if (stat == nullptr) return true;
    const auto attributes = dir.fs.files().get_attributes(Ino{entry.ino});
    if (!attributes.ok()) continue;  // removed meanwhile
    *stat = to_stat(*attributes);
    return true;
  }
}

}  // namespace
}  // namespace brickfs::library

using namespace brickfs::library;

int brickfs_mkdir(brickfs_fs* fs, const char* path, mode_t mode) {
  return on_path(fs, path, [&](brickfs_fs& of) {
    return make_name(of, path, Makes::kDirectory, [&](brickfs::Ino directory, std::string_view name) {
      return of.files().make_directory(directory, name, mode & 07777, of.caller, context());
    });
  });
}

int brickfs_rmdir(brickfs_fs* fs, const char* path) {
  return on_path(fs, path, [&](brickfs_fs& of) { return remove_directory(of, path); });
}

int brickfs_unlink(brickfs_fs* fs, const char* path) {
  return on_path(fs, path, [&](brickfs_fs& of) { return remove_name(of, path); });
}

int brickfs_rename(brickfs_fs* fs, const char* from, const char* to, unsigned flags) {
  if (to == nullptr) return -EFAULT;
  return on_path(fs, from, [&](brickfs_fs& of) { return rename_path(of, from, to, flags); });
}

int brickfs_link(brickfs_fs* fs, const char* path, const char* new_path) {
  if (new_path == nullptr) return -EFAULT;
  return on_path(fs, path, [&](brickfs_fs& of) { return make_link(of, path, new_path); });
}

int brickfs_symlink(brickfs_fs* fs, const char* target, const char* path) {
  if (target == nullptr) return -EFAULT;
  return on_path(fs, path, [&](brickfs_fs& of) { return make_symlink(of, target, path); });
}

int64_t brickfs_readlink(brickfs_fs* fs, const char* path, char* target, size_t size) {
  return served(fs, [&]() -> int64_t {
    if (path == nullptr || (target == nullptr && size > 0)) return -EFAULT;
    const auto found = resolve(fs->files(), path, Follow::kNotLast);
    if (!found.ok()) return code_of(found.error());
    if (!found->is_link()) return -EINVAL;
    const auto text = fs->files().read_symlink(found->ino());
    if (!text.ok()) return code_of(text.error());
    if (size > 0) std::memcpy(target, text->data(), std::min(size, text->size()));
    return static_cast<int64_t>(text->size());
  });
}

int brickfs_mknod(brickfs_fs* fs, const char* path, mode_t mode, dev_t device) {
  return on_path(fs, path, [&](brickfs_fs& of) { return make_special(of, path, mode, device); });
}

int brickfs_opendir(brickfs_fs* fs, const char* path, brickfs_dir** dir) {
  return served(fs, [&]() -> int {
    if (path == nullptr || dir == nullptr) return -EFAULT;
    auto found = resolve(fs->files(), path, Follow::kLinks);
    if (!found.ok()) return code_of(found.error());
    if (!found->is_directory()) return -ENOTDIR;
    *dir = new brickfs_dir(*fs, std::move(*found));
    return 0;
  });
}

int brickfs_closedir(brickfs_dir* dir) {
  return guarded([&]() -> int {
    if (dir == nullptr) return -EFAULT;
    delete dir;
    return 0;
  });
}

int brickfs_readdir(brickfs_dir* dir, brickfs_dirent* entry, struct stat* stat) {
  return served(dir, [&]() -> int {
    if (entry == nullptr) return -EFAULT;
    const auto found = next_entry(*dir, *entry, stat);
    return found.ok() ? static_cast<int>(*found) : code_of(found.error());
  });
}

int brickfs_seekdir(brickfs_dir* dir, uint64_t where) {
  return served(dir, [&]() -> int {
    dir->ahead.clear();
    dir->used = 0;
    dir->at_end = false;
    dir->next = where;
    return 0;
  });
}
