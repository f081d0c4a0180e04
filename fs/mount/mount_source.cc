// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/mount_source.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "fs/mount/mountpoint.h"
#include "fs/mount/second_mount.h"
#include "fs/source/source_volume.h"
#include "transport/base/log.h"
#include "transport/base/size.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/secret_file.h"
#include "transport/brick/source.h"
#include "transport/membership/client_identity.h"

namespace brickfs {

namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr minutes kInBackground{10'000};  // as mount.nfs(8)
constexpr seconds kFirstPause{1};
constexpr seconds kLongestPause{15};

// Time may mend it. Not: a wrong secret, no such volume, a volatile brick, damage.
bool may_pass(const Error& error) {
  switch (error.code()) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOTCONN:
    case ETIMEDOUT:
    case EMSGSIZE:  // the path loses large packets
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case ENODEV:  // of RDMA
    case EBUSY:   // held by another
      return true;
    default:
      return false;
  }
}

}  // namespace

MountRetry::MountRetry(const MountCommand& command, std::function<void(const std::string& why)> to_background)
    : command_(command),
      to_background_(std::move(to_background)),
      until_(Clock::now() + command.retry.value_or(command.background ? kInBackground : minutes(0))),
      pause_(kFirstPause) {}

bool MountRetry::wait(const Error& error, std::string* why) {
  const auto now = Clock::now();
  if (!may_pass(error) || now >= until_) return false;
  if (error.is(EBUSY) && can_mount_once_more(command_)) return false;
  if (first_ && command_.background) to_background_(*why);
  if (first_) log::info("{}; trying again", *why);
  first_ = false;
  std::this_thread::sleep_for(std::min(pause_, until_ - now));
  pause_ = std::min<Clock::duration>(pause_ * 2, kLongestPause);
  MountCommand looked_at = command_;
  return !command_.mounts() || prepare_mountpoint(looked_at, why).ok();
}

namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kOtherBegins{60};
constexpr std::chrono::seconds kOtherServes{2};

VolumeOptions volume_options(const MountCommand& command, const Source& source, const VolumeWish& wish) {
  VolumeOptions options;
  options.open.volume = source.volume;
  options.open.client = wish.client;
  options.open.client_name = wish.client_name;
  options.open.mode = command.read_only ? OpenMode::kReadOnly : OpenMode::kExclusive;
  options.open.steal = command.steal;
  options.accept_older = command.accept_older;
  options.embedded = source.embedded();
  if (command.soft) options.soft = command.soft_timeout;
  options.on_commit_wanted = wish.on_commit_wanted;
  return options;
}

std::string describe(const Error& error, const MountCommand& command, const SourceFailure& failure) {
  if (!failure.why.empty()) return failure.why;
  return describe_open_failure(error, failure.name, failure.brick, failure.holder, !command.secret_path.empty(),
                               {.steal = "-o steal", .secret = "-o secret=PATH", .shared = "-o shared"});
}

Status check_durability(const VolumeSet& volume, const MountCommand& command, std::string* why) {
  if (!command.require_durable || volume.session().durability == Durability::kDurable) return {};
  *why = fmt::format("{} is a volatile brick and -o durable asks for a durable one (brickd --file, or file:PATH)",
                     command.source);
  return Error(ENOTSUP, "durability");
}

Result<std::unique_ptr<VolumeSet>> open_once(const MountCommand& command, const Source& source,
                                             const ClientSecret& secret, const VolumeOptions& options, Holder& holder,
                                             std::string* why) {
  why->clear();
  SourceFailure failure;
  auto volume = open_source(source, command.source, {secret, command.etcd}, options, command.grow, failure);
  if (!volume.ok()) *why = describe(volume.error(), command, failure);
  holder = failure.holder;
  return volume;
}

Result<std::unique_ptr<VolumeSet>> open_or_wait_for_holder(const MountCommand& command, const Source& source,
                                                           const ClientSecret& secret, const VolumeOptions& options,
                                                           bool at_once, std::string* why) {
  auto deadline = steady_clock::now() + holder_leaves_within(source);
  Holder holder;
  auto volume = open_once(command, source, secret, options, holder, why);
  if (at_once) return volume;
  if (volume.code() == EBUSY && holder.kept_for.count() > 0) {
    log::warn("{}; waiting", *why);
    deadline += holder.kept_for;
  }
  // Two lines of fstab for one volume are mounted at the same time: the other brickfs may not be ready yet.
  const auto until = steady_clock::now() + kOtherBegins;
  const auto goes_on = [&] {
    const auto now = steady_clock::now();
    if (now < until && is_being_mounted_here(holder)) deadline = std::max(deadline, now + kOtherServes);
    return now < deadline;
  };
  while (volume.code() == EBUSY && goes_on() && !can_mount_once_more(command)) {
    std::this_thread::sleep_for(kTryHeldAgain);
    volume = open_once(command, source, secret, options, holder, why);
  }
  if (volume.code() == EBUSY) *why += describe_first_mount(command, holder);
  return volume;
}

}  // namespace

// What the mount itself covers could not be read while it waits for the brick.
Result<ClientSecret> secret_of(const MountCommand& command, std::string* why) {
  std::error_code ignored;
  const auto path = std::filesystem::weakly_canonical(command.secret_path, ignored).string();
  if (command.secret_path.empty() || !path.starts_with(command.mountpoint + "/"))
    return TRY(ClientSecret::of_file(command.secret_path, why)).with(command.tls);
  log::warn("secret file {} is below the mount point: a change of it is not seen before the next mount", path);
  return ClientSecret(TRY(read_secret_file(command.secret_path, why))).with(command.tls);
}

Status prepare_source(MountCommand& command, std::string* why) {
  Source source = TRY(parse_source(command.source, why));
  auto& options = command.of_user_space;  // a shutdown ends the mount before the network
  if (!source.embedded() && std::find(options.begin(), options.end(), kOverNetwork) == options.end())
    options.emplace_back(kOverNetwork);
  if (command.tls != TlsMode::kOff && command.secret_path.empty()) {
    *why =
        fmt::format("option tls={}: only with secret=PATH, by which both ends encrypt", format_tls_mode(command.tls));
    return Error(EINVAL, "mount options");
  }
  std::error_code ignored;  // a path that cannot be made absolute fails when it is opened
  if (source.kind == SourceKind::kFile) {
    source.path = std::filesystem::absolute(source.path, ignored).lexically_normal().string();
    command.source = format_source(source);
  }
  EtcdOptions& etcd = command.etcd;
  for (std::string* path : {&command.secret_path, &etcd.ca_path, &etcd.cert_path, &etcd.key_path, &etcd.password_path})
    if (!path->empty()) *path = std::filesystem::absolute(*path, ignored).string();
  return {};
}

Result<std::unique_ptr<VolumeSet>> open_volume(const MountCommand& command, const VolumeWish& wish, MountRetry& retry,
                                               std::string* why) {
  const Source source = TRY(parse_source(command.source, why));
  const ClientSecret secret = TRY(secret_of(command, why));
  const VolumeOptions options = volume_options(command, source, wish);
  auto volume = open_or_wait_for_holder(command, source, secret, options, wish.at_once, why);
  while (!volume.ok() && !wish.at_once && retry.wait(volume.error(), why)) {
    volume = open_or_wait_for_holder(command, source, secret, options, wish.at_once, why);
  }
  if (!volume.ok()) return volume;
  const Status durable = check_durability(**volume, command, why);
  if (durable.ok()) return volume;
  static_cast<void>((*volume)->close());  // or the brick would hold it for us
  return durable.error();
}

}  // namespace brickfs
