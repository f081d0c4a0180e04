// SPDX-License-Identifier: Apache-2.0
#include "fs/source/source_volume.h"

#include <fmt/core.h>
#include <time.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "fs/source/bound_session.h"
#include "server/service/brick_service.h"
#include "server/service/embedded_brick.h"
#include "transport/base/local_time.h"
#include "transport/brick/unknown_host.h"
#include "transport/etcd/etcd_map_store.h"
#include "transport/membership/client_identity.h"
#include "transport/membership/coordinator_name.h"
#include "transport/paths/administer.h"
#include "transport/paths/connect.h"

namespace brickfs {

namespace {

Result<std::unique_ptr<BrickService>> open_embedded(const Source& source, std::string* why) {
  BrickConfig config;
  if (source.kind == SourceKind::kMemory) {
    config.memory_bytes = source.size_bytes;
  } else {
    config.store_path = source.path;
    config.store_bytes = source.size_bytes;
  }
  return BrickService::open(config, why);
}

Result<std::unique_ptr<Brick>> make_embedded(const Source& source, std::string* why) {
  std::shared_ptr<BrickService> service = TRY(open_embedded(source, why));
  return make_embedded_brick(std::move(service));
}

Status check_has_brick(const Source& source, std::string* why) {
  if (source.kind != SourceKind::kEtcd) return {};
  *why = fmt::format("this takes a brick, and etcd:// names a set: `brickctl set status {}` tells its bricks",
                     format_source(source));
  return Error(EINVAL, "not a brick");
}

std::string describe_holder(const std::string& name, const Holder& holder, const OpenWords& words) {
  if (holder.name.empty()) return fmt::format("{} is held by another", name);
  if (holder.kept_for.count() > 0) {
    return fmt::format(
        "{} was held by {} when the brick stopped, and is kept for it for {} s more; to cut that one off: {}", name,
        holder.name, std::chrono::ceil<std::chrono::seconds>(holder.kept_for).count(), words.steal);
  }
  if (address_of_coordinator(holder.name) && words.shared != nullptr)
    return fmt::format("{} is shared: {} since {}; to have it through that one: {}; to cut it off: {}", name,
                       holder.name, local_time(holder.since_unix_seconds), words.shared, words.steal);
  return fmt::format("{} is held by {} since {}; to cut that one off: {}", name, holder.name,
                     local_time(holder.since_unix_seconds), words.steal);
}

}  // namespace

Result<std::unique_ptr<Brick>> make_brick(const Source& source, const ClientSecret& secret, std::string* why) {
  TRY(check_has_brick(source, why));
  if (source.is_set()) {
    *why = "this takes one brick, the source names several";
    return Error(EINVAL, "a set");
  }
  return source.embedded() ? make_embedded(source, why) : make_remote_brick(source, secret, why);
}

Result<AdminAnswer> administer(const Source& source, const ClientSecret& secret, const AdminRequest& request,
                               std::string* why) {
  TRY(check_has_brick(source, why));
  if (!source.embedded()) return administer_remote(source, secret, request);
  return TRY(open_embedded(source, why))->administer(request);
}

std::chrono::seconds holder_leaves_within(const Source& source) {
  return std::chrono::seconds{source.kind == SourceKind::kFile ? 20 : 4};
}

std::string describe_open_failure(const Error& error, const std::string& name, const Source& source,
                                  const Holder& holder, bool has_secret, const OpenWords& words) {
  switch (error.code()) {
    case EBUSY:
      return describe_holder(name, holder, words);
    case EACCES:
      return fmt::format("{}: the brick refuses the secret{}", name,
                         has_secret ? "" : fmt::format("; name the file that has it with {}", words.secret));
    case EKEYREJECTED:
      return fmt::format("{}: what answers there refuses, and does not know the secret: is it brickd?", name);
    case EROFS:
      return fmt::format("{}: the key opens the volume for reading only: mount it with ro", name);
    case ENOENT:
      return fmt::format("{}: the brick has no volume {}", name, source.volume);
    case EIDRM:
      return fmt::format("{}: the volume {} was removed", name, source.volume);
    case ECONNREFUSED:
      return fmt::format("{}: no brickd listens there (connection refused)", name);
    case ETIMEDOUT:
      return fmt::format("{}: no answer; is the address right, and brickd running there?", name);
    case EHOSTUNREACH:
    case ENETUNREACH:
      if (is_unknown_host(error)) return fmt::format("{}: {}", name, kUnknownHost);
      return fmt::format("{}: that host cannot be reached", name);
    case EMSGSIZE:
    case ENOPROTOOPT:
      return fmt::format("{}: {}", name, error.what());
    case EPROTO:
      return fmt::format("{}: what answers there is not a brickd of this version", name);
    default:
      return fmt::format("{}: {}", name, describe(error));
  }
}

namespace {

// "tcp://b:20470": with the volume it would read as if that could be mounted.
std::string name_of_brick(const Source& brick) {
  const std::string text = format_source(brick);
  return text.substr(0, text.rfind('/'));
}

// The bricks are those that the map says.
Result<std::unique_ptr<VolumeSet>> open_by_map(const Source& source, const SourceAccess& access,
                                               const VolumeOptions& options, SourceFailure& failure) {
  auto store = TRY(EtcdMapStore::open(source, access.etcd, &failure.why));
  const auto make = [secret = access.secret](const std::string& replica,
                                             std::string* why) -> Result<std::unique_ptr<Brick>> {
    return make_brick(TRY(parse_source(replica, why)), secret, why);
  };
  SetRefusal refusal;
  auto set = VolumeSet::open(std::move(store), make, options, &refusal);
  failure.holder = refusal.holder;
  failure.why = refusal.why;
  return set;
}

}  // namespace

Result<std::optional<Holder>> find_holder(const Source& source, const SourceAccess& access) {
  std::string ignored;
  if (source.kind == SourceKind::kEtcd) {
    const auto store = TRY(EtcdMapStore::open(source, access.etcd, &ignored));
    const auto holder = TRY(store->load()).map.holder;
    if (!holder || holder->let_go) return std::optional<Holder>();
    return std::optional(Holder{.name = holder->name, .client = holder->client});
  }
  const Source first = source.brick(0);
  const auto brick = TRY(make_brick(first, access.secret, &ignored));
  return ask_for_holder(*brick, first.volume);
}

Result<std::unique_ptr<VolumeClient>> open_bound(const Source& source, const ClientSecret& secret, size_t place,
                                                 const ReadableBrick& brick, bool writes, ClientId client,
                                                 const std::string& client_name) {
  std::string why;
  const bool is_replica = source.kind == SourceKind::kEtcd;
  if (is_replica == brick.source.empty() || (!is_replica && place >= source.bricks()))
    return Error(ENOENT, "a brick that the source does not have");
  const Source one = is_replica ? TRY(parse_source(brick.source, &why)) : source.brick(place);
  VolumeOptions options = options_of_bound(one.volume, brick, writes, client, client_name);
  options.name = name_of_brick(one) + ": ";
  return VolumeClient::open(TRY(make_brick(one, secret, &why)), std::move(options), nullptr);
}

Result<std::unique_ptr<VolumeSet>> open_source(const Source& source, const std::string& name,
                                               const SourceAccess& access, const VolumeOptions& options, bool grow,
                                               SourceFailure& failure) {
  failure = {source.brick(0), name, {}, {}};
  if (source.kind == SourceKind::kEtcd) return open_by_map(source, access, options, failure);
  std::vector<SetBrick> bricks;
  for (size_t place = 0; place < source.bricks(); ++place) {
    const Source one = source.brick(place);
    if (source.is_set()) failure = {one, name_of_brick(one), {}, {}};
    auto brick = TRY(make_brick(one, access.secret, &failure.why));
    bricks.push_back({source.is_set() ? name_of_brick(one) : name, std::move(brick)});
  }
  SetRefusal refusal;
  auto set = VolumeSet::open(std::move(bricks), options, grow, &refusal);
  if (set.ok()) return set;
  const Source one = source.brick(refusal.place);
  failure = {one, source.is_set() ? name_of_brick(one) : name, refusal.holder, refusal.why};
  return set;
}

}  // namespace brickfs
