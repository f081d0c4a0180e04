// SPDX-License-Identifier: Apache-2.0
// How transfers become work requests.
#include <algorithm>

#include "transport/verbs/data_path.h"

namespace brickfs::verbs {

void DataPath::cut(Batch& batch, Parts& parts, std::vector<int>& refused) const {
  const Lane* const lane = over_.load() ? nullptr : pick(0);
  const bool too_many = batch.transfers.size() > limits::kTransfersPerBatch;
  for (const Transfer& transfer : batch.transfers) {
    int code = too_many ? EINVAL : check_transfer(transfer);
    // The handle's own blocks are compared in use(), so that what a forged one allows is never believed.
    if (code == 0 && lane == nullptr) code = ENOTCONN;
    Mapping* const mapping = code == 0 ? handles_.use(transfer.handle) : nullptr;
    if (mapping != nullptr) {
      cut_one(batch, transfer, *lane, *mapping, parts);
    } else {
      refused.push_back(code != 0 ? code : EACCES);
    }
  }
}

// All parts of a transfer count as users of the mapping, one each.
void DataPath::cut_one(Batch& batch, const Transfer& transfer, const Lane& lane, Mapping& mapping, Parts& parts) const {
  const DeviceFacts& facts = lane.device().facts();
  const uint32_t slices = std::min<uint32_t>(facts.slices, limits::kSlicesPerTransfer);
  const auto total = static_cast<uint32_t>(length_of(transfer));
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(facts.message_bytes, limits::kTransferBytes));
  Part part{&batch, &transfer, &mapping, 0, total, Part::Way::kDirect, 0};
  const bool registered = std::ranges::all_of(transfer.local, [&](const LocalSlice& slice) {
    return slice.length_bytes == 0 || memory_.key_of(slice, lane.device().number()) != 0;
  });
  const auto add = [&](uint32_t offset, uint32_t length) {
    part.offset = offset;
    part.length_bytes = length;
    if (offset > 0) mapping.users.fetch_add(1, std::memory_order_relaxed);
    parts.push_back(part);
  };
  if (transfer.direction == Direction::kWrite && total <= lane.inline_bytes() && transfer.local.size() <= slices) {
    part.way = Part::Way::kInline;
    return add(0, total);
  }
  if (!registered) {
    part.way = Part::Way::kStaged;
    constexpr auto kStep = static_cast<uint32_t>(limits::kStagingBytes);
    for (uint32_t offset = 0; offset < total; offset += kStep) add(offset, std::min(kStep, total - offset));
    return;
  }
  uint32_t offset = 0;
  uint32_t length = 0;
  uint32_t count = 0;
  for (const LocalSlice& slice : transfer.local) {
    uint32_t left = slice.length_bytes;
    while (left > 0) {
      if (count == slices || length == most) {
        add(offset, length);
        offset += length;
        length = count = 0;
      }
      const uint32_t now = std::min(left, most - length);
      length += now;
      left -= now;
      ++count;
    }
  }
  add(offset, length);
}

}  // namespace brickfs::verbs
