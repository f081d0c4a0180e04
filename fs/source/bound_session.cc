// SPDX-License-Identifier: Apache-2.0
#include "fs/source/bound_session.h"

#include <chrono>

#include "transport/membership/client_identity.h"

namespace brickfs {

Result<std::optional<Holder>> ask_for_holder(Brick& brick, const std::string& volume) {
  OpenRequest request;
  request.volume = volume;
  request.client = make_client_id();
  request.mode = OpenMode::kObserve;
  request.client_name = "who asks for the holder";
  TRY(brick.open(request, nullptr));
  const BrickStat stat = TRY(brick.stat());
  (void)brick.close();
  return stat.holder;
}

VolumeOptions options_of_bound(const std::string& volume, const ReadableBrick& brick, bool writes, ClientId client,
                               const std::string& client_name) {
  constexpr std::chrono::milliseconds kPatience{500};
  VolumeOptions options;
  options.open.volume = volume;
  options.open.client = client;
  options.open.client_name = client_name;
  options.open.mode = OpenMode::kFollow;
  options.open.bound = true;
  options.open.writes = writes;
  options.open.resume = brick.epoch;
  options.soft = kPatience;
  return options;
}

}  // namespace brickfs
