// SPDX-License-Identifier: Apache-2.0
// Who may open a volume: both ends know a secret and prove it to each other without sending it, by HMAC-SHA256 (RFC
// 2104) over both ends' nonces and the frame that asks or answers. docs/protocol.md, "Proof".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "transport/brick/secret_bytes.h"

namespace brickfs {

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

// Empty: none is asked for, and none is known.
struct Secret {
  SecretBytes bytes;
};

// What both ends have said in the greeting of one connection; nonces are fresh for each, so that nothing recorded can
// be played again, and nobody between the two changes what they know.
struct Nonces {
  Nonce client{};
  Nonce server{};
  uint64_t client_features = 0;
  uint64_t server_features = 0;

  uint64_t features() const { return client_features & server_features; }  // in use
};

Nonce random_nonce();

// `purpose` keeps a proof made for one thing from being used for another.
Proof make_proof(const Secret& secret, std::string_view purpose, const Nonces& nonces,
                 std::span<const std::byte> message);
// Who knows one proves the other, too. That may be so of different bytes: a key of HMAC is filled up with zeros.
bool same_secret(const Secret& a, const Secret& b);
// Takes the same time whatever differs.
bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace brickfs
