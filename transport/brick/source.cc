// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/source.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "transport/base/size.h"
#include "transport/brick/limits.h"
#include "transport/brick/volume_name.h"

namespace brickfs {
namespace {

constexpr std::string_view kRdmaPrefix = "rdma://";
constexpr std::string_view kTcpPrefix = "tcp://";
constexpr std::string_view kFabricPrefix = "fabric://";
constexpr std::string_view kProviderQuery = "?provider=";
constexpr std::string_view kEtcdPrefix = "etcd://";
constexpr std::string_view kMemoryPrefix = "memory:";
constexpr std::string_view kFilePrefix = "file:";
constexpr size_t kHostBytes = 255;
constexpr size_t kProviderBytes = 63;

Error refuse(std::string* why, std::string text) {
  if (why != nullptr) *why = std::move(text);
  return Error(EINVAL, "not a source");
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<uint16_t> parse_port(std::string_view text) {
  uint16_t port = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

bool is_host(std::string_view host, bool in_brackets) {
  if (host.empty() || host.size() > kHostBytes) return false;
  return std::all_of(host.begin(), host.end(), [in_brackets](char c) {
    const bool name =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
    return name || (in_brackets && (c == ':' || c == '%'));
  });
}

// HOST[:PORT], all of `text`.
Result<HostPort> parse_address(std::string_view text, uint16_t default_port, std::string* why) {
  std::string_view name = text;
  std::string_view rest;
  const bool in_brackets = text.starts_with('[');
  if (in_brackets) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return refuse(why, "no ']' behind the IPv6 address");
    name = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    name = text.substr(0, colon);
    rest = text.substr(colon);
    if (rest.find(':', 1) != std::string_view::npos) return refuse(why, "an IPv6 address goes in brackets: [::1]");
  }
  if (!is_host(name, in_brackets)) return refuse(why, "no valid host name or address");
  HostPort address{std::string(name), default_port};
  if (rest.empty()) return address;
  const auto number = rest.starts_with(':') ? parse_port(rest.substr(1)) : std::nullopt;
  if (!number) return refuse(why, "a port is a number from 0 to 65535");
  address.port = *number;
  return address;
}

size_t most_addresses(SourceKind kind) {
  switch (kind) {
    case SourceKind::kEtcd:
      return limits::kEtcdEndpoints;
    case SourceKind::kRdma:
    case SourceKind::kFabric:
      return limits::kAddressesPerBrick;
    default:
      return 1;
  }
}

std::string describe_most_addresses(SourceKind kind) {
  if (kind == SourceKind::kTcp)
    return "tcp:// takes one address of a brick; several are for rdma:// and fabric://, and bricks of a set stand "
           "between '+'";
  return (kind == SourceKind::kEtcd ? "etcd has at most " : "a brick has at most ") +
         std::to_string(most_addresses(kind)) + " addresses";
}

uint16_t default_port_of(SourceKind kind) {
  switch (kind) {
    case SourceKind::kEtcd:
      return kDefaultEtcdPort;
    case SourceKind::kFabric:
      return kDefaultFabricPort;
    default:
      return kDefaultPort;
  }
}

// Takes `?provider=NAME` off the end. The two that run on any network are known without the layer above them, too.
Result<std::string> take_provider(std::string_view& text, std::string* why) {
  const size_t at = text.find('?');
  if (at == std::string_view::npos) return std::string();
  std::string_view name = text.substr(at);
  text = text.substr(0, at);
  const bool known = take_prefix(name, kProviderQuery) && !name.empty() && name.size() <= kProviderBytes &&
                     std::ranges::all_of(name, [](char c) {
                       return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '_' || c == ';' || c == '-';
                     });
  if (!known) return refuse(why, "behind '?' a fabric:// source has provider=NAME, as fi_info -l lists them");
  if (name == "tcp") return std::string("tcp;ofi_rxm");
  if (name == "udp") return std::string("udp;ofi_rxd");
  return std::string(name);
}

// HOST[:PORT][,HOST[:PORT]]..., all of `text`. `seen`: of the whole source.
Result<std::vector<HostPort>> parse_addresses(std::string_view text, SourceKind kind, std::vector<HostPort>& seen,
                                              std::string* why) {
  const uint16_t default_port = default_port_of(kind);
  std::vector<HostPort> addresses;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    HostPort address = TRY(parse_address(text.substr(begin, end - begin), default_port, why));
    if (address.port == 0) return refuse(why, "port 0 is only for listening");
    if (addresses.size() == most_addresses(kind)) return refuse(why, describe_most_addresses(kind));
    if (std::find(seen.begin(), seen.end(), address) != seen.end()) {
      return refuse(why, format_address(address) + " is named twice");
    }
    seen.push_back(address);
    addresses.push_back(std::move(address));
    begin = end + 1;
  }
  return addresses;
}

// What stands behind the slash, if anything does.
Status parse_volume(std::string_view text, size_t slash, Source& source, std::string* why) {
  if (slash == std::string_view::npos || slash + 1 == text.size()) return {};
  source.volume = std::string(text.substr(slash + 1));
  if (!is_volume_name(source.volume))
    return refuse(why, "a volume's name has letters, digits, '.', '_' and '-', at most 63");
  return {};
}

Result<Source> parse_remote(SourceKind kind, std::string_view text, std::string* why) {
  Source source;
  source.kind = kind;
  if (kind == SourceKind::kFabric) source.provider = TRY(take_provider(text, why));
  const size_t slash = text.find('/');
  const std::string_view bricks = text.substr(0, slash);
  std::vector<HostPort> seen;
  for (size_t begin = 0; begin <= bricks.size();) {
    const size_t end = std::min(bricks.find('+', begin), bricks.size());
    std::vector<HostPort> addresses = TRY(parse_addresses(bricks.substr(begin, end - begin), kind, seen, why));
    if (begin == 0) {
      source.addresses = std::move(addresses);
    } else if (source.bricks() == limits::kBricksPerSet) {
      return refuse(why, "a set has at most " + std::to_string(limits::kBricksPerSet) + " bricks");
    } else {
      source.more_bricks.push_back(std::move(addresses));
    }
    begin = end + 1;
  }
  TRY(parse_volume(text, slash, source, why));
  return source;
}

Result<Source> parse_etcd(std::string_view text, std::string* why) {
  Source source;
  source.kind = SourceKind::kEtcd;
  const size_t slash = text.find('/');
  if (text.substr(0, slash).find('+') != std::string_view::npos)
    return refuse(why, "etcd:// names endpoints of etcd, with ',' between; the bricks are in its map");
  std::vector<HostPort> seen;
  source.addresses = TRY(parse_addresses(text.substr(0, slash), source.kind, seen, why));
  TRY(parse_volume(text, slash, source, why));
  return source;
}

Result<Source> parse_memory(std::string_view text, std::string* why) {
  Source source;
  source.kind = SourceKind::kMemory;
  const auto size = parse_size(text);
  if (!size.ok() || *size == 0) return refuse(why, "memory: takes a size such as 512M or 4G");
  source.size_bytes = *size;
  return source;
}

Result<Source> parse_file(std::string_view text, std::string* why) {
  Source source;
  source.kind = SourceKind::kFile;
  const size_t comma = text.rfind(',');
  if (comma != std::string_view::npos && comma + 1 < text.size() && text[comma + 1] >= '0' && text[comma + 1] <= '9') {
    const auto size = parse_size(text.substr(comma + 1));
    if (!size.ok() || *size == 0) return refuse(why, "the size behind the comma is not one, such as 4G");
    source.size_bytes = *size;
    text = text.substr(0, comma);
  }
  if (text.empty()) return refuse(why, "file: takes a path");
  source.path = std::string(text);
  return source;
}

std::string format_addresses(const std::vector<HostPort>& addresses) {
  std::string text;
  for (const HostPort& address : addresses) text += (text.empty() ? "" : ",") + format_address(address);
  return text;
}

std::string format_provider(const std::string& provider) {
  return provider.empty() ? "" : std::string(kProviderQuery) + provider;
}

std::string format_remote(std::string_view prefix, const Source& source) {
  std::string text(prefix);
  text += format_addresses(source.addresses);
  for (const auto& addresses : source.more_bricks) text += "+" + format_addresses(addresses);
  return text + "/" + source.volume + format_provider(source.provider);
}

}  // namespace

std::string format_address(const HostPort& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Result<Source> parse_source(std::string_view text, std::string* why) {
  if (take_prefix(text, kTcpPrefix)) return parse_remote(SourceKind::kTcp, text, why);
  if (take_prefix(text, kRdmaPrefix)) return parse_remote(SourceKind::kRdma, text, why);
  if (take_prefix(text, kFabricPrefix)) return parse_remote(SourceKind::kFabric, text, why);
  if (take_prefix(text, kEtcdPrefix)) return parse_etcd(text, why);
  if (take_prefix(text, kMemoryPrefix)) return parse_memory(text, why);
  if (take_prefix(text, kFilePrefix)) return parse_file(text, why);
  return refuse(why,
                "a source is tcp://HOST[:PORT][+HOST[:PORT]]/VOLUME, "
                "rdma://HOST[:PORT][,HOST[:PORT]][+HOST...]/VOLUME, fabric://... as rdma://, "
                "etcd://HOST[:PORT][,HOST[:PORT]]/VOLUME, "
                "memory:SIZE or file:PATH[,SIZE]");
}

Source Source::brick(size_t place) const {
  Source one = *this;
  one.more_bricks.clear();
  if (place > 0) one.addresses = more_bricks[place - 1];
  return one;
}

Result<ListenUrl> parse_listen_url(std::string_view text, std::string* why) {
  ListenUrl url;
  if (take_prefix(text, kRdmaPrefix)) {
    url.kind = SourceKind::kRdma;
  } else if (take_prefix(text, kFabricPrefix)) {
    url.kind = SourceKind::kFabric;
    url.provider = TRY(take_provider(text, why));
  } else if (!take_prefix(text, kTcpPrefix)) {
    return refuse(why, "a listen address is tcp://HOST[:PORT], rdma://HOST[:PORT] or fabric://HOST[:PORT]");
  }
  if (text.ends_with('/')) text.remove_suffix(1);
  if (text.find('/') != std::string_view::npos) return refuse(why, "a listen address names no volume");
  HostPort address = TRY(parse_address(text, default_port_of(url.kind), why));
  url.host = std::move(address.host);
  url.port = address.port;
  return url;
}

std::string format_source(const Source& source) {
  switch (source.kind) {
    case SourceKind::kMemory:
      return std::string(kMemoryPrefix) + format_size(source.size_bytes);
    case SourceKind::kFile:
      return std::string(kFilePrefix) + source.path + (source.size_bytes ? "," + format_size(source.size_bytes) : "");
    case SourceKind::kRdma:
      return format_remote(kRdmaPrefix, source);
    case SourceKind::kFabric:
      return format_remote(kFabricPrefix, source);
    case SourceKind::kEtcd:
      return format_remote(kEtcdPrefix, source);
    case SourceKind::kTcp:
      break;
  }
  return format_remote(kTcpPrefix, source);
}

std::string format_listen_url(const ListenUrl& url) {
  const std::string_view prefix = url.kind == SourceKind::kRdma     ? kRdmaPrefix
                                  : url.kind == SourceKind::kFabric ? kFabricPrefix
                                                                    : kTcpPrefix;
  return std::string(prefix) + format_address({url.host, url.port}) + format_provider(url.provider);
}

}  // namespace brickfs
