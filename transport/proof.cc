// SPDX-License-Identifier: Apache-2.0
#include "transport/proof.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "transport/base/check.h"
#include "transport/base/random.h"
#include "transport/base/unique_fd.h"
#include "transport/limits.h"

namespace brickfs {
namespace {

void append(std::vector<unsigned char>& to, std::span<const std::byte> bytes) {
  const auto* begin = reinterpret_cast<const unsigned char*>(bytes.data());
  to.insert(to.end(), begin, begin + bytes.size());
}

Error refuse(std::string* why, int code, std::string text) {
  if (why != nullptr) *why = std::move(text);
  return Error(code, "secret file");
}

}  // namespace

Result<Secret> read_secret_file(const std::string& path, std::string* why) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return refuse(why, errno, "cannot open secret file " + path + ": " + std::strerror(errno));
  std::string bytes(limits::kSecretBytes + 1, '\0');
  size_t length = 0;
  while (length < bytes.size()) {
    const ssize_t got = ::read(fd.get(), bytes.data() + length, bytes.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(why, errno, "cannot read secret file " + path + ": " + std::strerror(errno));
    if (got == 0) break;
    length += static_cast<size_t>(got);
  }
  if (length > limits::kSecretBytes) return refuse(why, EINVAL, "secret file " + path + " is longer than 4096 bytes");
  while (length > 0 && (bytes[length - 1] == '\n' || bytes[length - 1] == '\r')) --length;
  if (length == 0) return refuse(why, EINVAL, "secret file " + path + " is empty");
  bytes.resize(length);
  return Secret{std::move(bytes)};
}

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
  append(text, message);
  Proof proof{};
  unsigned int length = 0;
  const auto* made = HMAC(EVP_sha256(), secret.bytes.data(), static_cast<int>(secret.bytes.size()), text.data(),
                          text.size(), reinterpret_cast<unsigned char*>(proof.data()), &length);
  CHECK(made != nullptr && length == proof.size());
  return proof;
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace brickfs
