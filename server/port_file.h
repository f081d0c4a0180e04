// SPDX-License-Identifier: Apache-2.0
// Where brickd tells the ports that it got.
#pragma once

#include <string>

#include "transport/base/result.h"

namespace brickfs {

// Whole or not at all, for whoever waits for it, and never through a link: what is there gives way if it is a regular
// file of this user. EPERM, EINVAL: it is not, and stays. Others as the system gave them. `why`: one line.
Status write_port_file(const std::string& path, const std::string& text, std::string* why);

}  // namespace brickfs
