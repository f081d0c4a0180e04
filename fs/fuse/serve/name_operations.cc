// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "fs/fuse/protocol/operations.h"
#include "fs/fuse/serve/session.h"

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
  const auto found = session.files().lookup(request.ino(), name, request.context());
  if (found.ok() || !found.error().is(ENOENT)) return answer_entry(request, session.files(), found);
  const uint64_t seconds = request.kept_seconds();
  if (seconds == 0) return (void)request.answer(found.error());
  // That there is none holds for as long, too: inode 0 makes the kernel remember it.
  fuse_entry_out none{};
  if (request.ino() != kRootIno || session.cache().note_missing(name)) none.entry_valid = seconds;
  request.answer_with(none);
}

void forget(FuseSession& session, FuseRequest& request, const fuse_forget_in& in) {
  session.files().forget(request.ino(), in.nlookup);
  request.dismiss();
}

void forget_many(FuseSession& session, FuseRequest& request, const fuse_batch_forget_in& in) {
  const std::span<const std::byte> forgets = request.body(sizeof(in));
  constexpr size_t kOne = sizeof(fuse_forget_one);
  for (size_t i = 0; i < in.count && (i + 1) * kOne <= forgets.size(); ++i) {
    const auto one = load<fuse_forget_one>(forgets.subspan(i * kOne));
    session.files().forget(Ino{one.nodeid}, one.nlookup);
  }
  request.dismiss();
}

// A name that an operation gives to an inode, or takes from it.
struct Name {
  Ino directory;
  std::string_view name;
  Ino ino;
};

// On a mount with `dirsync` (or `sync`) a change of names is durable before it is answered for. If that fails it has
// been made all the same, which the kernel does not take from an error.
Status settle(FuseSession& session, FuseRequest& request, std::initializer_list<Name> names) {
  if (!session.syncs_names()) return {};
  const Status synced = session.files().sync_all(request.context());
  if (synced.ok()) return {};
  for (const Name& each : names) request.renamed(each.directory, each.name, each.ino);
  return synced;
}

Result<Attributes> settle(FuseSession& session, FuseRequest& request, std::string_view name, Result<Attributes> made) {
  if (!made.ok()) return made;
  const Status settled = settle(session, request, {{request.ino(), name, made->ino}});
  if (settled.ok()) return made;
  session.files().forget(made->ino, 1);
  return settled.error();
}

// What has the name now, for settle(), which may need it. The kernel sees to it that it stays so.
Name name_of(FuseSession& session, const FuseRequest& request, Ino directory, std::string_view name) {
  if (!session.syncs_names()) return {directory, name, kNoIno};
  const auto found = session.files().lookup(directory, name, request.context());
  if (!found.ok()) return {directory, name, kNoIno};
  session.files().forget(found->ino, 1);
  return {directory, name, found->ino};
}

// Where others make names, too, one may be there by now that the kernel has not found: whoever does not insist on a new
// file is to have that one, if he may. ESTALE makes the kernel look again.
void create(FuseSession& session, FuseRequest& request, const fuse_create_in& in) {
  FileOperations& files = session.files();
  const std::string_view name = request.name(sizeof(in));
  const auto made = files.create(request.ino(), name, in.mode, request.caller(in.umask), request.context());
  const bool looks_again = made.code() == EEXIST && (in.flags & O_EXCL) == 0 && session.sharing().is_shared();
  if (looks_again) return (void)request.answer(Error(ESTALE));
  const auto settled = settle(session, request, name, made);
  if (!settled.ok()) return (void)request.answer(settled.error());
  answer_created(request, files, *settled, session.sharing().open_created(settled->ino, in.flags));
}

void tmpfile(FuseSession& session, FuseRequest& request, const fuse_create_in& in) {
  FileOperations& files = session.files();
  const auto made = files.make_temporary(request.ino(), in.mode, request.caller(in.umask), request.context());
  if (!made.ok()) return (void)request.answer(made.error());
  answer_created(request, files, *made, session.sharing().open_created(made->ino, in.flags));
}

void mknod(FuseSession& session, FuseRequest& request, const fuse_mknod_in& in) {
  FileOperations& files = session.files();
  const std::string_view name = request.name(sizeof(in));
  answer_entry(
      request, files,
      settle(session, request, name,
             files.make_node(request.ino(), name, in.mode, in.rdev, request.caller(in.umask), request.context())));
}

void mkdir(FuseSession& session, FuseRequest& request, const fuse_mkdir_in& in) {
  FileOperations& files = session.files();
  const std::string_view name = request.name(sizeof(in));
  answer_entry(request, files,
               settle(session, request, name,
                      files.make_directory(request.ino(), name, in.mode, request.caller(in.umask), request.context())));
}

void symlink(FuseSession& session, FuseRequest& request) {
  FileOperations& files = session.files();
  const std::string_view name = request.name(0);
  const std::string_view target = request.name(name.size() + 1);
  answer_entry(request, files,
               settle(session, request, name,
                      files.make_symlink(request.ino(), name, target, request.caller(), request.context())));
}

void link(FuseSession& session, FuseRequest& request, const fuse_link_in& in) {
  FileOperations& files = session.files();
  const std::string_view name = request.name(sizeof(in));
  answer_entry(request, files,
               settle(session, request, name, files.link(Ino{in.oldnodeid}, request.ino(), name, request.context())));
}

template <auto kRemove>
void remove(FuseSession& session, FuseRequest& request) {
  const Name name = name_of(session, request, request.ino(), request.name(0));
  const Status removed = (session.files().*kRemove)(name.directory, name.name, request.context());
  request.answer(removed.ok() ? settle(session, request, {name}) : removed);
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
  const Name from = name_of(session, request, request.ino(), name);
  const Name to = name_of(session, request, new_directory, new_name);
  const auto renamed = session.files().rename(request.ino(), name, new_directory, new_name, *how,
                                              (flags & RENAME_WHITEOUT) != 0 ? &caller : nullptr, request.context());
  if (!renamed.ok()) return (void)request.answer(renamed.error());
  for (const Ino ino : {new_directory, renamed->moved, renamed->exchanged}) request.stamped(ino);
  request.answer(settle(session, request, {from, to}));
}

void rename(FuseSession& session, FuseRequest& request, const fuse_rename_in& in) {
  rename_with(session, request, Ino{in.newdir}, 0, sizeof(in));
}

void rename_by_flags(FuseSession& session, FuseRequest& request, const fuse_rename2_in& in) {
  rename_with(session, request, Ino{in.newdir}, in.flags, sizeof(in));
}

void readlink(FuseSession& session, FuseRequest& request) {
  const auto target = session.files().read_symlink(request.ino(), request.context());
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
    operation<remove<&FileOperations::unlink>>(FUSE_UNLINK, "unlink").with_names(1),
    operation<remove<&FileOperations::remove_directory>>(FUSE_RMDIR, "rmdir").with_names(1),
    operation<rename, fuse_rename_in>(FUSE_RENAME, "rename").with_names(2),
    operation<rename_by_flags, fuse_rename2_in>(FUSE_RENAME2, "rename").with_names(2),
    operation<readlink>(FUSE_READLINK, "readlink", kStampsNothing).that_takes(kLittle),
};

}  // namespace

std::span<const FuseOperation> name_operations() { return kNameOperations; }

}  // namespace brickfs
