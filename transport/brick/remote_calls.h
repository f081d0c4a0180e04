// SPDX-License-Identifier: Apache-2.0
// What the clients of remote bricks share: words for a brick's answers, and the rules a transfer must keep.
#pragma once

#include <cstdint>

#include "transport/base/result.h"
#include "transport/brick/brick.h"

namespace brickfs {

// `status`: of an answer, not 0.
Error explain_call(int status);  // ENOTCONN: the session has ended
Error explain_open(int status);  // to OPEN or ATTACH: proved (transport/brick/refusal.h)

// EINVAL: what no brick need be asked.
Status check_open(const OpenRequest& request);
Status check_range(const BlockRange& blocks);  // of a call

uint64_t length_of(const Transfer& transfer);
// 0 or an errno, as the interface's rules have it.
int check_transfer(const Transfer& transfer);

}  // namespace brickfs
