// SPDX-License-Identifier: Apache-2.0
#include "transport/paths/connect.h"

#include "transport/paths/redirected_brick.h"
#include "transport/tcp/tcp_brick.h"
#include "transport/verbs/device.h"
#include "transport/verbs/verbs_brick.h"

namespace brickfs {

Result<std::unique_ptr<Brick>> make_remote_brick(const Source& source, const Secret& secret, std::string* why) {
  switch (source.kind) {
    case SourceKind::kTcp:
      return make_tcp_brick(source.addresses.front().host, source.addresses.front().port, secret);
    case SourceKind::kRdma: {
      const std::string missing = verbs::why_no_device();
      if (!missing.empty()) {
        if (why != nullptr) *why = missing;
        return Error(ENODEV, "no RDMA device here");
      }
      return make_brick_with_tcp_around(source.addresses, secret,
                                        [source, secret] { return make_verbs_brick(source.addresses, secret); });
    }
    case SourceKind::kMemory:
    case SourceKind::kFile:
      break;
  }
  if (why != nullptr) *why = "not a remote source";
  return Error(EINVAL, "not a remote source");
}

}  // namespace brickfs
