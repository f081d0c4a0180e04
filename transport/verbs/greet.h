// SPDX-License-Identifier: Apache-2.0
// The client's first words on RDMA connections. docs/protocol.md, "RDMA".
#pragma once

#include <memory>

#include "transport/base/result.h"
#include "transport/brick/source.h"
#include "transport/remote/handshake.h"
#include "transport/verbs/cm.h"
#include "transport/verbs/message_channel.h"

namespace brickfs::verbs {

// Never beyond `latest`. ENODEV: no device leads there.
Result<Greeted<MessageChannel>> greet(const HostPort& address, Deadline latest);

}  // namespace brickfs::verbs
