// SPDX-License-Identifier: Apache-2.0
// Keys of one volume. A key is a secret that opens this volume and no other, for reading or for both; it is proved as
// every secret is (proof.h). A volume that has had one is opened by its keys alone. docs/security.md, "Keys".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/base/result.h"
#include "transport/brick/proof.h"

namespace brickfs {

constexpr size_t kKeyBytes = 32;       // of a key, at most
constexpr size_t kLeastKeyBytes = 16;  // at least: what can be guessed is none

// Names a key without telling it: it is made of the key itself, so both ends know it.
enum class KeyId : uint64_t {};

enum class KeyRights : uint32_t { kReadOnly = 1, kReadWrite = 2 };

struct VolumeKey {
  KeyId id{};
  KeyRights rights = KeyRights::kReadWrite;
  int64_t added_unix_seconds = 0;
  Secret secret;
};

// What a peer has proved that it knows: a key of the volume that it asks for, or (no `key`) a secret of the brick.
struct Credential {
  Secret secret;
  std::optional<KeyId> key;
  KeyRights rights = KeyRights::kReadWrite;
};

// EINVAL: too short, too long, or ends with a zero, which counts for nothing (proof.h).
Status check_key(const Secret& secret);
KeyId key_id_of(const Secret& secret);
// A fresh one, of printable characters.
Secret make_key();

std::string format_key_id(KeyId id);  // 16 hexadecimal digits
std::optional<KeyId> parse_key_id(std::string_view text);

}  // namespace brickfs
