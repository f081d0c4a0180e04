// SPDX-License-Identifier: Apache-2.0
// How a program comes to a queue: a socket of the mount that everybody on this machine may connect to, and what is said
// on it. To have a file served one shows an open descriptor of it, so the kernel has decided who may do what.
//
// The program begins with kBegin and the memory (memory.h). Each message but kForget is answered, but looked for
// only when ControlArea::said is another. The connection is the queue: it ends with either end.
//
// Threads: any; one at a time for each socket and direction.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs::shm_queue {

// A socket in it for each mount with queues. Only root may make one there, so nobody poses as a mount.
constexpr const char* kSocketDirectory = "/run/brickfs-rings";
// `device_number`: "MAJOR:MINOR" of the mounted file system.
std::string socket_path(std::string_view device_number);

constexpr uint32_t kVersion = 3;

struct Message {
  enum class Kind : uint32_t { kBegin = 1, kFile = 2, kForget = 3 };
  Kind kind;
  uint32_t number;        // kBegin: kVersion; kForget: the file
  uint64_t buffer_bytes;  // of kBegin
};

struct Reply {
  int32_t result;  // an errno below zero; kFile: the file's number
  uint32_t flags;  // of kBegin: kKernelWrites
};
// The kernel has a write-back cache, and with it the last word on sizes and times: it does the writes, and knows the
// end of a file.
constexpr uint32_t kKernelWrites = 1;

// With a descriptor, or without (below 0). Neither waits for the other end to read. ENOTCONN, EAGAIN.
Status send_packet(int socket, const void* data, size_t length, int descriptor = -1);
// Exactly so many bytes, and the descriptor that came with them, if any; also with an error. Of more descriptors the
// first, and the rest in `others`; without that they are closed here, which may wait for whose they are.
// EAGAIN: none there (of a socket that does not wait); ENOTCONN: the other end has gone; EPROTO: another length;
// EMFILE: all that was said, but this process may have no more descriptors.
Status receive_packet(int socket, void* data, size_t length, UniqueFd* descriptor,
                      std::vector<UniqueFd>* others = nullptr);

}  // namespace brickfs::shm_queue
