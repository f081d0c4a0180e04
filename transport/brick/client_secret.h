// SPDX-License-Identifier: Apache-2.0
// What a client proves itself by: a secret, and the file that had it, which is read again when a brick refuses it, as
// it may have been changed under a mount. And whether it encrypts by it what it says over TCP.
#pragma once

#include <cerrno>
#include <memory>
#include <string>

#include "transport/base/result.h"
#include "transport/brick/proof.h"
#include "transport/brick/tls_mode.h"

namespace brickfs {

// Copies are one: what the file has later counts for all. Threads: any.
class ClientSecret {
 public:
  ClientSecret(Secret secret = {});  // NOLINT(google-explicit-constructor): it is that one, and stays so
  // As read_secret_file(); an empty path: no secret.
  static Result<ClientSecret> of_file(const std::string& path, std::string* why);

  ClientSecret with(TlsMode tls) const;
  TlsMode tls() const { return tls_; }
  Secret get() const;
  // `refused` is what a brick did not take. True: there is another now. A file that cannot be taken changes nothing,
  // and is told of once.
  bool read_again(const Secret& refused) const;

 private:
  struct Known;
  std::shared_ptr<Known> known_;
  TlsMode tls_ = TlsMode::kOff;
};

// What `attempt` comes to with the secret `first`; if that is refused, and there is another now, or the file has one,
// with that one.
template <typename Attempt>
auto prove_with(const ClientSecret& secret, const Secret& first, const Attempt& attempt) {
  auto outcome = attempt(first);
  if (outcome.code() != EACCES || !secret.read_again(first)) return outcome;
  return attempt(secret.get());
}

template <typename Attempt>
auto prove_with(const ClientSecret& secret, const Attempt& attempt) {
  return prove_with(secret, secret.get(), attempt);
}

}  // namespace brickfs
