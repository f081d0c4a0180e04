// SPDX-License-Identifier: Apache-2.0
// What the kernel and a FUSE daemon say to each other: linux/fuse.h, and what is newer than Debian 12's copy of it
// (protocol 7.38). Source: include/uapi/linux/fuse.h of Linux 6.14; same layouts as there.
#pragma once

#include <linux/fuse.h>

#include <cstddef>
#include <cstdint>

namespace brickfs {

// The kernel's side has to be so new: FUSE_INIT as it is here, FUSE_MAX_PAGES.
constexpr uint32_t kOldestMinor = 28;
// Before Linux 5.16 FUSE_GETATTR_FH comes from readers, too, as they reach the end of a file, and nothing tells them
// from writers.
constexpr uint32_t kMinorOfWritersAsk = 35;
constexpr uint32_t kMinorOfWaitForPages = 44;  // Linux 6.16 writes pages back themselves, and no copies
constexpr uint32_t kMinorOfEpochs = 44;        // and can be told to forget all names: FUSE_NOTIFY_INC_EPOCH
// Names and attributes stay valid until the kernel changes them itself: the lease keeps everybody else away.
constexpr uint64_t kForeverSeconds = 1'000'000'000;

// FUSE_DIRECT_IO_ALLOW_MMAP came with protocol 7.39 (Linux 6.6): in flags and flags2 of FUSE_INIT.
constexpr uint64_t kDirectIoAllowMmap = uint64_t{1} << 36;

// FUSE_STATX came with protocol 7.39 (Linux 6.6).
constexpr uint32_t kOpcodeStatx = 52;
constexpr uint32_t kOpcodes = 64;  // all that are known are below

struct StatxTime {  // struct fuse_sx_time
  int64_t seconds;
  uint32_t nanoseconds;
  int32_t reserved;
};

struct StatxRecord {  // struct fuse_statx
  uint32_t mask;
  uint32_t blksize;
  uint64_t attributes;
  uint32_t nlink;
  uint32_t uid;
  uint32_t gid;
  uint16_t mode;
  uint16_t spare0;
  uint64_t ino;
  uint64_t size;
  uint64_t blocks;
  uint64_t attributes_mask;
  StatxTime atime;
  StatxTime btime;
  StatxTime ctime;
  StatxTime mtime;
  uint32_t rdev_major;
  uint32_t rdev_minor;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint64_t spare2[14];
};
static_assert(sizeof(StatxTime) == 16 && sizeof(StatxRecord) == 256);
static_assert(offsetof(StatxRecord, ino) == 32 && offsetof(StatxRecord, atime) == 64 &&
              offsetof(StatxRecord, rdev_major) == 128);

struct StatxOut {  // struct fuse_statx_out
  uint64_t attr_valid;
  uint32_t attr_valid_nsec;
  uint32_t flags;
  uint64_t spare[2];
  StatxRecord stat;
};
static_assert(sizeof(StatxOut) == 288 && offsetof(StatxOut, stat) == 32);

// The answer to FUSE_CREATE and FUSE_TMPFILE.
struct CreateOut {
  fuse_entry_out entry;
  fuse_open_out open;
};
static_assert(sizeof(CreateOut) == sizeof(fuse_entry_out) + sizeof(fuse_open_out));

// Of FUSE_SETXATTR without FUSE_SETXATTR_EXT: FUSE_COMPAT_SETXATTR_IN_SIZE.
struct SetxattrIn {
  uint32_t size;
  uint32_t flags;
};
static_assert(sizeof(SetxattrIn) == FUSE_COMPAT_SETXATTR_IN_SIZE);

// FUSE_REQUEST_TIMEOUT came with protocol 7.43 (Linux 6.14): in flags and flags2 of FUSE_INIT, and where the answer has
// it (in the low half of the word behind max_stack_depth).
constexpr uint64_t kRequestTimeout = uint64_t{1} << 42;
constexpr size_t kWordOfRequestTimeout = 1;
static_assert(offsetof(fuse_init_out, unused) + kWordOfRequestTimeout * sizeof(uint32_t) == 40);

// --- over io_uring (Linux 6.14)
constexpr uint64_t kFuseOverIoUring = uint64_t{1} << 41;  // FUSE_OVER_IO_URING, in flags and flags2 of FUSE_INIT

// Shared with the kernel, one for each entry: struct fuse_uring_req_header.
struct FuseUringHeader {
  std::byte in_out[128];     // struct fuse_in_header of a request, struct fuse_out_header of its reply
  std::byte operation[128];  // what follows the header in a request, up to the first name or data
  uint64_t flags;
  uint64_t commit_id;      // names the request in the command that commits its reply
  uint32_t payload_bytes;  // names and data of a request, everything but the header of a reply
  uint32_t padding;
  uint64_t reserved;
};
static_assert(sizeof(FuseUringHeader) == 288 && offsetof(FuseUringHeader, commit_id) == 264);

// enum fuse_uring_cmd: sqe->cmd_op.
enum class FuseUringVerb : uint32_t {
  kRegister = 1,        // sqe->addr: two iovecs, of the header and of the payload
  kCommitAndFetch = 2,  // the reply is in the entry; the next request is wanted
};

// In the command area of the (128 byte) sqe: struct fuse_uring_cmd_req.
struct FuseUringCommand {
  uint64_t flags;
  uint64_t commit_id;
  uint16_t queue;
  uint8_t padding[6];
};
static_assert(sizeof(FuseUringCommand) == 24);

}  // namespace brickfs
