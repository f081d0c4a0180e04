// SPDX-License-Identifier: Apache-2.0
// brickctl volume key: the keys of a brick's volumes, for its administrator.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/brickctl/administrator.h"
#include "tools/brickctl/commands.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/target.h"
#include "transport/base/local_time.h"
#include "transport/base/printable.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/secret_file.h"

namespace brickfs {
namespace {

const char* describe_rights(KeyRights rights) { return rights == KeyRights::kReadOnly ? "ro" : "rw"; }

std::string describe_key_refusal(const AdminRequest& request, int status) {
  switch (status) {
    case EEXIST:
      return fmt::format("volume {} has that key already", request.volume);
    case ENOENT:
      return fmt::format("the brick has no volume {}", request.volume);
    case ENOKEY:
      return fmt::format("volume {} has no key {}", request.volume, format_key_id(request.key.id));
    case ENOBUFS:
      return fmt::format("volume {} has {} keys, as many as it can have", request.volume, limits::kKeysOfVolume);
    case ENOSPC:
      return fmt::format("the brick has {} keys, as many as it can have", limits::kKeys);
    case ENOTSUP:
      return "the brick has no room for keys: its store, or the memory that it keeps, was made by an older brickd, or "
             "its table takes all of the room";
    case EIO:
      return "the brick's store failed: its log says why";
    default:
      return std::strerror(status);
  }
}

// A file of a fresh key, durably: nobody is let in by a key that nobody has.
Status write_key_file(const std::string& path, std::string* why) {
  const Secret key = make_key();
  const auto fail = [&](int code) {
    *why = fmt::format("cannot write key file {}: {}", path, std::strerror(code));
    return Error(code, "key file");
  };
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail(errno);
  std::array parts = {iovec{const_cast<char*>(key.bytes.data()), key.bytes.size()}, iovec{const_cast<char*>("\n"), 1}};
  const ssize_t written = ::writev(fd.get(), parts.data(), parts.size());
  const bool is_whole = written == static_cast<ssize_t>(key.bytes.size() + 1);
  if (is_whole && ::fsync(fd.get()) == 0) return {};
  const int code = written >= 0 && !is_whole ? ENOSPC : errno;
  ::unlink(path.c_str());
  return fail(code);
}

// What the file has; `made`: it was not there.
Result<Secret> key_of(const std::string& path, bool* made, std::string* why) {
  *made = ::access(path.c_str(), F_OK) != 0 && errno == ENOENT;
  if (*made) TRY(write_key_file(path, why));
  Secret key = TRY(read_secret_file(path, why));
  if (check_key(key).ok()) return key;
  *why = fmt::format("key file {}: a key has {} to {} characters; one is made if the file is not there", path,
                     kLeastKeyBytes, kKeyBytes);
  return Error(EINVAL, "no key");
}

void print_keys(const Command& command, const std::vector<KeyStatus>& keys) {
  if (command.json) {
    Json list = Json::array();
    for (const KeyStatus& key : keys) {
      list.push_back({{"id", format_key_id(key.id)},
                      {"rights", describe_rights(key.rights)},
                      {"added", key.added_unix_seconds},
                      {"sessions", key.sessions}});
    }
    print_json({{"volume", command.admin.volume}, {"keys", list}});
    return;
  }
  if (command.admin.action != AdminAction::kListKeys) return;
  fmt::print("{:<16}  {:<6}  {:>8}  {}\n", "key", "rights", "sessions", "added");
  for (const KeyStatus& key : keys) {
    fmt::print("{:<16}  {:<6}  {:>8}  {}\n", format_key_id(key.id), describe_rights(key.rights), key.sessions,
               local_time(key.added_unix_seconds));
  }
}

}  // namespace

int run_volume_key(const Command& command) {
  std::string why;
  Target target{command.source, {}, nullptr};
  auto source = parse_source(command.source, &why);
  if (!source.ok()) return fail(command, why);
  target.source = *source;
  if (source->volume != kDefaultVolume)
    return fail(command, "a brick is meant here, not a volume of it: name that behind the source");
  AdminRequest request = command.admin;
  bool made = false;
  if (request.action == AdminAction::kAddKey) {
    auto key = key_of(command.key_file, &made, &why);
    if (!key.ok()) return fail(command, why);
    request.key.secret = *std::move(key);
    request.key.id = key_id_of(request.key.secret);
  }
  const auto answer = Administrator(*source, command.admin_secret_file).ask(request, &why);
  // What the brick has not answered it may have done: the file stays then.
  if (made && answer.ok() && answer->status != 0) ::unlink(command.key_file.c_str());
  if (!answer.ok()) return fail(command, describe_admin_error(target, answer.error(), why));
  if (answer->status != 0) return fail(command, describe_key_refusal(request, answer->status));
  if (request.action == AdminAction::kAddKey && !command.json) fmt::print("{}\n", format_key_id(request.key.id));
  print_keys(command, answer->keys);
  return EXIT_SUCCESS;
}

}  // namespace brickfs
