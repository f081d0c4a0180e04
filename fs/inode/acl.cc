// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/acl.h"

#include <algorithm>
#include <cstring>

#include "transport/base/bytes.h"

namespace brickfs {
namespace {

// linux/posix_acl.h, linux/posix_acl_xattr.h. Entries come in ascending order of their tags.
constexpr uint32_t kVersion = 2;
constexpr uint16_t kOwner = 0x01;
constexpr uint16_t kNamedUser = 0x02;
constexpr uint16_t kOwningGroup = 0x04;
constexpr uint16_t kNamedGroup = 0x08;
constexpr uint16_t kMask = 0x10;
constexpr uint16_t kOthers = 0x20;
constexpr uint16_t kAllPermissions = 7;

constexpr bool may_repeat(uint16_t tag) { return tag == kNamedUser || tag == kNamedGroup; }

}  // namespace

Result<Acl> Acl::parse(std::span<const std::byte> bytes) {
  Acl acl;
  if (bytes.empty()) return acl;
  if (bytes.size() < sizeof(kVersion)) return Error(EINVAL, "an ACL shorter than its header");
  if (load<uint32_t>(bytes) != kVersion) return Error(EOPNOTSUPP, "an ACL of another version");
  bytes = bytes.subspan(sizeof(kVersion));
  if (bytes.size() % sizeof(Entry) != 0) return Error(EINVAL, "an ACL with a part of an entry");
  for (; !bytes.empty(); bytes = bytes.subspan(sizeof(Entry))) acl.entries_.push_back(load<Entry>(bytes));
  if (!acl.empty() && !acl.is_valid()) return Error(EINVAL, "an ACL that is not valid");
  return acl;
}

std::vector<std::byte> Acl::bytes() const {
  std::vector<std::byte> bytes(sizeof(kVersion) + entries_.size() * sizeof(Entry));
  std::memcpy(bytes.data(), &kVersion, sizeof(kVersion));
  std::memcpy(bytes.data() + sizeof(kVersion), entries_.data(), entries_.size() * sizeof(Entry));
  return bytes;
}

bool Acl::is_valid() const {
  uint16_t before = 0;
  uint16_t seen = 0;
  for (const Entry& entry : entries_) {
    const bool known = entry.tag == kOwner || entry.tag == kNamedUser || entry.tag == kOwningGroup ||
                       entry.tag == kNamedGroup || entry.tag == kMask || entry.tag == kOthers;
    const bool in_order = entry.tag > before || (entry.tag == before && may_repeat(entry.tag));
    const bool named_id = !may_repeat(entry.tag) || entry.id != UINT32_MAX;
    if (!known || !in_order || !named_id || entry.permissions > kAllPermissions) return false;
    before = entry.tag;
    seen |= entry.tag;
  }
  constexpr uint16_t kAlways = kOwner | kOwningGroup | kOthers;
  const bool needs_mask = (seen & (kNamedUser | kNamedGroup)) != 0;
  return (seen & kAlways) == kAlways && (!needs_mask || (seen & kMask) != 0);
}

Acl::Entry* Acl::find(uint16_t tag) {
  const auto it =
      std::find_if(entries_.begin(), entries_.end(), [tag](const Entry& entry) { return entry.tag == tag; });
  return it == entries_.end() ? nullptr : &*it;
}

Acl::Entry& Acl::group_class() {
  Entry* mask = find(kMask);
  return mask != nullptr ? *mask : *find(kOwningGroup);
}

uint32_t Acl::permissions() const {
  const uint32_t group = const_cast<Acl*>(this)->group_class().permissions;
  return uint32_t{find(kOwner)->permissions} << 6 | group << 3 | find(kOthers)->permissions;
}

void Acl::set_permissions(uint32_t mode) {
  find(kOwner)->permissions = mode >> 6 & kAllPermissions;
  group_class().permissions = mode >> 3 & kAllPermissions;
  find(kOthers)->permissions = mode & kAllPermissions;
}

uint32_t Acl::inherit(uint32_t mode) {
  set_permissions(permissions() & mode);
  return permissions();
}

}  // namespace brickfs
