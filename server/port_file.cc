// SPDX-License-Identifier: Apache-2.0
#include "server/port_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "transport/base/random.h"
#include "transport/base/unique_fd.h"

namespace brickfs {
namespace {

Error refuse(std::string* why, const std::string& path, int code, const std::string& text) {
  *why = fmt::format("cannot write port file {}: {}", path, text);
  return Error(code, "port file");
}

Status check_what_is_there(const std::string& path, std::string* why) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? Status() : refuse(why, path, errno, std::strerror(errno));
  }
  if (S_ISLNK(info.st_mode)) return refuse(why, path, EINVAL, "a link is there, which is not followed: remove it");
  if (!S_ISREG(info.st_mode)) return refuse(why, path, EINVAL, "what is there is not a regular file: name another");
  if (info.st_uid == ::geteuid()) return {};
  return refuse(why, path, EPERM,
                fmt::format("another user's file is there (of {}): remove it, or name another", info.st_uid));
}

}  // namespace

Status write_port_file(const std::string& path, const std::string& text, std::string* why) {
  if (const Status there = check_what_is_there(path, why); !there.ok()) return there;
  const std::string temporary = fmt::format("{}.{:016x}", path, random_id<uint64_t>());  // beside it, to be renamed
  const UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd) return refuse(why, path, errno, std::strerror(errno));
  const bool written = ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (written && ::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const int code = errno != 0 ? errno : EIO;
  ::unlink(temporary.c_str());
  return refuse(why, path, code, std::strerror(code));
}

}  // namespace brickfs
