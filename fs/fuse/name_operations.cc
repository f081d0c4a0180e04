// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdint>

#include "fs/fuse/operations.h"
#include "fs/fuse/reply.h"

// linux/fs.h has these, and macros that break C++ headers.
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#define RENAME_EXCHANGE (1 << 1)
#define RENAME_WHITEOUT (1 << 2)
#endif

namespace brickfs {
namespace {

void lookup(fuse_req_t request, fuse_ino_t directory, const char* name) {
  const auto found = filesystem_of(request).lookup(ino_of(directory), name);
  if (found.ok() || !found.error().is(ENOENT)) return reply_entry(request, found);
  // That there is none holds for as long, too: inode 0 makes the kernel remember it.
  fuse_entry_param none{};
  if (ino_of(directory) != kRootIno || mount_of(request).note_missing(name)) none.entry_timeout = kForeverSeconds;
  fuse_reply_entry(request, &none);
}

void forget(fuse_req_t request, fuse_ino_t ino, uint64_t references) {
  filesystem_of(request).forget(ino_of(ino), references);
  fuse_reply_none(request);
}

void forget_multi(fuse_req_t request, size_t count, fuse_forget_data* forgets) {
  Filesystem& filesystem = filesystem_of(request);
  for (size_t i = 0; i < count; ++i) filesystem.forget(ino_of(forgets[i].ino), forgets[i].nlookup);
  fuse_reply_none(request);
}

// Of a change of names: on a mount with `dirsync` (or `sync`) it is durable before it is answered for.
Status settle(fuse_req_t request, const Status& changed) {
  return changed.ok() && mount_of(request).syncs_names() ? filesystem_of(request).sync_all() : changed;
}

Result<Attributes> settle(fuse_req_t request, Result<Attributes> made) {
  if (!made.ok()) return made;
  const Status settled = settle(request, Status());
  if (settled.ok()) return made;
  filesystem_of(request).forget(made->ino, 1);
  return settled.error();
}

void create(fuse_req_t request, fuse_ino_t directory, const char* name, mode_t mode, fuse_file_info* file) {
  Filesystem& filesystem = filesystem_of(request);
  const auto made = settle(request, filesystem.create(ino_of(directory), name, mode, caller_of(request)));
  if (!made.ok()) return reply_error(request, made.error());
  mount_of(request).drop_attributes(ino_of(directory));
  const fuse_entry_param entry = to_entry(*made);
  file->keep_cache = 1;
  if (fuse_reply_create(request, &entry, file) != 0) filesystem.forget(made->ino, 1);
}

// A new name in a directory, which stamps it.
void reply_made(fuse_req_t request, fuse_ino_t directory, Result<Attributes> made) {
  mount_of(request).drop_attributes(ino_of(directory));
  reply_entry(request, settle(request, std::move(made)));
}

void mknod(fuse_req_t request, fuse_ino_t directory, const char* name, mode_t mode, dev_t device) {
  reply_made(request, directory,
             filesystem_of(request).make_node(ino_of(directory), name, mode, static_cast<uint32_t>(device),
                                              caller_of(request)));
}

void mkdir(fuse_req_t request, fuse_ino_t directory, const char* name, mode_t mode) {
  reply_made(request, directory,
             filesystem_of(request).make_directory(ino_of(directory), name, mode, caller_of(request)));
}

void symlink(fuse_req_t request, const char* target, fuse_ino_t directory, const char* name) {
  reply_made(request, directory,
             filesystem_of(request).make_symlink(ino_of(directory), name, target, caller_of(request)));
}

void link(fuse_req_t request, fuse_ino_t ino, fuse_ino_t directory, const char* name) {
  reply_made(request, directory, filesystem_of(request).link(ino_of(ino), ino_of(directory), name));
}

void unlink(fuse_req_t request, fuse_ino_t directory, const char* name) {
  const Status status = filesystem_of(request).unlink(ino_of(directory), name);
  mount_of(request).drop_attributes(ino_of(directory));
  reply_status(request, settle(request, status));
}

void rmdir(fuse_req_t request, fuse_ino_t directory, const char* name) {
  const Status status = filesystem_of(request).remove_directory(ino_of(directory), name);
  mount_of(request).drop_attributes(ino_of(directory));
  reply_status(request, settle(request, status));
}

void rename(fuse_req_t request, fuse_ino_t directory, const char* name, fuse_ino_t new_directory, const char* new_name,
            unsigned flags) {
  const Caller caller = caller_of(request);
  const Caller* const whiteout = (flags & RENAME_WHITEOUT) != 0 ? &caller : nullptr;
  Rename how = Rename::kReplace;
  switch (flags & ~unsigned{RENAME_WHITEOUT}) {
    case 0:
      break;
    case RENAME_NOREPLACE:
      how = Rename::kNoReplace;
      break;
    case RENAME_EXCHANGE:
      how = Rename::kExchange;
      if (whiteout == nullptr) break;
      [[fallthrough]];
    default:
      fuse_reply_err(request, EINVAL);
      return;
  }
  const auto renamed =
      filesystem_of(request).rename(ino_of(directory), name, ino_of(new_directory), new_name, how, whiteout);
  if (!renamed.ok()) return reply_error(request, renamed.error());
  FuseMount& mount = mount_of(request);
  for (const Ino stamped : {ino_of(directory), ino_of(new_directory), renamed->moved, renamed->exchanged}) {
    mount.drop_attributes(stamped);
  }
  reply_status(request, settle(request, {}));
}

void readlink(fuse_req_t request, fuse_ino_t ino) {
  const auto target = filesystem_of(request).read_symlink(ino_of(ino));
  if (!target.ok()) return reply_error(request, target.error());
  fuse_reply_readlink(request, target->c_str());
}

}  // namespace

void set_name_operations(fuse_lowlevel_ops& operations) {
  operations.lookup = lookup;
  operations.forget = forget;
  operations.forget_multi = forget_multi;
  operations.create = create;
  operations.mknod = mknod;
  operations.mkdir = mkdir;
  operations.symlink = symlink;
  operations.link = link;
  operations.unlink = unlink;
  operations.rmdir = rmdir;
  operations.rename = rename;
  operations.readlink = readlink;
}

}  // namespace brickfs
