// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "fs/fuse/answers.h"
#include "fs/fuse/operations.h"
#include "fs/fuse/session.h"

// linux/fs.h has these, and macros that break C++ headers.
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#define RENAME_EXCHANGE (1 << 1)
#define RENAME_WHITEOUT (1 << 2)
#endif

namespace brickfs {
namespace {

void lookup(FuseSession& session, FuseRequest& request) {
  const std::string_view name = request.name(0);
  const auto found = session.filesystem().lookup(request.ino(), name, request.context());
  if (found.ok() || !found.error().is(ENOENT)) return answer_entry(request, session.filesystem(), found);
  // That there is none holds for as long, too: inode 0 makes the kernel remember it.
  fuse_entry_out none{};
  if (request.ino() != kRootIno || session.cache().note_missing(name)) none.entry_valid = kForeverSeconds;
  request.answer_with(none);
}

void forget(FuseSession& session, FuseRequest& request, const fuse_forget_in& in) {
  session.filesystem().forget(request.ino(), in.nlookup);
  request.dismiss();
}

void forget_many(FuseSession& session, FuseRequest& request, const fuse_batch_forget_in& in) {
  const std::span<const std::byte> forgets = request.body(sizeof(in));
  constexpr size_t kOne = sizeof(fuse_forget_one);
  for (size_t i = 0; i < in.count && (i + 1) * kOne <= forgets.size(); ++i) {
    const auto one = load<fuse_forget_one>(forgets.subspan(i * kOne));
    session.filesystem().forget(Ino{one.nodeid}, one.nlookup);
  }
  request.dismiss();
}

// Of a change of names: on a mount with `dirsync` (or `sync`) it is durable before it is answered for.
Status settle(FuseSession& session, FuseRequest& request, const Status& changed) {
  return changed.ok() && session.syncs_names() ? session.filesystem().sync_all(request.context()) : changed;
}

Result<Attributes> settle(FuseSession& session, FuseRequest& request, Result<Attributes> made) {
  if (!made.ok()) return made;
  const Status settled = settle(session, request, Status());
  if (settled.ok()) return made;
  session.filesystem().forget(made->ino, 1);
  return settled.error();
}

void create(FuseSession& session, FuseRequest& request, const fuse_create_in& in) {
  Filesystem& filesystem = session.filesystem();
  answer_created(request, filesystem,
                 settle(session, request,
                        filesystem.create(request.ino(), request.name(sizeof(in)), in.mode, request.caller(in.umask),
                                          request.context())));
}

void tmpfile(FuseSession& session, FuseRequest& request, const fuse_create_in& in) {
  Filesystem& filesystem = session.filesystem();
  answer_created(request, filesystem,
                 filesystem.make_temporary(request.ino(), in.mode, request.caller(in.umask), request.context()));
}

void mknod(FuseSession& session, FuseRequest& request, const fuse_mknod_in& in) {
  Filesystem& filesystem = session.filesystem();
  answer_entry(request, filesystem,
               settle(session, request,
                      filesystem.make_node(request.ino(), request.name(sizeof(in)), in.mode, in.rdev,
                                           request.caller(in.umask), request.context())));
}

void mkdir(FuseSession& session, FuseRequest& request, const fuse_mkdir_in& in) {
  Filesystem& filesystem = session.filesystem();
  answer_entry(request, filesystem,
               settle(session, request,
                      filesystem.make_directory(request.ino(), request.name(sizeof(in)), in.mode,
                                                request.caller(in.umask), request.context())));
}

void symlink(FuseSession& session, FuseRequest& request) {
  Filesystem& filesystem = session.filesystem();
  const std::string_view name = request.name(0);
  const std::string_view target = request.name(name.size() + 1);
  answer_entry(request, filesystem,
               settle(session, request,
                      filesystem.make_symlink(request.ino(), name, target, request.caller(), request.context())));
}

void link(FuseSession& session, FuseRequest& request, const fuse_link_in& in) {
  Filesystem& filesystem = session.filesystem();
  answer_entry(request, filesystem,
               settle(session, request,
                      filesystem.link(Ino{in.oldnodeid}, request.ino(), request.name(sizeof(in)), request.context())));
}

void unlink(FuseSession& session, FuseRequest& request) {
  request.answer(
      settle(session, request, session.filesystem().unlink(request.ino(), request.name(0), request.context())));
}

void rmdir(FuseSession& session, FuseRequest& request) {
  request.answer(settle(session, request,
                        session.filesystem().remove_directory(request.ino(), request.name(0), request.context())));
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

void rename_with(FuseSession& session, FuseRequest& request, Ino new_directory, uint32_t flags,
                 size_t arguments_bytes) {
  const std::string_view name = request.name(arguments_bytes);
  const std::string_view new_name = request.name(arguments_bytes + name.size() + 1);
  const auto how = how_to_rename(flags);
  if (!how.ok()) return (void)request.answer(how.error());
  const Caller caller = request.caller();
  const auto renamed =
      session.filesystem().rename(request.ino(), name, new_directory, new_name, *how,
                                  (flags & RENAME_WHITEOUT) != 0 ? &caller : nullptr, request.context());
  if (!renamed.ok()) return (void)request.answer(renamed.error());
  for (const Ino ino : {new_directory, renamed->moved, renamed->exchanged}) request.stamped(ino);
  request.answer(settle(session, request, Status()));
}

void rename(FuseSession& session, FuseRequest& request, const fuse_rename_in& in) {
  rename_with(session, request, Ino{in.newdir}, 0, sizeof(in));
}

void rename_by_flags(FuseSession& session, FuseRequest& request, const fuse_rename2_in& in) {
  rename_with(session, request, Ino{in.newdir}, in.flags, sizeof(in));
}

void readlink(FuseSession& session, FuseRequest& request) {
  const auto target = session.filesystem().read_symlink(request.ino());
  target.ok() ? request.answer(std::as_bytes(std::span(*target))) : request.answer(target.error());
}

constexpr std::array kNameOperations = {
    operation<lookup>(FUSE_LOOKUP, "lookup", kStampsNothing).with_names(1).that_takes(kLittle),
    operation<forget, fuse_forget_in>(FUSE_FORGET, "forget", kStampsNothing).that_takes(kLittle),
    operation<forget_many, fuse_batch_forget_in>(FUSE_BATCH_FORGET, "batch_forget", kStampsNothing).that_takes(kLittle),
    operation<create, fuse_create_in>(FUSE_CREATE, "create").with_names(1),
    operation<tmpfile, fuse_create_in>(FUSE_TMPFILE, "tmpfile", kStampsNothing),
    operation<mknod, fuse_mknod_in>(FUSE_MKNOD, "mknod").with_names(1),
    operation<mkdir, fuse_mkdir_in>(FUSE_MKDIR, "mkdir").with_names(1),
    operation<symlink>(FUSE_SYMLINK, "symlink").with_names(2),
    operation<link, fuse_link_in>(FUSE_LINK, "link").with_names(1),
    operation<unlink>(FUSE_UNLINK, "unlink").with_names(1),
    operation<rmdir>(FUSE_RMDIR, "rmdir").with_names(1),
    operation<rename, fuse_rename_in>(FUSE_RENAME, "rename").with_names(2),
    operation<rename_by_flags, fuse_rename2_in>(FUSE_RENAME2, "rename").with_names(2),
    operation<readlink>(FUSE_READLINK, "readlink", kStampsNothing).that_takes(kLittle),
};

}  // namespace

std::span<const FuseOperation> name_operations() { return kNameOperations; }

}  // namespace brickfs
