// SPDX-License-Identifier: Apache-2.0
#include "transport/membership/coordinator_name.h"

#include <fmt/core.h>

#include <charconv>

#include "transport/brick/limits.h"

namespace brickfs {
namespace {

constexpr std::string_view kSharesAt = " shares at ";

}  // namespace

std::string name_of_coordinator(std::string_view client_name, const HostPort& address) {
  const std::string at = fmt::format("{}{}", kSharesAt, format_address(address));
  if (at.size() >= limits::kClientNameBytes) return std::string(client_name);
  return fmt::format("{}{}", client_name.substr(0, limits::kClientNameBytes - at.size()), at);
}

std::string plain_name(std::string_view name) {
  return std::string(address_of_coordinator(name) ? name.substr(0, name.rfind(kSharesAt)) : name);
}

std::optional<HostPort> address_of_coordinator(std::string_view name) {
  const size_t found = name.rfind(kSharesAt);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view at = name.substr(found + kSharesAt.size());
  const size_t colon = at.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  HostPort address;
  const std::string_view port = at.substr(colon + 1);
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (parsed.ec != std::errc() || parsed.ptr != port.data() + port.size() || address.port == 0) return std::nullopt;
  std::string_view host = at.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  address.host = std::string(host);
  return address;
}

}  // namespace brickfs
