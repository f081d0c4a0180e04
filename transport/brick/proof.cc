// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/proof.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "transport/base/bytes.h"
#include "transport/base/check.h"
#include "transport/base/random.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

void append(std::vector<unsigned char>& to, std::span<const std::byte> bytes) {
  const auto* begin = reinterpret_cast<const unsigned char*>(bytes.data());
  to.insert(to.end(), begin, begin + bytes.size());
}

std::string octal(mode_t mode) {
  std::string digits;
  for (int shift = 9; shift >= 0; shift -= 3) digits += static_cast<char>('0' + (mode >> shift & 7));
  return digits;
}

Error refuse(std::string* why, int code, std::string text) {
  if (why != nullptr) *why = std::move(text);
  return Error(code, "secret file");
}

// Who else could read it, or have written it, is no longer a stranger to the brick.
Status check_secret_file(int fd, const std::string& path, std::string* why) {
  struct stat info {};
  if (::fstat(fd, &info) != 0)
    return refuse(why, errno, "cannot examine secret file " + path + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return refuse(why, EINVAL, "secret file " + path + " is not a regular file");
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return refuse(why, EPERM,
                  "secret file " + path + " belongs to another user (" + std::to_string(info.st_uid) +
                      "): make it root's or your own, with chown");
  }
  const mode_t others = info.st_uid == 0 ? S_IRWXO | S_IWGRP | S_IXGRP : S_IRWXO | S_IRWXG;
  if ((info.st_mode & others) == 0) return {};
  return refuse(why, EPERM,
                "secret file " + path + " is open to others (mode " + octal(info.st_mode & 07777) + "): chmod 600 it" +
                    (info.st_uid == 0 ? ", or 640 for a group of its own" : ""));
}

}  // namespace

Result<Secret> read_secret_file(const std::string& path, std::string* why) {
  UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));  // which a FIFO would not return from else
  if (!fd) return refuse(why, errno, "cannot open secret file " + path + ": " + std::strerror(errno));
  TRY(check_secret_file(fd.get(), path, why));
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

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace brickfs
