// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/volume_key.h"

#include <fmt/format.h>
#include <string.h>

#include <array>
#include <charconv>

#include "transport/base/bytes.h"
#include "transport/base/random.h"

namespace brickfs {
namespace {

constexpr std::string_view kIdPurpose = "brickfs key id";
constexpr size_t kIdDigits = 16;
constexpr std::string_view kCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
static_assert(kCharacters.size() == 64, "each byte of the generator chooses one, all as often");

}  // namespace

Status check_key(const Secret& secret) {
  const std::string_view bytes = secret.bytes.view();
  if (bytes.size() < kLeastKeyBytes || bytes.size() > kKeyBytes || bytes.back() == '\0')
    return Error(EINVAL, "a key has 16 to 32 characters");
  return {};
}

KeyId key_id_of(const Secret& secret) { return KeyId{load<uint64_t>(make_proof(secret, kIdPurpose, Nonces{}, {}))}; }

Secret make_key() {
  std::array<std::byte, kKeyBytes> random;
  fill_random(random);
  std::array<char, kKeyBytes> text;
  for (size_t i = 0; i < text.size(); ++i) text[i] = kCharacters[static_cast<size_t>(random[i]) % kCharacters.size()];
  Secret key{std::string_view(text.data(), text.size())};
  ::explicit_bzero(random.data(), random.size());
  ::explicit_bzero(text.data(), text.size());
  return key;
}

std::string format_key_id(KeyId id) { return fmt::format("{:016x}", static_cast<uint64_t>(id)); }

std::optional<KeyId> parse_key_id(std::string_view text) {
  uint64_t id = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), id, 16);
  if (status != std::errc() || end != text.data() + text.size() || text.size() != kIdDigits) return std::nullopt;
  return KeyId{id};
}

}  // namespace brickfs
