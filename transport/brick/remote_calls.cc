// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/remote_calls.h"

#include "transport/brick/limits.h"

namespace brickfs {

Error explain_call(int status) {
  switch (status) {
    case ESTALE:  // why, the answer to OPEN says
      return Error(ENOTCONN, "the session has ended");
    case ENOSPC:
      return Error(status, "the brick is full");
    case EDQUOT:
      return Error(status, "the volume's quota is used up");
    case EEXIST:
      return Error(status, "a block exists already");
    case ENOENT:
      return Error(status, "a block does not exist");
    default:
      return Error(status, "the brick refused the call");
  }
}

Error explain_open(int status) {
  switch (status) {
    case EBUSY:
      return Error(status, "the volume is held by another");
    case EACCES:
      return Error(status, "the secret is wrong or missing");
    case ENOENT:
      return Error(status, "no such volume");
    case ESTALE:
      return Error(status, "another holds the volume since");
    case ENOBUFS:
      return Error(status, "the session has too many connections");
    case EUSERS:
      return Error(status, "the brick has too many sessions");
    default:
      return Error(status, "the brick refused the session");
  }
}

Status check_open(const OpenRequest& request) {
  if (request.client == ClientId{}) return Error(EINVAL, "no client id");
  if (request.volume.size() > limits::kVolumeNameBytes || request.client_name.size() > limits::kClientNameBytes) {
    return Error(EINVAL, "name is too long");
  }
  return {};
}

Status check_range(const BlockRange& blocks) {
  if (!is_valid(blocks) || blocks.count > limits::kBlocksPerCall) return Error(EINVAL, "no valid range of blocks");
  return {};
}

uint64_t length_of(const Transfer& transfer) {
  uint64_t length = 0;
  for (const LocalSlice& slice : transfer.local) length += slice.length_bytes;
  return length;
}

int check_transfer(const Transfer& transfer) {
  const uint64_t length = length_of(transfer);
  const uint64_t size = transfer.handle.blocks.count * kBlockBytes;
  if (length == 0 || length > limits::kTransferBytes || transfer.local.size() > limits::kSlicesPerTransfer)
    return EINVAL;
  if (transfer.offset > size || length > size - transfer.offset) return EINVAL;
  if (transfer.direction == Direction::kWrite && transfer.handle.access != Access::kReadWrite) return EACCES;
  return 0;
}

}  // namespace brickfs
