// SPDX-License-Identifier: Apache-2.0
#include "transport/onesided/queue_pair.h"

#include <cstring>

namespace brickfs::onesided {

bool QueuePair::take_staging(Part& part) const {
  StagingPool& staging = device_.staging();
  const auto buffer = staging.take();
  if (!buffer) return false;
  part.way = Part::Way::kStaged;
  part.staging = *buffer;
  if (part.transfer->direction != Direction::kWrite) return true;
  std::byte* to = staging.data(*buffer);
  for_each_piece(part, [&](const LocalSlice&, const std::byte* data, uint32_t length) {
    std::memcpy(to, data, length);
    to += length;
  });
  return true;
}

void QueuePair::give_staging_back(const Part& part) const {
  if (part.way == Part::Way::kStaged) device_.staging().give_back(part.staging);
}

void QueuePair::finish(const Part& part, int code) {
  if (part.way == Part::Way::kStaged && code == 0 && part.transfer->direction == Direction::kRead) {
    const std::byte* from = device_.staging().data(part.staging);
    for_each_piece(part, [&](const LocalSlice&, std::byte* data, uint32_t length) {
      std::memcpy(data, from, length);
      from += length;
    });
  }
  give_staging_back(part);
}

}  // namespace brickfs::onesided
