// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "fs/fuse/answers.h"
#include "fs/fuse/mount.h"
#include "fs/fuse/operations.h"

// linux/fs.h has these, and macros that break C++ headers.
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#define RENAME_EXCHANGE (1 << 1)
#define RENAME_WHITEOUT (1 << 2)
#endif

namespace brickfs {
namespace {

void lookup(FuseMount& mount, FuseRequest& request) {
  const std::string_view name = request.name(0);
  const auto found = mount.filesystem().lookup(request.ino(), name);
  if (found.ok() || !found.error().is(ENOENT)) return answer_entry(request, mount.filesystem(), found);
  // That there is none holds for as long, too: inode 0 makes the kernel remember it.
  fuse_entry_out none{};
  if (request.ino() != kRootIno || mount.cache().note_missing(name)) none.entry_valid = kForeverSeconds;
  request.answer_with(none);
}

void forget(FuseMount& mount, FuseRequest& request, const fuse_forget_in& in) {
  mount.filesystem().forget(request.ino(), in.nlookup);
  request.dismiss();
}

void forget_many(FuseMount& mount, FuseRequest& request, const fuse_batch_forget_in& in) {
  const std::span<const std::byte> forgets = request.body(sizeof(in));
  constexpr size_t kOne = sizeof(fuse_forget_one);
  for (size_t i = 0; i < in.count && (i + 1) * kOne <= forgets.size(); ++i) {
    const auto one = load<fuse_forget_one>(forgets.subspan(i * kOne));
    mount.filesystem().forget(Ino{one.nodeid}, one.nlookup);
  }
  request.dismiss();
}

// Of a change of names: on a mount with `dirsync` (or `sync`) it is durable before it is answered for.
Status settle(FuseMount& mount, const Status& changed) {
  return changed.ok() && mount.syncs_names() ? mount.filesystem().sync_all() : changed;
}

Result<Attributes> settle(FuseMount& mount, Result<Attributes> made) {
  if (!made.ok()) return made;
  const Status settled = settle(mount, Status());
  if (settled.ok()) return made;
  mount.filesystem().forget(made->ino, 1);
  return settled.error();
}

void create(FuseMount& mount, FuseRequest& request, const fuse_create_in& in) {
  Filesystem& filesystem = mount.filesystem();
  answer_created(
      request, filesystem,
      settle(mount, filesystem.create(request.ino(), request.name(sizeof(in)), in.mode, request.caller(in.umask))));
}

void tmpfile(FuseMount& mount, FuseRequest& request, const fuse_create_in& in) {
  Filesystem& filesystem = mount.filesystem();
  answer_created(request, filesystem, filesystem.make_temporary(request.ino(), in.mode, request.caller(in.umask)));
}

void mknod(FuseMount& mount, FuseRequest& request, const fuse_mknod_in& in) {
  Filesystem& filesystem = mount.filesystem();
  answer_entry(request, filesystem,
               settle(mount, filesystem.make_node(request.ino(), request.name(sizeof(in)), in.mode, in.rdev,
                                                  request.caller(in.umask))));
}

void mkdir(FuseMount& mount, FuseRequest& request, const fuse_mkdir_in& in) {
  Filesystem& filesystem = mount.filesystem();
  answer_entry(request, filesystem,
               settle(mount, filesystem.make_directory(request.ino(), request.name(sizeof(in)), in.mode,
                                                       request.caller(in.umask))));
}

void symlink(FuseMount& mount, FuseRequest& request) {
  Filesystem& filesystem = mount.filesystem();
  const std::string_view name = request.name(0);
  const std::string_view target = request.name(name.size() + 1);
  answer_entry(request, filesystem,
               settle(mount, filesystem.make_symlink(request.ino(), name, target, request.caller())));
}

void link(FuseMount& mount, FuseRequest& request, const fuse_link_in& in) {
  Filesystem& filesystem = mount.filesystem();
  answer_entry(request, filesystem,
               settle(mount, filesystem.link(Ino{in.oldnodeid}, request.ino(), request.name(sizeof(in)))));
}

void unlink(FuseMount& mount, FuseRequest& request) {
  request.answer(settle(mount, mount.filesystem().unlink(request.ino(), request.name(0))));
}

void rmdir(FuseMount& mount, FuseRequest& request) {
  request.answer(settle(mount, mount.filesystem().remove_directory(request.ino(), request.name(0))));
}

Result<Rename> how_to_rename(uint32_t flags) {
  switch (flags & ~uint32_t{RENAME_WHITEOUT}) {
    case 0:
      return Rename::kReplace;
    case RENAME_NOREPLACE:
      return Rename::kNoReplace;
    case RENAME_EXCHANGE:
      if ((flags & RENAME_WHITEOUT) == 0) return Rename::kExchange;
      [[fallthrough]];
    default:
      return Error(EINVAL, "no such way to rename");
  }
}

void rename_with(FuseMount& mount, FuseRequest& request, Ino new_directory, uint32_t flags, size_t arguments_bytes) {
  const std::string_view name = request.name(arguments_bytes);
  const std::string_view new_name = request.name(arguments_bytes + name.size() + 1);
  const auto how = how_to_rename(flags);
  if (!how.ok()) return (void)request.answer(how.error());
  const Caller caller = request.caller();
  const auto renamed = mount.filesystem().rename(request.ino(), name, new_directory, new_name, *how,
                                                 (flags & RENAME_WHITEOUT) != 0 ? &caller : nullptr);
  if (!renamed.ok()) return (void)request.answer(renamed.error());
  for (const Ino ino : {new_directory, renamed->moved, renamed->exchanged}) request.stamped(ino);
  request.answer(settle(mount, Status()));
}

void rename(FuseMount& mount, FuseRequest& request, const fuse_rename_in& in) {
  rename_with(mount, request, Ino{in.newdir}, 0, sizeof(in));
}

void rename_by_flags(FuseMount& mount, FuseRequest& request, const fuse_rename2_in& in) {
  rename_with(mount, request, Ino{in.newdir}, in.flags, sizeof(in));
}

void readlink(FuseMount& mount, FuseRequest& request) {
  const auto target = mount.filesystem().read_symlink(request.ino());
  target.ok() ? request.answer(std::as_bytes(std::span(*target))) : request.answer(target.error());
}

constexpr std::array kNameOperations = {
    operation<lookup>(FUSE_LOOKUP, kStampsNothing),
    operation<forget, fuse_forget_in>(FUSE_FORGET, kStampsNothing),
    operation<forget_many, fuse_batch_forget_in>(FUSE_BATCH_FORGET, kStampsNothing),
    operation<create, fuse_create_in>(FUSE_CREATE),
    operation<tmpfile, fuse_create_in>(FUSE_TMPFILE, kStampsNothing),
    operation<mknod, fuse_mknod_in>(FUSE_MKNOD),
    operation<mkdir, fuse_mkdir_in>(FUSE_MKDIR),
    operation<symlink>(FUSE_SYMLINK),
    operation<link, fuse_link_in>(FUSE_LINK),
    operation<unlink>(FUSE_UNLINK),
    operation<rmdir>(FUSE_RMDIR),
    operation<rename, fuse_rename_in>(FUSE_RENAME),
    operation<rename_by_flags, fuse_rename2_in>(FUSE_RENAME2),
    operation<readlink>(FUSE_READLINK, kStampsNothing),
};

}  // namespace

std::span<const FuseOperation> name_operations() { return kNameOperations; }

}  // namespace brickfs
