// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/client_secret.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "transport/base/log.h"
#include "transport/base/mutex.h"
#include "transport/brick/secret_file.h"

namespace brickfs {

struct ClientSecret::Known {
  explicit Known(Secret of) : secret(std::move(of)) {}

  std::string path;  // empty: of no file. Fixed
  Mutex mutex;
  Secret secret ABSL_GUARDED_BY(mutex);
  std::string said ABSL_GUARDED_BY(mutex);  // of the file as it is now
};

ClientSecret::ClientSecret(Secret secret) : known_(std::make_shared<Known>(std::move(secret))) {}

Result<ClientSecret> ClientSecret::of_file(const std::string& path, std::string* why) {
  if (path.empty()) return ClientSecret();
  ClientSecret made(TRY(read_secret_file(path, why)));
  std::error_code ignored;
  made.known_->path = std::filesystem::absolute(path, ignored).string();  // wherever this process goes
  return made;
}

ClientSecret ClientSecret::with(TlsMode tls) const {
  ClientSecret copy = *this;
  copy.tls_ = tls;
  return copy;
}

Secret ClientSecret::get() const {
  MutexLock lock(known_->mutex);
  return known_->secret;
}

// The file is read without the lock: it may be of a file system that is slow.
bool ClientSecret::read_again(const Secret& refused) const {
  if (known_->path.empty()) return false;
  std::string why;
  auto read = read_secret_file(known_->path, &why);
  MutexLock lock(known_->mutex);
  if (!read.ok() && known_->said != why) log::warn("{}: the secret that was read before stays in use", why);
  known_->said = why;
  if (read.ok()) known_->secret = *std::move(read);
  return known_->secret.bytes != refused.bytes;
}

}  // namespace brickfs
