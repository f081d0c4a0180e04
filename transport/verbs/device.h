// SPDX-License-Identifier: Apache-2.0
// What an RDMA device can do, as far as this transport depends on it, and memory registered with it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transport/base/result.h"
#include "transport/verbs/verbs_ptr.h"

namespace brickfs::verbs {

struct DeviceFacts {
  std::string name;            // "rxe0"
  uint32_t slices = 0;         // scatter-gather entries of one work request
  uint32_t reads_out = 0;      // RDMA READs under way that a queue pair may begin
  uint32_t reads_in = 0;       // ... and may serve
  uint64_t message_bytes = 0;  // of one work request
  uint32_t regions = 0;
  bool claims_windows = false;  // of type 2B; window_probe.h finds out
};

Result<DeviceFacts> look_at(ibv_context* device);

// "" when there is a device and this process may use it; else one line: what is missing and what to do.
std::string why_no_device();

// ENOMEM, EPERM, of that text, with one line in the log (once for each reason): which limit, which cure.
constexpr const char* kCannotRegister = "memory cannot be registered with the RDMA device";
Result<MrPtr> register_region(ibv_pd* domain, std::span<std::byte> memory, int access);
Result<PdPtr> make_domain(ibv_context* device);
// Whose descriptor does not block.
Result<CompChannelPtr> make_completion_channel(ibv_context* device);

}  // namespace brickfs::verbs
