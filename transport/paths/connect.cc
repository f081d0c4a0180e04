// SPDX-License-Identifier: Apache-2.0
#include "transport/paths/connect.h"

#include <fmt/core.h>

#include <atomic>
#include <cerrno>
#include <utility>

#ifdef BRICKFS_FABRIC
#include "transport/fabric/fabric_brick.h"
#endif
#include "transport/base/log.h"
#include "transport/paths/redirected_brick.h"
#include "transport/tcp/tcp_brick.h"
#include "transport/verbs/device.h"
#include "transport/verbs/verbs_brick.h"

namespace brickfs {

namespace {

// What one-sided reads and writes carry is not encrypted, so it is not what `require` asks for.
Status check_tls(const Source& source, TlsMode tls, std::string* why) {
  if (tls == TlsMode::kOff || source.kind == SourceKind::kTcp) return {};
  const char* const name = source.kind == SourceKind::kRdma ? "rdma" : "fabric";
  if (tls == TlsMode::kOn) {
    log::debug("{}: data over {} is not encrypted", format_source(source), name);
    return {};
  }
  if (why != nullptr) *why = fmt::format("tls=require: data over {}:// is not encrypted: use tcp://", name);
  return Error(EPROTONOSUPPORT, "TLS");
}

}  // namespace

Result<std::unique_ptr<Brick>> make_remote_brick(const Source& source, const ClientSecret& secret, std::string* why) {
  TRY(check_tls(source, secret.tls(), why));
  switch (source.kind) {
    case SourceKind::kTcp:
      return make_tcp_brick(source.addresses.front().host, source.addresses.front().port, secret);
    case SourceKind::kRdma: {
      const std::string missing = verbs::why_no_device();
      if (!missing.empty()) {
        if (why != nullptr) *why = missing;
        return Error(ENODEV, "no RDMA device here");
      }
      return make_brick_with_tcp_around("rdma", source.addresses, secret,
                                        [source, secret] { return make_verbs_brick(source.addresses, secret); });
    }
    case SourceKind::kFabric: {
#ifdef BRICKFS_FABRIC
      // Nobody listens on TCP where the brick listens for this.
      std::vector<HostPort> around = source.addresses;
      for (HostPort& address : around) address.port = kDefaultPort;
      return make_brick_with_tcp_around("fabric", std::move(around), secret, [source, secret] {
        return make_fabric_brick(source.addresses, source.provider, secret);
      });
#else
      if (why != nullptr) *why = "built without libfabric: use tcp:// or rdma://";
      return Error(ENODEV, "no libfabric here");
#endif
    }
    case SourceKind::kMemory:
    case SourceKind::kFile:
    case SourceKind::kEtcd:
      break;
  }
  if (why != nullptr) *why = "not a remote source";
  return Error(EINVAL, "not a remote source");
}

std::unique_ptr<Brick> make_brick_with_tcp_around(std::string wanted, std::vector<HostPort> addresses,
                                                  const ClientSecret& secret,
                                                  std::function<std::unique_ptr<Brick>()> make_wanted,
                                                  PathTimes times) {
  const auto told_port = std::make_shared<std::atomic<uint16_t>>(0);
  const auto tcp_addresses = [addresses = std::move(addresses), told_port] {
    std::vector<HostPort> all = addresses;
    const uint16_t port = *told_port;
    for (HostPort& address : all) address.port = port != 0 ? port : address.port;
    return all;
  };
  BrickPaths paths;
  paths.names = {std::move(wanted), "tcp"};
  paths.wanted = make_wanted();
  paths.around = make_tcp_brick(tcp_addresses, secret);
  paths.make_probe = std::move(make_wanted);
  paths.on_wanted = [told_port](const Session& session) { *told_port = session.tcp_port; };
  return make_redirected_brick(std::move(paths), times);
}

}  // namespace brickfs
