// SPDX-License-Identifier: Apache-2.0
// Names of bricks as people write them: the SOURCE of a mount and the URL brickd listens on.
//
//   rdma://BRICK[+BRICK]...[/VOLUME]   tcp://BRICK[+BRICK]...[/VOLUME]   memory:SIZE   file:PATH[,SIZE]
//   fabric://BRICK[+BRICK]...[/VOLUME][?provider=NAME]
//   etcd://HOST[:PORT][,HOST[:PORT]]...[/VOLUME]
//
// BRICK is HOST[:PORT], with rdma and fabric HOST[:PORT][,HOST[:PORT]]...: addresses of one brick, on several paths.
// Several bricks are a set, over which the volume is striped, in the order of their places. HOST is a name, an IPv4
// address or an IPv6 address in brackets; none of them can have a `+` or a `,`. What follows the last comma of a file:
// source is its size if it begins with a digit. etcd: has endpoints of one etcd, which knows the bricks of a replicated
// set (transport/membership/set_map.h). NAME is that of a provider of libfabric. A listen URL has no volume.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/result.h"

namespace brickfs {

constexpr uint16_t kDefaultPort = 20470;        // of bricks
constexpr uint16_t kDefaultFabricPort = 20471;  // of bricks over libfabric, beside those that listen on TCP
constexpr uint16_t kDefaultEtcdPort = 2379;     // of etcd's endpoints
constexpr std::string_view kDefaultVolume = "default";

enum class SourceKind { kRdma, kTcp, kFabric, kMemory, kFile, kEtcd };

struct HostPort {
  std::string host;  // a name or an address, without brackets
  uint16_t port = kDefaultPort;

  bool operator==(const HostPort&) const = default;
};

struct Source {
  SourceKind kind = SourceKind::kMemory;
  // Of the (first) brick. tcp: one; rdma, fabric: 1 to limits::kAddressesPerBrick. etcd: of etcd, 1 to
  // limits::kEtcdEndpoints. None is named twice in a source.
  std::vector<HostPort> addresses;
  std::vector<std::vector<HostPort>> more_bricks;  // the same of those behind it; at most limits::kBricksPerSet in all
  std::string volume = std::string(kDefaultVolume);
  std::string provider{};   // fabric; empty: the brick's
  std::string path;         // file
  uint64_t size_bytes = 0;  // memory; file (0: as the existing file has it)

  bool embedded() const { return kind == SourceKind::kMemory || kind == SourceKind::kFile; }
  size_t bricks() const { return 1 + more_bricks.size(); }
  bool is_set() const { return !more_bricks.empty(); }
  // The volume on the brick of that place alone.
  Source brick(size_t place) const;
};

struct ListenUrl {
  SourceKind kind = SourceKind::kTcp;  // kTcp, kRdma or kFabric
  std::string host;
  uint16_t port = kDefaultPort;  // 0: any free one
  std::string provider{};        // fabric; empty: what is best there
};

// EINVAL, with one line for people in `why`.
Result<Source> parse_source(std::string_view text, std::string* why);
Result<ListenUrl> parse_listen_url(std::string_view text, std::string* why);

// "[::1]:20470".
std::string format_address(const HostPort& address);
// "tcp://[::1]:20470/default", "tcp://a:20470+b:20470/default": what parse_source() takes.
std::string format_source(const Source& source);
// "rdma://[::1]:20470": what parse_listen_url() takes.
std::string format_listen_url(const ListenUrl& url);

}  // namespace brickfs
