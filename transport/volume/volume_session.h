// SPDX-License-Identifier: Apache-2.0
// VolumeClient::in_session(), for the sources of VolumeClient that ask the brick by it.
#pragma once

#include <utility>

#include "transport/base/result.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

template <typename Call>
auto VolumeClient::in_session(Patience& patience, Call&& call) -> decltype(call(std::declval<Brick&>())) {
  for (;;) {
    const VolumeLink::Guard guard = TRY(link_->enter(patience));
    auto answer = call(guard.brick());
    if (answer.ok() || !link_->lost_by(guard, answer.error())) return answer;
  }
}

}  // namespace brickfs
