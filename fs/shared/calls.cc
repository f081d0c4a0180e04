// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/calls.h"

#include <algorithm>
#include <array>

namespace brickfs::shared {
namespace {

template <size_t kAt>
Result<Decoded> decode_as(std::span<const std::byte> body) {
  using Asked = std::variant_alternative_t<kAt, Request>;
  Asked asked{};
  Decoder decoder(body);
  decoder.get(asked);
  if (decoder.failed()) return Error(EPROTO, "a call of a member that is cut off");
  const bool has_data = std::is_same_v<Asked, Write> || std::is_same_v<Asked, GiveBytes>;
  if (decoder.rest().size() > (has_data ? kMostData : 0)) return Error(EPROTO, "a call of a member that is too long");
  return Decoded{std::move(asked), decoder.rest()};
}

template <size_t... kAt>
constexpr auto decoders(std::index_sequence<kAt...>) {
  return std::array{&decode_as<kAt>...};
}

}  // namespace

Who to_who(const Caller& caller) {
  const Groups groups = caller.groups ? caller.groups() : Groups();
  return {caller.uid, caller.gid,  caller.umask,
          groups.all, groups.some, caller.is_administrator && caller.is_administrator()};
}

Caller to_caller(const Who& who) {
  Caller caller{.uid = who.uid, .gid = who.gid, .umask = who.umask, .in_group = {}, .is_administrator = {}};
  caller.groups = [who] { return Groups{who.in_all_groups, who.groups}; };
  caller.in_group = [who](uint32_t gid) {
    return who.in_all_groups || gid == who.gid || std::ranges::find(who.groups, gid) != who.groups.end();
  };
  caller.is_administrator = [is = who.is_administrator] { return is; };
  return caller;
}

Result<Decoded> decode_request(uint16_t kind, std::span<const std::byte> body) {
  static constexpr auto kDecoders = decoders(std::make_index_sequence<kKinds>());
  if (kind >= kDecoders.size()) return Error(EPROTO, "no call of a member");
  return kDecoders[kind](body);
}

}  // namespace brickfs::shared
