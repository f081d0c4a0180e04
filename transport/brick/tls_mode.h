// SPDX-License-Identifier: Apache-2.0
// Whether a connection over TCP is encrypted, as either end wants it. docs/security.md, "The wire".
#pragma once

#include <optional>
#include <string_view>

namespace brickfs {

// kOn: if the other end does it, too; a client says in its log if it does not. kRequire: nothing is said otherwise.
enum class TlsMode { kOff, kOn, kRequire };

constexpr std::optional<TlsMode> parse_tls_mode(std::string_view text) {
  if (text == "off") return TlsMode::kOff;
  if (text == "on") return TlsMode::kOn;
  if (text == "require") return TlsMode::kRequire;
  return std::nullopt;
}

constexpr const char* format_tls_mode(TlsMode mode) {
  return mode == TlsMode::kOff ? "off" : mode == TlsMode::kOn ? "on" : "require";
}

}  // namespace brickfs
