// SPDX-License-Identifier: Apache-2.0
// Between FUSE's terms and the file system's: who asks, attributes, answers.
#pragma once

#define FUSE_USE_VERSION 314

#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>

#include <cstdint>

#include "fs/base/timespec.h"
#include "fs/fuse/mount.h"
#include "fs/operations/filesystem.h"
#include "transport/base/result.h"

namespace brickfs {

// Names and attributes stay valid until the kernel changes them itself: the lease keeps everybody else away.
constexpr double kForeverSeconds = 1e9;

inline FuseMount& mount_of(fuse_req_t request) { return *static_cast<FuseMount*>(fuse_req_userdata(request)); }
inline Filesystem& filesystem_of(fuse_req_t request) { return mount_of(request).filesystem(); }
inline Ino ino_of(fuse_ino_t ino) { return Ino{ino}; }

Caller caller_of(fuse_req_t request);
// The caller of a request that did not pass through libfuse.
Caller make_caller(uint32_t uid, uint32_t gid, uint32_t pid, uint32_t umask);

// Of a reader by an open file with these flags (open(2)).
Touch touch_of(uint32_t open_flags);
struct stat to_stat(const Attributes& attributes);
fuse_entry_param to_entry(const Attributes& attributes);

// Of a write out of the kernel's page cache, before it is answered.
void note_written_back(fuse_req_t request, Ino ino, uint64_t end, const Result<uint64_t>& written);
void reply_status(fuse_req_t request, const Status& status);
void reply_error(fuse_req_t request, const Error& error);
// To the request at the calling thread's place. What was written past the kernel's page cache is answered when the
// pages it may have of that have been dropped, by another thread: then the place was put aside. For a failed write,
// too, of which some bytes may be there.
void reply_written(fuse_req_t request, Ino ino, uint64_t offset, uint64_t length, const Result<uint64_t>& written);
// Hands a reference over to the kernel; takes it back when the kernel is gone.
void reply_entry(fuse_req_t request, const Result<Attributes>& attributes);
void reply_attributes(fuse_req_t request, const Result<Attributes>& attributes);

}  // namespace brickfs
