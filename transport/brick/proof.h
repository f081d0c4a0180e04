// SPDX-License-Identifier: Apache-2.0
// Who may open a volume: both ends know a secret and prove it to each other without sending it, by HMAC-SHA256 (RFC
// 2104) over both ends' nonces and the frame that asks or answers. docs/protocol.md, "Proof".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

// Empty: none is asked for, and none is known.
struct Secret {
  std::string bytes;
};

// A brick's secret, which may be changed while it serves: who is at a handshake goes on with the one that he began
// with. Threads: any.
class SecretInForce {
 public:
  explicit SecretInForce(Secret secret) : secret_(std::move(secret)) {}
  Secret get() const {
    MutexLock lock(mutex_);
    return secret_;
  }
  void set(Secret secret) {
    MutexLock lock(mutex_);
    secret_ = std::move(secret);
  }

 private:
  mutable Mutex mutex_;
  Secret secret_ ABSL_GUARDED_BY(mutex_);
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

// The file's bytes without line ends behind them. EINVAL, with `why`: empty, more than limits::kSecretBytes, or no
// regular file. EPERM: somebody else may know or have chosen what is in it. It is this user's, for nobody else; or
// root's, whose group may read it.
Result<Secret> read_secret_file(const std::string& path, std::string* why);

Nonce random_nonce();

// `purpose` keeps a proof made for one thing from being used for another.
Proof make_proof(const Secret& secret, std::string_view purpose, const Nonces& nonces,
                 std::span<const std::byte> message);
// Takes the same time whatever differs.
bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace brickfs
