// SPDX-License-Identifier: Apache-2.0
// What tests of a VolumeClient say often: open it over a RestartingBrick, and move bytes by volume address.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/block_numbers.h"
#include "tests/support/restarting_brick.h"
#include "transport/volume/volume_client.h"

namespace brickfs::testing {

using Bytes = std::vector<std::byte>;

inline VolumeOptions remote_options() {
  VolumeOptions options;
  options.open.client = ClientId{7};
  options.open.client_name = "test";
  return options;
}

inline std::unique_ptr<VolumeClient> open_volume(RestartingBrick& brick, VolumeOptions options = remote_options()) {
  auto volume = VolumeClient::open(brick.make_brick(), std::move(options), nullptr);
  EXPECT_TRUE(volume.ok()) << volume.error().what();
  return std::move(*volume);
}

inline Status write(VolumeClient& volume, uint64_t address, const Bytes& bytes, Stage stage = Stage::kData) {
  Bytes copy = bytes;
  const Piece piece{address, {{copy.data(), static_cast<uint32_t>(copy.size()), 0}}};
  return volume.write(std::span(&piece, 1), stage);
}

inline Result<Bytes> read(VolumeClient& volume, uint64_t address, size_t length) {
  Bytes bytes(length);
  const Piece piece{address, {{bytes.data(), static_cast<uint32_t>(length), 0}}};
  TRY(volume.read(std::span(&piece, 1)));
  return bytes;
}

}  // namespace brickfs::testing
