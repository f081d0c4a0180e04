// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/extra.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "fs/fuse/mount.h"
#include "fs/fuse/place.h"
#include "fs/fuse/reply.h"
#include "fs/fuse/uring_abi.h"
#include "fs/operations/filesystem.h"
#include "transport/base/bytes.h"

namespace brickfs {
namespace {

// FUSE_STATX came with protocol 7.39 (Linux 6.6), after Debian 12's header. Same layout as there.
constexpr uint32_t kOpcodeStatx = 52;

struct StatxTime {
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

// FUSE_REQUEST_TIMEOUT came with protocol 7.43 (Linux 6.14): in flags and flags2 of FUSE_INIT, and where the answer has
// it (in the low half of the word behind max_stack_depth).
constexpr uint64_t kRequestTimeout = uint64_t{1} << 42;
constexpr size_t kWordOfRequestTimeout = 1;
static_assert(offsetof(fuse_init_out, unused) + kWordOfRequestTimeout * sizeof(uint32_t) == 40);

struct TmpfileOut {
  fuse_entry_out entry;
  fuse_open_out open;
};
static_assert(sizeof(TmpfileOut) == sizeof(fuse_entry_out) + sizeof(fuse_open_out));

// A part of a request, or null if the message is shorter.
template <typename T>
const T* part(std::span<const std::byte> message, size_t offset) {
  if (message.size() < offset + sizeof(T)) return nullptr;
  return reinterpret_cast<const T*>(message.data() + offset);  // the kernel aligns them to 8 bytes
}

template <typename T>
const T* arguments(std::span<const std::byte> message) {
  return part<T>(message, sizeof(fuse_in_header));
}

template <typename In>
size_t size_of_transfer(std::span<const std::byte> message) {
  const In* const in = arguments<In>(message);
  return in == nullptr ? 0 : in->size;
}

// False: the kernel did not take it; the request is gone.
bool send(FuseMount& mount, uint64_t unique, int code, std::span<const std::byte> payload) {
  fuse_out_header header{};
  header.len = static_cast<uint32_t>(sizeof(header) + payload.size());
  header.error = -code;
  header.unique = unique;
  iovec parts[] = {{&header, sizeof(header)}, {const_cast<std::byte*>(payload.data()), payload.size()}};
  return mount.send(std::span(parts, payload.empty() ? 1 : 2)) >= 0;
}

void send_error(FuseMount& mount, uint64_t unique, int code) { (void)send(mount, unique, code, {}); }

StatxTime to_statx_time(TimeNs time) {
  const timespec spec = to_timespec(time);
  return {.seconds = spec.tv_sec, .nanoseconds = static_cast<uint32_t>(spec.tv_nsec), .reserved = 0};
}

void serve_statx(FuseMount& mount, const fuse_in_header& header) {
  const auto found = mount.filesystem().get_attributes(Ino{header.nodeid});
  if (!found.ok()) return send_error(mount, header.unique, found.error().code());
  StatxOut out{};
  out.attr_valid = static_cast<uint64_t>(kForeverSeconds);
  out.stat.mask = STATX_BASIC_STATS | STATX_BTIME;
  out.stat.blksize = kUnitBytes;
  out.stat.nlink = found->nlink;
  out.stat.uid = found->uid;
  out.stat.gid = found->gid;
  out.stat.mode = static_cast<uint16_t>(found->mode);
  out.stat.ino = raw(found->ino);
  out.stat.size = found->size_bytes;
  out.stat.blocks = found->blocks_512;
  out.stat.atime = to_statx_time(found->atime);
  out.stat.btime = to_statx_time(found->btime);
  out.stat.ctime = to_statx_time(found->ctime);
  out.stat.mtime = to_statx_time(found->mtime);
  out.stat.rdev_major = major(found->rdev);
  out.stat.rdev_minor = minor(found->rdev);
  (void)send(mount, header.unique, 0, bytes_of(out));
}

fuse_attr to_kernel(const Attributes& attributes) {
  const timespec atime = to_timespec(attributes.atime);
  const timespec mtime = to_timespec(attributes.mtime);
  const timespec ctime = to_timespec(attributes.ctime);
  fuse_attr out{};
  out.ino = raw(attributes.ino);
  out.size = attributes.size_bytes;
  out.blocks = attributes.blocks_512;
  out.atime = static_cast<uint64_t>(atime.tv_sec);
  out.mtime = static_cast<uint64_t>(mtime.tv_sec);
  out.ctime = static_cast<uint64_t>(ctime.tv_sec);
  out.atimensec = static_cast<uint32_t>(atime.tv_nsec);
  out.mtimensec = static_cast<uint32_t>(mtime.tv_nsec);
  out.ctimensec = static_cast<uint32_t>(ctime.tv_nsec);
  out.mode = attributes.mode;
  out.nlink = attributes.nlink;
  out.uid = attributes.uid;
  out.gid = attributes.gid;
  out.rdev = attributes.rdev;
  out.blksize = kUnitBytes;
  return out;
}

void serve_tmpfile(FuseMount& mount, const fuse_in_header& header, const fuse_create_in& in) {
  const auto made = mount.filesystem().make_temporary(Ino{header.nodeid}, in.mode,
                                                      make_caller(header.uid, header.gid, header.pid, in.umask));
  if (!made.ok()) return send_error(mount, header.unique, made.error().code());
  TmpfileOut out{};
  out.entry.nodeid = raw(made->ino);
  out.entry.entry_valid = static_cast<uint64_t>(kForeverSeconds);
  out.entry.attr_valid = static_cast<uint64_t>(kForeverSeconds);
  out.entry.attr = to_kernel(*made);
  out.open.open_flags = FOPEN_KEEP_CACHE;
  if (!send(mount, header.unique, 0, bytes_of(out))) mount.filesystem().forget(made->ino, 1);
}

// Of a write or setattr, from the flags that libfuse leaves out.
bool asks_to_kill_privileges(uint32_t opcode, std::span<const std::byte> message) {
  if (opcode == FUSE_WRITE) {
    const auto* const in = arguments<fuse_write_in>(message);
    return in != nullptr && (in->write_flags & FUSE_WRITE_KILL_SUIDGID) != 0;
  }
  if (opcode == FUSE_SETATTR) {
    const auto* const in = arguments<fuse_setattr_in>(message);
    return in != nullptr && (in->valid & FATTR_KILL_SUIDGID) != 0;
  }
  return false;
}

// Only what a program does by itself, without the page cache, says whose locks it minds.
bool is_for_page_cache(uint32_t opcode, std::span<const std::byte> message) {
  if (opcode == FUSE_WRITE) {
    const auto* const in = arguments<fuse_write_in>(message);
    return in != nullptr && (in->write_flags & FUSE_WRITE_LOCKOWNER) == 0;
  }
  const auto* const in = opcode == FUSE_READ ? arguments<fuse_read_in>(message) : nullptr;
  return in != nullptr && (in->read_flags & FUSE_READ_LOCKOWNER) == 0;
}

uint32_t open_flags_of(uint32_t opcode, std::span<const std::byte> message) {
  const bool reads = opcode == FUSE_READ || opcode == FUSE_READDIR || opcode == FUSE_READDIRPLUS;
  const auto* const in = reads ? arguments<fuse_read_in>(message) : nullptr;
  return in != nullptr ? in->flags : 0;
}

// Gives nothing of the volume away, or is about its end.
bool is_told_when_lost(const fuse_in_header& header, std::span<const std::byte> message) {
  switch (header.opcode) {
    case FUSE_INIT:
    case FUSE_DESTROY:
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_STATFS:
      return true;
    case FUSE_GETATTR:
    case kOpcodeStatx:
      return header.nodeid == FUSE_ROOT_ID;
    case FUSE_GETXATTR: {
      const auto name = message.subspan(std::min(message.size(), sizeof(header) + sizeof(fuse_getxattr_in)));
      return header.nodeid == FUSE_ROOT_ID &&
             std::string_view(reinterpret_cast<const char*>(name.data()), name.size()).starts_with("brickfs.");
    }
    default:
      return false;
  }
}

}  // namespace

bool refuse_if_lost(FuseMount& mount, std::span<const std::byte> message) {
  const Status lost = mount.filesystem().volume().final_error();
  if (lost.ok() || lost.code() == ECANCELED) return false;  // the latter: we end
  const auto* const header = part<fuse_in_header>(message, 0);
  if (header == nullptr || is_told_when_lost(*header, message)) return false;
  send_error(mount, header->unique, lost.code());
  return true;
}

bool serve_extra_request(FuseMount& mount, std::span<const std::byte> message) {
  const auto* const header = part<fuse_in_header>(message, 0);
  if (header == nullptr) return false;
  FuseBuffers& buffers = FusePlace::current()->buffers();
  buffers.kill_privileges = asks_to_kill_privileges(header->opcode, message);
  buffers.for_page_cache = is_for_page_cache(header->opcode, message);
  buffers.open_flags = open_flags_of(header->opcode, message);
  switch (header->opcode) {
    case kOpcodeStatx:
      serve_statx(mount, *header);
      return true;
    case FUSE_TMPFILE:
      if (const auto* const in = arguments<fuse_create_in>(message)) {
        serve_tmpfile(mount, *header, *in);
      } else {
        send_error(mount, header->unique, EINVAL);
      }
      return true;
    case FUSE_SYNCFS:
      send_error(mount, header->unique, mount.filesystem().sync_all().code());
      return true;
    default:
      return false;
  }
}

size_t data_bytes(std::span<const std::byte> message) {
  const auto* const header = part<fuse_in_header>(message, 0);
  if (header == nullptr) return 0;
  switch (header->opcode) {
    case FUSE_READ:
      return size_of_transfer<fuse_read_in>(message);
    case FUSE_WRITE:
      return size_of_transfer<fuse_write_in>(message);
    default:
      return 0;
  }
}

uint64_t interrupted_request(std::span<const std::byte> message) {
  const auto* const header = part<fuse_in_header>(message, 0);
  if (header == nullptr || header->opcode != FUSE_INTERRUPT) return 0;
  const auto* const in = arguments<fuse_interrupt_in>(message);
  return in == nullptr ? 0 : in->unique;
}

void send_again_later(FuseMount& mount, std::span<const std::byte> message) {
  const auto* const header = part<fuse_in_header>(message, 0);
  if (header != nullptr) send_error(mount, header->unique, EAGAIN);
}

void FuseInitAmendment::see_request(std::span<const std::byte> message) {
  const auto* const header = part<fuse_in_header>(message, 0);
  const auto* const in = arguments<fuse_init_in>(message);
  if (header == nullptr || in == nullptr || header->opcode != FUSE_INIT) return;
  unique_ = header->unique;
  offers_killpriv_ = (in->flags & FUSE_HANDLE_KILLPRIV_V2) != 0;
  offers_timeout_ = (in->flags & FUSE_INIT_EXT) != 0 && (in->flags2 & (kRequestTimeout >> 32)) != 0;
  offers_rings_ = (in->flags & FUSE_INIT_EXT) != 0 && (in->flags2 & (kFuseOverIoUring >> 32)) != 0;
}

bool FuseInitAmendment::amend_reply(std::span<const iovec> reply) {
  if (reply.size() != 2 || reply[0].iov_len != sizeof(fuse_out_header) || reply[1].iov_len < sizeof(fuse_init_out))
    return false;
  const auto& header = *static_cast<const fuse_out_header*>(reply[0].iov_base);
  if (header.unique != unique_ || header.error != 0) return false;
  auto& out = *static_cast<fuse_init_out*>(reply[1].iov_base);
  if (offers_killpriv_) {
    out.flags |= FUSE_HANDLE_KILLPRIV_V2;
    kills_privileges_ = true;
  }
  if (offers_rings_ && wants_rings_) {
    out.flags |= FUSE_INIT_EXT;
    out.flags2 |= kFuseOverIoUring >> 32;
    has_rings_ = true;
  }
  if (offers_timeout_ && wanted_timeout_ != 0) {
    out.flags |= FUSE_INIT_EXT;
    out.flags2 |= kRequestTimeout >> 32;
    out.unused[kWordOfRequestTimeout] = wanted_timeout_;
  }
  return true;
}

}  // namespace brickfs
