// SPDX-License-Identifier: Apache-2.0
#include "transport/base/size.h"

#include <fmt/core.h>

#include <charconv>

namespace brickfs {
namespace {
constexpr std::string_view kSuffixes = "KMGT";
}

Result<uint64_t> parse_size(std::string_view text) {
  const Error bad(EINVAL, "a size is a number with at most one of K, M, G, T behind it");
  uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end == text.data()) return bad;
  std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (rest.empty()) return value;
  if (rest.size() != 1) return bad;
  const char upper = rest[0] >= 'a' ? static_cast<char>(rest[0] - 'a' + 'A') : rest[0];
  const size_t power = kSuffixes.find(upper);
  if (power == std::string_view::npos) return bad;
  for (size_t i = 0; i <= power; ++i) {
    if (value > UINT64_MAX / 1024) return bad;
    value *= 1024;
  }
  return value;
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
