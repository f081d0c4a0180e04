// SPDX-License-Identifier: Apache-2.0
// What the kernel and a FUSE daemon say to each other over io_uring. Source: include/uapi/linux/fuse.h of Linux 6.14,
// which Debian 12's header is older than.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brickfs {

constexpr uint64_t kFuseOverIoUring = uint64_t{1} << 41;  // FUSE_OVER_IO_URING, in flags and flags2 of FUSE_INIT

// Shared with the kernel, one for each entry: struct fuse_uring_req_header.
struct FuseRingHeader {
  std::byte in_out[128];     // struct fuse_in_header of a request, struct fuse_out_header of its reply
  std::byte operation[128];  // what follows the header in a request, up to the first name or data
  uint64_t flags;
  uint64_t commit_id;      // names the request in the command that commits its reply
  uint32_t payload_bytes;  // names and data of a request, everything but the header of a reply
  uint32_t padding;
  uint64_t reserved;
};
static_assert(sizeof(FuseRingHeader) == 288 && offsetof(FuseRingHeader, commit_id) == 264);

// enum fuse_uring_cmd: sqe->cmd_op.
enum class FuseRingVerb : uint32_t {
  kRegister = 1,        // sqe->addr: two iovecs, of the header and of the payload
  kCommitAndFetch = 2,  // the reply is in the entry; the next request is wanted
};

// In the command area of the (128 byte) sqe: struct fuse_uring_cmd_req.
struct FuseRingCommand {
  uint64_t flags;
  uint64_t commit_id;
  uint16_t queue;
  uint8_t padding[6];
};
static_assert(sizeof(FuseRingCommand) == 24);

}  // namespace brickfs
