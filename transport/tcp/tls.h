// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 on a TCP connection, from a secret alone: an external pre-shared key with ephemeral ones (psk_dhe_ke), and no
// certificates. Who has recorded everything and learns the secret later can read none of it. docs/security.md, "The
// wire".
//
// Source: RFC 8446, 2.2 and 4.2.11; RFC 9257 (a key for this alone is derived from the secret).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/proof.h"
#include "transport/brick/volume_key.h"

namespace brickfs::tcp {

// Sent by one key, then by another: a quarter of what RFC 8446, 5.5, lets a key of AES-GCM do.
constexpr uint64_t kTlsRekeyBytes = uint64_t{96} << 30;

// One end of it. Nothing here waits: the socket is not asked to.
//
// Threads: any, one receiving and one sending at a time. Errors: EACCES: the peer knows no such secret, or does not
// prove it; ENOTCONN: it has gone, or what came is not what was sent; EPROTO: it does not speak TLS.
class TlsSession {
 public:
  // Whose secret a peer wants to be known by. None: he is refused.
  using FindSecret = std::function<std::optional<Secret>(KeyId)>;

  // On a connected socket, which outlives it. ENOMEM.
  static Result<std::unique_ptr<TlsSession>> client(int fd, const Secret& secret,
                                                    uint64_t rekey_bytes = kTlsRekeyBytes);
  static Result<std::unique_ptr<TlsSession>> server(int fd, FindSecret find);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  enum class Step { kDone, kReads, kWrites };  // what the next one waits for
  Result<Step> shake_hands();

  // At least one byte. EAGAIN: none is there.
  Result<size_t> receive(std::span<const iovec> parts);
  // How many were taken; 0: there is no room. Then the same bytes come first the next time.
  Result<size_t> send(std::span<const iovec> parts);
  // Something has come, and been decrypted, that nobody has taken.
  bool holds_some() const;

  struct Impl;

 private:
  explicit TlsSession(std::unique_ptr<Impl> impl);

  mutable Mutex mutex_;
  const std::unique_ptr<Impl> impl_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace brickfs::tcp
