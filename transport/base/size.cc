// SPDX-License-Identifier: Apache-2.0
#include "transport/base/size.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>

namespace brickfs {
namespace {

constexpr std::string_view kSuffixes = "KMGT";
constexpr size_t kMostDecimals = 6;  // times 1T they fit 64 bits

// Digits at the beginning of `rest`, which they leave.
std::optional<uint64_t> take_number(std::string_view& rest) {
  uint64_t value = 0;
  const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (status != std::errc()) return std::nullopt;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  return value;
}

// "G" is 1G.
std::optional<uint64_t> unit_of(std::string_view suffix) {
  if (suffix.empty()) return 1;
  const char upper = suffix[0] >= 'a' ? static_cast<char>(suffix[0] - 'a' + 'A') : suffix[0];
  const size_t power = kSuffixes.find(upper);
  if (suffix.size() != 1 || power == std::string_view::npos) return std::nullopt;
  return uint64_t{1} << (10 * (power + 1));
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text) {
  const Error bad(EINVAL, "a size is a number with at most one of K, M, G, T behind it");
  const auto whole = take_number(text);
  if (!whole) return bad;
  uint64_t decimals = 0;
  uint64_t scale = 1;
  const bool has_point = text.starts_with('.');
  if (has_point) {
    text.remove_prefix(1);
    const size_t before = text.size();
    const auto taken = take_number(text);
    const size_t digits = before - text.size();
    if (!taken || digits > kMostDecimals) return bad;
    decimals = *taken;
    for (size_t i = 0; i < digits; ++i) scale *= 10;
  }
  const auto unit = unit_of(text);
  if (!unit || (has_point && *unit == 1)) return bad;
  const uint64_t part = decimals * *unit / scale;
  if (*whole > (UINT64_MAX - part) / *unit) return bad;
  return *whole * *unit + part;
}

std::string format_size(uint64_t bytes) {
  size_t power = 0;
  while (bytes != 0 && bytes % 1024 == 0 && power < kSuffixes.size()) {
    bytes /= 1024;
    ++power;
  }
  std::string text = std::to_string(bytes);
  if (power > 0) text += kSuffixes[power - 1];
  return text;
}

std::string about_size(uint64_t bytes) {
  auto size = static_cast<double>(bytes);
  size_t power = 0;
  while (size >= 1023.5 && power < kSuffixes.size()) {
    size /= 1024;
    ++power;
  }
  if (power == 0) return std::to_string(bytes);
  std::string text = size < 99.95 ? fmt::format("{:.1f}", size) : fmt::format("{:.0f}", size);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text + kSuffixes[power - 1];
}

}  // namespace brickfs
