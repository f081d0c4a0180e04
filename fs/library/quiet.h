// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace brickfs::library {

// Before anything that may log: without a brickfs_set_log() lines go nowhere.
void be_quiet();

}  // namespace brickfs::library
