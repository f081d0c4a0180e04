// SPDX-License-Identifier: Apache-2.0
// Names of bricks as people write them: the SOURCE of a mount and the URL brickd listens on.
//
//   rdma://HOST[:PORT][,HOST[:PORT]]...[/VOLUME]   tcp://HOST[:PORT][/VOLUME]   memory:SIZE   file:PATH[,SIZE]
//
// HOST is a name, an IPv4 address or an IPv6 address in brackets. Several are addresses of one brick, on several paths.
// What follows the last comma of a file: source is its size if it begins with a digit. A listen URL has no volume.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/result.h"

namespace brickfs {

constexpr uint16_t kDefaultPort = 20470;
constexpr std::string_view kDefaultVolume = "default";

enum class SourceKind { kRdma, kTcp, kMemory, kFile };

struct HostPort {
  std::string host;  // a name or an address, without brackets
  uint16_t port = kDefaultPort;

  bool operator==(const HostPort&) const = default;
};

struct Source {
  SourceKind kind = SourceKind::kMemory;
  std::vector<HostPort> addresses;  // tcp: one; rdma: 1 to limits::kAddressesPerBrick, none twice
  std::string volume = std::string(kDefaultVolume);
  std::string path;         // file
  uint64_t size_bytes = 0;  // memory; file (0: as the existing file has it)

  bool embedded() const { return kind == SourceKind::kMemory || kind == SourceKind::kFile; }
};

struct ListenUrl {
  SourceKind kind = SourceKind::kTcp;  // kTcp or kRdma
  std::string host;
  uint16_t port = kDefaultPort;  // 0: any free one
};

// EINVAL, with one line for people in `why`.
Result<Source> parse_source(std::string_view text, std::string* why);
Result<ListenUrl> parse_listen_url(std::string_view text, std::string* why);

// "[::1]:20470".
std::string format_address(const HostPort& address);
// "tcp://[::1]:20470/default": what parse_source() takes.
std::string format_source(const Source& source);

}  // namespace brickfs
