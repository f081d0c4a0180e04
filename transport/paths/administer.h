// SPDX-License-Identifier: Apache-2.0
// From a remote source to an administrator's call on its brick.
#pragma once

#include "transport/base/result.h"
#include "transport/brick/administration.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/source.h"

namespace brickfs {

// By the first of the source's addresses that leads to a brick; its volume does not matter. Errors as administer()
// (transport/remote/handshake.h), or of the path. ENODEV: no RDMA device here.
Result<AdminAnswer> administer_remote(const Source& source, const ClientSecret& secret, const AdminRequest& request);

}  // namespace brickfs
