// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <vector>

#include "transport/base/bytes.h"
#include "transport/base/check.h"
#include "transport/base/random.h"

namespace brickfs {
namespace {

void append(std::vector<unsigned char>& to, std::span<const std::byte> bytes) {
  const auto* begin = reinterpret_cast<const unsigned char*>(bytes.data());
  to.insert(to.end(), begin, begin + bytes.size());
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  fill_random(nonce);
  return nonce;
}

Proof make_proof(const Secret& secret, std::string_view purpose, const Nonces& nonces,
                 std::span<const std::byte> message) {
  std::vector<unsigned char> text;
  append(text, std::as_bytes(std::span(purpose)));
  text.push_back(0);
  append(text, nonces.client);
  append(text, nonces.server);
  append(text, bytes_of(nonces.client_features));
  append(text, bytes_of(nonces.server_features));
  append(text, message);
  Proof proof{};
  unsigned int length = 0;
  const auto* made = HMAC(EVP_sha256(), secret.bytes.data(), static_cast<int>(secret.bytes.size()), text.data(),
                          text.size(), reinterpret_cast<unsigned char*>(proof.data()), &length);
  CHECK(made != nullptr && length == proof.size());
  return proof;
}

bool same_secret(const Secret& a, const Secret& b) {
  const Nonces nonces;
  return same_bytes(make_proof(a, "same", nonces, {}), make_proof(b, "same", nonces, {}));
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace brickfs
