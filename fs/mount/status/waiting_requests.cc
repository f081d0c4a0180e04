// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/status/waiting_requests.h"

#include <fstream>

namespace brickfs {

uint64_t waiting_requests(const std::string& device) {
  uint64_t requests = 0;
  std::ifstream("/sys/fs/fuse/connections/" + device.substr(device.find(':') + 1) + "/waiting") >> requests;
  return requests;
}

}  // namespace brickfs
