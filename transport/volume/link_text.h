// SPDX-License-Identifier: Apache-2.0
// What the text of a link (LinkState) begins with, for those who have the text alone.
#pragma once

namespace brickfs {

// It waits for the map of its set, by which alone a brick that is away can be left out.
inline constexpr const char* kWaitsForEtcd = "waits for etcd";

}  // namespace brickfs
