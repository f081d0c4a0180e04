// SPDX-License-Identifier: Apache-2.0
#include "transport/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace brickfs {
namespace {

// A character and how many bytes it takes; none: they are not UTF-8 (RFC 3629).
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

Character first_of(std::string_view text) {
  const auto byte = [text](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool overlong = code < (bytes == 3 ? 0x800u : bytes == 4 ? 0x1'0000u : 0x80u);
  if (overlong || code > 0x10'ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {code, bytes};
}

bool is_harmless(uint32_t code) {
  const auto within = [code](uint32_t first, uint32_t last) { return code >= first && code <= last; };
  return !(code < 0x20 || within(0x7f, 0x9f) || within(0x200e, 0x200f) || within(0x2028, 0x202e) ||
           within(0x2066, 0x2069));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_of(text);
    const size_t bytes = character.bytes == 0 ? 1 : character.bytes;
    if (character.bytes > 0 && is_harmless(character.code)) {
      out.append(text.substr(0, bytes));
    } else {
      for (const char byte : text.substr(0, bytes)) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned>(static_cast<uint8_t>(byte)));
      }
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string_view cut_text(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  constexpr size_t kMostBehind = 3;  // bytes of a character after its first
  for (size_t behind = 0; behind <= std::min(kMostBehind, most_bytes); ++behind) {
    const size_t end = most_bytes - behind;
    const bool is_within = (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80;
    if (!is_within) return text.substr(0, end);
  }
  return text.substr(0, most_bytes);
}

}  // namespace brickfs
