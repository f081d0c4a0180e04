// SPDX-License-Identifier: Apache-2.0
// Reading directories and symbolic links.
#include "fs/operations/filesystem_state.h"

namespace brickfs {
namespace {

using Mode = InodeLocks::Mode;

constexpr uint64_t kBehindDot = 1;
constexpr uint64_t kBehindDotDot = 2;
static_assert(Directory::kFirstCookie == kBehindDotDot + 1);

// False: the visitor has enough.
bool visit_dots(const Inode& directory, uint64_t& offset, const EntryVisitor& visitor) {
  if (offset < kBehindDot) {
    if (!visitor({".", directory.ino, DT_DIR, kBehindDot, nullptr})) return false;
    offset = kBehindDot;
  }
  if (offset < kBehindDotDot) {
    if (!visitor({"..", directory.parent, DT_DIR, kBehindDotDot, nullptr})) return false;
    offset = kBehindDotDot;
  }
  return true;
}

}  // namespace

Status Filesystem::Impl::visit_names(Ino ino, uint64_t offset, const EntryVisitor& visitor) {
  const InodeLocks lock(inodes, {ino}, Mode::kShared);
  const Inode& directory = *TRY(find_live_directory(ino));
  if (offset == 0) directory.directory->begin_listing();
  if (!visit_dots(directory, offset, visitor)) return {};
  for (auto entry = directory.directory->next_listed(offset); entry;
       entry = directory.directory->next_listed(entry->cookie)) {
    if (!visitor({entry->name, entry->ino, entry->type, entry->cookie, nullptr})) break;
  }
  return {};
}

// Each entry is visited under the locks of the directory and of the inode that the entry means, which is known from the
// step before; where it has changed meanwhile, or is the first, the step is done again.
Status Filesystem::Impl::visit_inodes(Ino ino, uint64_t offset, const EntryVisitor& visitor,
                                      const OperationContext& context) {
  for (Ino expected = kNoIno;;) {
    const InodeLocks locks(inodes, {ino, expected}, Mode::kShared);
    const Inode& directory = *TRY(find_live_directory(ino));
    if (offset == 0) directory.directory->begin_listing();
    if (!visit_dots(directory, offset, visitor)) return {};
    const auto entry = directory.directory->next_listed(offset);
    if (!entry) return {};
    if (entry->ino != expected) {
      expected = entry->ino;
      continue;
    }
    Inode* inode = inodes.find(expected);  // null in a damaged volume only: the name is shown all the same
    const Attributes attributes = inode != nullptr ? attributes_of(*inode, context) : Attributes{};
    if (!visitor({entry->name, entry->ino, entry->type, entry->cookie, inode != nullptr ? &attributes : nullptr}))
      return {};
    if (inode != nullptr) inode->references.fetch_add(1);
    offset = entry->cookie;
    const auto next = directory.directory->next_listed(offset);
    if (!next) return {};
    expected = next->ino;
  }
}

Status Filesystem::read_directory(Ino directory, uint64_t offset, bool plus, const EntryVisitor& visitor, Touch touch,
                                  const OperationContext& context) {
  TRY(plus ? impl_->visit_inodes(directory, offset, visitor, context) : impl_->visit_names(directory, offset, visitor));
  if (touch == Touch::kAtime) impl_->touch_atime(directory);
  return {};
}

Result<std::string> Filesystem::read_symlink(Ino ino, const OperationContext&) {
  impl_->touch_atime(ino);
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
  const Inode& inode = *TRY(impl_->find_inode(ino));
  if (!inode.is_symlink() || !inode.symlink_target) return Error(EINVAL, "not a symbolic link");
  return *inode.symlink_target;
}

}  // namespace brickfs
