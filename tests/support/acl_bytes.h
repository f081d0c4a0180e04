// SPDX-License-Identifier: Apache-2.0
// POSIX ACLs as the kernel writes them: linux/posix_acl_xattr.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace brickfs {

constexpr uint16_t kAclOwner = 0x01;
constexpr uint16_t kAclNamedUser = 0x02;
constexpr uint16_t kAclGroup = 0x04;
constexpr uint16_t kAclNamedGroup = 0x08;
constexpr uint16_t kAclMask = 0x10;
constexpr uint16_t kAclOthers = 0x20;

struct AclEntry {
  uint16_t tag;
  uint16_t permissions;
  uint32_t id;
};

inline std::vector<std::byte> acl_bytes(std::initializer_list<AclEntry> entries) {
  constexpr uint32_t kVersion = 2;
  std::vector<std::byte> bytes(sizeof(kVersion) + entries.size() * sizeof(AclEntry));
  std::memcpy(bytes.data(), &kVersion, sizeof(kVersion));
  std::byte* at = bytes.data() + sizeof(kVersion);
  for (const AclEntry& entry : entries) {
    std::memcpy(at, &entry, sizeof(entry));
    at += sizeof(entry);
  }
  return bytes;
}

}  // namespace brickfs
