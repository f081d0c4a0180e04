// SPDX-License-Identifier: Apache-2.0
// Calls about attributes: modes, owners, times, extended attributes, ACLs.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/posix/diff_call.h"

namespace brickfs::posix {
namespace {

Outcome run_chmod(const Call& call, Side&) { return outcome_of(chmod(call.path.c_str(), call.mode)); }
Outcome run_fchmod(const Call& call, Side& side) { return outcome_of(fchmod(file_of(call, side), call.mode)); }
Outcome run_chown(const Call& call, Side&) {
  return outcome_of(fchownat(AT_FDCWD, call.path.c_str(), call.uid, call.gid, call.flags));
}
Outcome run_fchown(const Call& call, Side& side) { return outcome_of(fchown(file_of(call, side), call.uid, call.gid)); }

// The times of a call: long ago (which the trees then show), now, or left alone.
struct Times {
  timespec at[2];
  explicit Times(const Call& call) {
    at[0] = {1'000'000'000 + static_cast<time_t>(call.seed % 1000), 123456789};
    at[1] = {1'100'000'000 + static_cast<time_t>(call.seed % 1000), 987654321};
    if ((call.mode & 1) != 0) at[0].tv_nsec = UTIME_NOW;
    if ((call.mode & 2) != 0) at[1].tv_nsec = UTIME_NOW;
    if ((call.mode & 4) != 0) at[0].tv_nsec = UTIME_OMIT;
    if ((call.mode & 8) != 0) at[1].tv_nsec = UTIME_OMIT;
    if ((call.mode & 0700) == 0100) at[0].tv_sec = -5;
  }
};

std::string times_of(int at, const char* path, int flags) {
  struct stat stat {};
  if (fstatat(at, path, &stat, flags) != 0) return {};
  const auto text = [](const timespec& time) {
    return time.tv_sec > 1'200'000'000 ? std::string(" now")
                                       : " " + std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
  };
  return text(stat.st_atim) + text(stat.st_mtim);
}

Outcome run_utimens(const Call& call, Side&) {
  Outcome outcome = outcome_of(utimensat(AT_FDCWD, call.path.c_str(), Times(call).at, call.flags));
  if (outcome.result == 0 && (call.mode & 4) == 0) outcome.detail = times_of(AT_FDCWD, call.path.c_str(), call.flags);
  return outcome;
}

Outcome run_futimens(const Call& call, Side& side) {
  Outcome outcome = outcome_of(futimens(file_of(call, side), Times(call).at));
  if (outcome.result == 0 && (call.mode & 4) == 0) outcome.detail = times_of(file_of(call, side), "", AT_EMPTY_PATH);
  return outcome;
}

constexpr size_t kValueBytes[] = {0, 1, 16, 300, 65537};
size_t value_bytes(const Call& call) { return call.seed % 64 == 0 ? kValueBytes[4] : kValueBytes[call.seed % 4]; }

std::vector<char> value_of(const Call& call) {
  Call data = call;
  data.length = value_bytes(call);
  return data_for(data);
}

Outcome run_setxattr(const Call& call, Side&) {
  const auto value = value_of(call);
  return outcome_of(setxattr(call.path.c_str(), call.name.c_str(), value.data(), value.size(), call.flags));
}
Outcome run_lsetxattr(const Call& call, Side&) {
  const auto value = value_of(call);
  return outcome_of(lsetxattr(call.path.c_str(), call.name.c_str(), value.data(), value.size(), call.flags));
}
Outcome run_fsetxattr(const Call& call, Side& side) {
  const auto value = value_of(call);
  return outcome_of(fsetxattr(file_of(call, side), call.name.c_str(), value.data(), value.size(), call.flags));
}

constexpr size_t kRooms[] = {0, 1, 20, 70000};

Outcome with_value(Outcome outcome, const char* value, size_t room) {
  if (outcome.result > 0 && room > 0) outcome.detail = digest(value, static_cast<size_t>(outcome.result));
  return outcome;
}

Outcome run_getxattr(const Call& call, Side&) {
  std::vector<char> value(70000);
  const size_t room = kRooms[call.flags];
  return with_value(outcome_of(getxattr(call.path.c_str(), call.name.c_str(), value.data(), room)), value.data(), room);
}
Outcome run_fgetxattr(const Call& call, Side& side) {
  std::vector<char> value(70000);
  const size_t room = kRooms[call.flags];
  return with_value(outcome_of(fgetxattr(file_of(call, side), call.name.c_str(), value.data(), room)), value.data(),
                    room);
}

Outcome run_listxattr(const Call& call, Side&) {
  std::vector<char> names(70000);
  const size_t room = kRooms[call.flags];
  Outcome outcome = outcome_of(llistxattr(call.path.c_str(), names.data(), room));
  std::vector<std::string> sorted;
  for (int64_t at = 0; room > 0 && at < outcome.result; at += static_cast<int64_t>(sorted.back().size()) + 1) {
    sorted.emplace_back(names.data() + at);
  }
  std::sort(sorted.begin(), sorted.end());
  for (const std::string& name : sorted) outcome.detail += name + " ";
  return outcome;
}

Outcome run_removexattr(const Call& call, Side&) {
  return outcome_of(removexattr(call.path.c_str(), call.name.c_str()));
}
Outcome run_lremovexattr(const Call& call, Side&) {
  return outcome_of(lremovexattr(call.path.c_str(), call.name.c_str()));
}

// ACLs as the kernel takes them: linux/posix_acl_xattr.h.
struct AclEntry {
  uint16_t tag;
  uint16_t permissions;
  uint32_t id;
};

std::vector<AclEntry> acl_of(uint32_t seed) {
  constexpr uint32_t kNobody = UINT32_MAX;
  const auto some = [&seed] {
    seed = seed * 1664525 + 1013904223;
    return static_cast<uint16_t>(seed >> 29);
  };
  std::vector<AclEntry> acl = {{1, some(), kNobody}};
  switch (seed / 7 % 8) {
    case 0:
      break;  // minimal
    case 1:
      acl.push_back({2, some(), 1000});
      break;  // no mask: not valid
    case 2:
      return {};  // no entries
    default:
      acl.push_back({2, some(), seed % 2 != 0 ? 1000U : 1001U});
      break;
  }
  const bool named = acl.size() > 1;
  acl.push_back({4, some(), kNobody});
  if (named && seed % 3 == 0) acl.push_back({8, some(), 2000});
  if (named && acl[1].tag == 2 && seed / 7 % 8 != 1) acl.push_back({0x10, some(), kNobody});
  acl.push_back({0x20, some(), kNobody});
  return acl;
}

Outcome run_set_acl(const Call& call, Side&) {
  const auto acl = acl_of(call.seed);
  std::vector<char> value(4 + acl.size() * sizeof(AclEntry));
  value[0] = 2;
  if (!acl.empty()) std::memcpy(value.data() + 4, acl.data(), acl.size() * sizeof(AclEntry));
  const char* name = call.flags == 0 ? "system.posix_acl_access" : "system.posix_acl_default";
  const Outcome outcome = outcome_of(setxattr(call.path.c_str(), name, value.data(), value.size(), 0));
  struct stat stat {};
  (void)!::stat(call.path.c_str(),
                &stat);  // over FUSE linkat(2) goes by the mode that was looked at last: docs/posix.md
  return outcome;
}

// File capabilities, version 2: cap_net_raw permitted and effective.
Outcome run_set_capability(const Call& call, Side&) {
  const uint32_t value[5] = {0x02000001, 1 << 13, 0, 0, 0};
  return outcome_of(setxattr(call.path.c_str(), "security.capability", value, sizeof(value), 0));
}

}  // namespace

std::span<const Operation> attribute_operations() {
  static const std::vector<Operation> all = {
      {"chmod", 7, kPath | kMode, {}, {}, "chmod({p}, {m})", run_chmod},
      {"fchmod", 3, kSlot | kMode, {}, {}, "fchmod({f}, {m})", run_fchmod},
      {"chown", 6, kPath | kOwner, {0, AT_SYMLINK_NOFOLLOW}, {}, "fchownat(AT_FDCWD, {p}, {u}, {G}, {F})", run_chown},
      {"fchown", 2, kSlot | kOwner, {}, {}, "fchown({f}, {u}, {G})", run_fchown},
      {"utimens",
       3,
       kPath | kMode | kSeed,
       {0, AT_SYMLINK_NOFOLLOW},
       {},
       "utimensat(AT_FDCWD, {p}, times({m}, {s}), {F})",
       run_utimens},
      {"futimens", 2, kSlot | kMode | kSeed, {}, {}, "futimens({f}, times({m}, {s}))", run_futimens},
      {"setxattr",
       4,
       kPath | kXattrName | kSeed,
       {0, XATTR_CREATE, XATTR_REPLACE, 3},
       {},
       "setxattr({p}, {x}, data({s}, value_bytes({s})), value_bytes({s}), {F})",
       run_setxattr},
      {"lsetxattr",
       1,
       kPath | kXattrName | kSeed,
       {0},
       {},
       "lsetxattr({p}, {x}, data({s}, value_bytes({s})), value_bytes({s}), {F})",
       run_lsetxattr},
      {"fsetxattr",
       2,
       kSlot | kXattrName | kSeed,
       {0},
       {},
       "fsetxattr({f}, {x}, data({s}, value_bytes({s})), value_bytes({s}), {F})",
       run_fsetxattr},
      {"getxattr", 4, kPath | kXattrName, {0, 1, 2, 3}, {}, "getxattr({p}, {x}, buffer, rooms[{F}])", run_getxattr},
      {"fgetxattr", 1, kSlot | kXattrName, {0, 1, 2, 3}, {}, "fgetxattr({f}, {x}, buffer, rooms[{F}])", run_fgetxattr},
      {"listxattr", 4, kPath, {0, 2, 3, 3}, {}, "llistxattr({p}, buffer, rooms[{F}])", run_listxattr},
      {"removexattr", 3, kPath | kXattrName, {}, {}, "removexattr({p}, {x})", run_removexattr},
      {"lremovexattr", 1, kPath | kXattrName, {}, {}, "lremovexattr({p}, {x})", run_lremovexattr},
      {"set_acl", 5, kPath | kSeed, {0, 0, 1}, {}, "set_acl({p}, {F}, {s})", run_set_acl},
      {"set_capability", 1, kPath, {}, {}, "set_capability({p})", run_set_capability},
  };
  return all;
}

}  // namespace brickfs::posix
