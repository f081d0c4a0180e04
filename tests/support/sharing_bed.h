// SPDX-License-Identifier: Apache-2.0
// What tests of shared volumes say often: as what a member joins a coordinator on this host, and how it reads and
// writes the brick.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "fs/shared/coordinator_link.h"
#include "fs/shared/member_bricks.h"
#include "tests/support/faulty_brick.h"
#include "transport/brick/secret_bytes.h"
#include "transport/volume/volume_client.h"

namespace brickfs::shared {

inline constexpr std::string_view kTestSecret = "a secret";
inline Secret secret_of(std::string_view text) { return {SecretBytes(text)}; }

// Of the volume "home". Whoever coordinates it has ended for good, if it does not answer.
inline CoordinatorLink::Config member_config(uint16_t port, ClientId client) {
  CoordinatorLink::Config config;
  config.address = {"127.0.0.1", port};
  config.secret = secret_of(kTestSecret);
  config.request.client = client;
  config.request.volume = "home";
  config.request.name = "a member";
  config.seek = [](const CoordinatorLink::Lost&) -> Result<CoordinatorLink::Sought> {
    return CoordinatorLink::Sought{};
  };
  return config;
}

// A member's sessions with the one brick, on which faults come as the test wants.
inline MemberBricks::Open follow(std::shared_ptr<BrickFaults> faults, ClientId client) {
  return [faults = std::move(faults), client](uint32_t, const ReadableBrick& brick, bool writes) {
    VolumeOptions options;
    options.open.client = client;
    options.open.mode = OpenMode::kFollow;
    options.open.bound = true;
    options.open.writes = writes;
    options.open.resume = brick.epoch;
    options.soft = std::chrono::milliseconds(500);
    return VolumeClient::open(faults->make_brick(), std::move(options), nullptr);
  };
}

}  // namespace brickfs::shared
