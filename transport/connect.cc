// SPDX-License-Identifier: Apache-2.0
#include "transport/connect.h"

#include "transport/tcp/tcp_brick.h"

namespace brickfs {

Result<std::unique_ptr<Brick>> make_remote_brick(const Source& source, const Secret& secret, std::string* why) {
  switch (source.kind) {
    case SourceKind::kTcp:
      return make_tcp_brick(source.addresses.front().host, source.addresses.front().port, secret);
    case SourceKind::kRdma:
      if (why != nullptr) *why = "rdma:// is not built into this program; use tcp://";
      return Error(ENOTSUP, "rdma is not built in");
    case SourceKind::kMemory:
    case SourceKind::kFile:
      break;
  }
  if (why != nullptr) *why = "not a remote source";
  return Error(EINVAL, "not a remote source");
}

}  // namespace brickfs
