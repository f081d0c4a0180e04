// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/secret_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "transport/base/unique_fd.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

std::string octal(mode_t mode) {
  std::string digits;
  for (int shift = 9; shift >= 0; shift -= 3) digits += static_cast<char>('0' + (mode >> shift & 7));
  return digits;
}

Error refuse(std::string* why, int code, std::string text) {
  if (why != nullptr) *why = std::move(text);
  return Error(code, "secret file");
}

// Who else could read it, or have written it, can prove itself to the brick.
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

// Of a file of random bytes a line end may be one of them.
bool is_text(std::string_view bytes) {
  return std::ranges::all_of(bytes,
                             [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; });
}

std::string_view without_ends(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

std::vector<Secret> secrets_of(std::string_view bytes) {
  const bool has_lines = is_text(bytes);
  std::vector<Secret> secrets;
  while (!bytes.empty()) {
    const size_t end = has_lines ? std::min(bytes.find('\n'), bytes.size() - 1) + 1 : bytes.size();
    const std::string_view line = without_ends(bytes.substr(0, end));
    if (!line.empty()) secrets.push_back(Secret{line});
    bytes.remove_prefix(end);
  }
  return secrets;
}

// One byte more than may be, to see that it is there. Overwritten when it goes.
struct PassingBytes {
  ~PassingBytes() { ::explicit_bzero(bytes.data(), bytes.size()); }
  std::string_view view() const { return {bytes.data(), length}; }

  std::array<char, limits::kSecretBytes + 1> bytes{};
  size_t length = 0;
};

Status read_all(int fd, const std::string& path, PassingBytes& to, std::string* why) {
  while (to.length < to.bytes.size()) {
    const ssize_t got = ::read(fd, to.bytes.data() + to.length, to.bytes.size() - to.length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(why, errno, "cannot read secret file " + path + ": " + std::strerror(errno));
    if (got == 0) break;
    to.length += static_cast<size_t>(got);
  }
  return {};
}

// A key of HMAC is filled up with zeros, so these are the secret of who knows none.
bool is_zeros(const Secret& secret) { return secret.bytes.view().find_first_not_of('\0') == std::string_view::npos; }

}  // namespace

Result<std::vector<Secret>> read_secrets(const std::string& path, std::string* why) {
  UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));  // which a FIFO would not return from else
  if (!fd) return refuse(why, errno, "cannot open secret file " + path + ": " + std::strerror(errno));
  TRY(check_secret_file(fd.get(), path, why));
  PassingBytes read;
  TRY(read_all(fd.get(), path, read, why));
  if (read.length > limits::kSecretBytes)
    return refuse(why, EINVAL, "secret file " + path + " is longer than 4096 bytes");
  auto secrets = secrets_of(read.view());
  if (secrets.empty()) return refuse(why, EINVAL, "secret file " + path + " is empty");
  if (std::ranges::any_of(secrets, is_zeros))
    return refuse(why, EINVAL, "secret file " + path + " holds nothing but zeros, which everybody knows");
  if (secrets.size() > limits::kSecrets) return refuse(why, EINVAL, "secret file " + path + " has more than 64 lines");
  return secrets;
}

Result<Secret> read_secret_file(const std::string& path, std::string* why) {
  return std::move(TRY(read_secrets(path, why)).front());
}

}  // namespace brickfs
