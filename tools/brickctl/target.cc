// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/target.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstring>

#include "fs/source/source_volume.h"
#include "transport/base/local_time.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/limits.h"
#include "transport/brick/unknown_host.h"
#include "transport/membership/client_identity.h"

namespace brickfs {
namespace {

std::string client_name() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{} (brickctl, pid {})", host.data(), ::getpid()).substr(0, limits::kClientNameBytes);
}

}  // namespace

Result<ClientSecret> secret_in(const SecretFile& file, std::string* why) {
  if (file.tls == TlsMode::kRequire && file.path.empty()) {
    *why = "--tls require: only with a secret file, by which both ends encrypt";
    return Error(EINVAL, "no secret file");
  }
  return TRY(ClientSecret::of_file(file.path, why)).with(file.path.empty() ? TlsMode::kOff : file.tls);
}

Result<Target> make_target(const std::string& text, const SecretFile& secret_file, std::string* why) {
  Target target{text, TRY(parse_source(text, why)), nullptr};
  const ClientSecret secret = TRY(secret_in(secret_file, why));
  target.brick = TRY(make_brick(target.source, secret, why));
  return target;
}

OpenRequest open_request(const Target& target, OpenMode mode) {
  OpenRequest request;
  request.volume = target.source.volume;
  request.client = make_client_id();
  request.client_name = client_name();
  request.mode = mode;
  return request;
}

Result<Session> open_session(Target& target, OpenMode mode, std::string* why) {
  Holder holder;
  auto session = open_past_ended(*target.brick, open_request(target, mode), &holder);
  if (!session.ok()) *why = describe_open_error(target, session.error(), holder);
  return session;
}

Result<BrickStat> look_at_brick(const std::string& text, const SecretFile& secret_file, std::string* why) {
  Target target = TRY(make_target(text, secret_file, why));
  TRY(open_session(target, OpenMode::kObserve, why));
  auto stat = target.brick->stat();
  if (!stat.ok()) *why = describe_call_error(stat.error());
  return stat;
}

std::string describe_grace(const Holder& holder) {
  if (holder.kept_for.count() == 0) return "";
  return fmt::format(" (away since the brick restarted; kept for it for {} s more)",
                     std::chrono::ceil<std::chrono::seconds>(holder.kept_for).count());
}

std::string describe_open_error(const Target& target, Error error, const Holder& holder) {
  switch (error.code()) {
    case EBUSY:
      if (holder.name.empty()) return "the volume is held by another";
      return fmt::format("the volume is held by {} since {}{}", holder.name, local_time(holder.since_unix_seconds),
                         describe_grace(holder));
    case EACCES:
      return "the secret is wrong or missing (--secret-file)";
    case EKEYREJECTED:
      return "what answers there refuses, and does not know the secret: is it brickd?";
    case EROFS:
      return "the key opens the volume for reading only";
    case ENOENT:
      return fmt::format("the brick has no volume {}", target.source.volume);
    case EIDRM:
      return fmt::format("volume {} was removed", target.source.volume);
    case ECONNREFUSED:
      return "no brickd listens there";
    case EHOSTUNREACH:
      if (is_unknown_host(error)) return kUnknownHost;
      return "that host cannot be reached";
    case ETIMEDOUT:
      return "no answer";
    case EMSGSIZE:
    case ENOPROTOOPT:
      return error.what();
    case EPROTO:
      return "what answers there is not a brickd of this version";
    default:
      return describe(error);
  }
}

std::string describe_admin_error(const Target& target, Error error, const std::string& why) {
  switch (error.code()) {
    case EOPNOTSUPP:
      return "the brick is older than this: it knows no volume commands; upgrade brickd";
    case EPERM:
      return "the brick takes no volume commands: start brickd with --admin-secret-file";
    case EACCES:
      return "the administrator's secret is wrong or missing (--admin-secret-file); a brick that has none takes no "
             "volume commands: start brickd with --admin-secret-file";
    default:
      return why.empty() ? describe_open_error(target, error, {}) : why;
  }
}

std::string describe_call_error(Error error) {
  switch (error.code()) {
    case ENOSPC:
      return "the brick is full";
    case EDQUOT:
      return "the volume's quota is used up";
    case EEXIST:
      return "a block of that range exists already";
    case ENOENT:
      return "a block of that range does not exist";
    case EBUSY:
      return "a block of that range is mapped by another";
    case ENOMEM:
      return "all of the brick's memory is mapped";
    case ESTALE:
      return "another has taken the volume over";
    case ENOTCONN:
      return "the connection to the brick is gone";
    default:
      return describe(error);
  }
}

}  // namespace brickfs
