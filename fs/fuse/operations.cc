// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/operations.h"

#include "fs/fuse/buffers.h"
#include "fs/fuse/mount.h"

namespace brickfs {
namespace {

constexpr unsigned kMaxBackground = 64;  // asynchronous requests (read-ahead, direct I/O, writeback) under way at once
constexpr unsigned kCongestionThreshold = 48;

void init(void* user_data, fuse_conn_info* connection) {
  const FuseMount& mount = *static_cast<const FuseMount*>(user_data);
  // Data in the kernel's cache is dropped only when we say so (EXPLICIT_INVAL_DATA). Without ATOMIC_O_TRUNC a
  // truncating open comes as a setattr. Set-uid bits: fs/fuse/extra.h.
  unsigned want = FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
                  FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_DONT_MASK | FUSE_CAP_POSIX_ACL |
                  FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPLICIT_INVAL_DATA;
  if (mount.writeback() != nullptr) want |= FUSE_CAP_WRITEBACK_CACHE;
  connection->want = want & connection->capable;
  connection->max_write = kFuseTransferBytes;
  connection->max_readahead = kReadAheadBytes;
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kCongestionThreshold;
  connection->time_gran = 1;
}

}  // namespace

fuse_lowlevel_ops make_fuse_operations() {
  fuse_lowlevel_ops operations{};
  operations.init = init;
  set_name_operations(operations);
  set_directory_operations(operations);
  set_attribute_operations(operations);
  set_data_operations(operations);
  return operations;
}

}  // namespace brickfs
