// SPDX-License-Identifier: Apache-2.0
// What a place with copies does about bytes that others write to its replicas: not yet.
#include "transport/volume/mirror.h"

namespace brickfs {

Status Mirror::begin_lending(BlockRange, ClientId, const Interruption*) {
  return Error(EAGAIN, "replicas are not lent");
}

void Mirror::end_lending(BlockRange) {}

Status Mirror::adopt(std::span<const LentRange>, std::span<const ReadableBrick>, const std::shared_ptr<LentBytes>&,
                     const Interruption*) {
  return Error(EAGAIN, "replicas are not lent");
}

Status Mirror::expel(ClientId) { return {}; }

}  // namespace brickfs
