// SPDX-License-Identifier: Apache-2.0
// A ring to a mount, as the C interface has it: the files of fs/shm_queue/client.h by their descriptors.
#pragma once

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "fs/library/brickfs.h"
#include "fs/library/call.h"
#include "fs/shm_queue/client.h"
#include "transport/base/mutex.h"

struct brickfs_ring {
  explicit brickfs_ring(std::unique_ptr<brickfs::shm_queue::Client> of) : client(std::move(of)) {}

  // EBADF: it was not added.
  brickfs::Result<uint32_t> file_of(int descriptor);
  bool holds(const void* data, size_t length) const;  // in the buffer
  // Of bytes in the buffer, at most kMostTransferBytes. EINVAL: they are not there. EBADF.
  brickfs::Result<brickfs::shm_queue::Client::Request> request_for(brickfs::shm_queue::Operation operation,
                                                                   int descriptor, const void* data, size_t length,
                                                                   uint64_t offset);

  const std::unique_ptr<brickfs::shm_queue::Client> client;
  brickfs::library::Children children;  // queues
  brickfs::Mutex mutex;
  absl::flat_hash_map<int, uint32_t> files ABSL_GUARDED_BY(mutex);  // by descriptor
};
