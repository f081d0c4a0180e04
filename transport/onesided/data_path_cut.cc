// SPDX-License-Identifier: Apache-2.0
// How transfers become work requests.
#include <algorithm>
#include <bitset>

#include "transport/onesided/data_path.h"

namespace brickfs::onesided {

// What a work request may be, whatever queue pair it is posted on.
struct DataPath::Reach {
  uint32_t slices = limits::kSlicesPerTransfer;
  uint64_t bytes = limits::kTransferBytes;
  uint32_t inline_bytes = UINT32_MAX;
  bool any = false;                            // there is a queue pair
  std::bitset<LocalMemory::kDevices> devices;  // by number: those that memory must be registered with
};

DataPath::Reach DataPath::reach_of_all() const {
  Reach reach;
  const Guard guard(guards_);
  for (const auto& place : pairs_) {
    const QueuePair* const pair = place.load();
    if (pair == nullptr || pair->failed()) continue;
    const MemoryDevice::Traits& traits = pair->device().traits();
    reach.any = true;
    reach.slices = std::min(reach.slices, traits.slices);
    reach.bytes = std::min(reach.bytes, traits.message_bytes);
    reach.inline_bytes = std::min(reach.inline_bytes, pair->inline_bytes());
    if (traits.registers) reach.devices.set(pair->device().number());
  }
  return reach;
}

bool DataPath::is_registered(const Transfer& transfer, const Reach& reach) const {
  for (size_t device = 0; device < reach.devices.size(); ++device) {
    if (!reach.devices[device]) continue;
    for (const LocalSlice& slice : transfer.local) {
      if (slice.length_bytes != 0 && memory_.key_of(slice, device) == 0) return false;
    }
  }
  return true;
}

void DataPath::cut(Batch& batch, Parts& parts, std::vector<int>& refused) const {
  const Reach reach = reach_of_all();
  const bool connected = !over_.load() && reach.any;
  const bool too_many = batch.transfers.size() > limits::kTransfersPerBatch;
  for (const Transfer& transfer : batch.transfers) {
    int code = too_many ? EINVAL : check_transfer(transfer);
    // The handle's own blocks are compared in use(), so that what a forged one allows is never believed.
    if (code == 0 && !connected) code = ENOTCONN;
    Mapping* const mapping = code == 0 ? handles_.use(transfer.handle) : nullptr;
    if (mapping != nullptr) {
      cut_one(batch, transfer, reach, *mapping, parts);
    } else {
      refused.push_back(code != 0 ? code : EACCES);
    }
  }
}

// All parts of a transfer count as users of the mapping, one each.
void DataPath::cut_one(Batch& batch, const Transfer& transfer, const Reach& reach, Mapping& mapping,
                       Parts& parts) const {
  const auto total = static_cast<uint32_t>(length_of(transfer));
  const auto most = static_cast<uint32_t>(reach.bytes);
  Part part{&batch, &transfer, &mapping, 0, total, Part::Way::kDirect, 0};
  const auto add = [&](uint32_t offset, uint32_t length) {
    part.offset = offset;
    part.length_bytes = length;
    if (offset > 0) mapping.users.fetch_add(1, std::memory_order_relaxed);
    parts.push_back(part);
  };
  if (transfer.direction == Direction::kWrite && total <= reach.inline_bytes && transfer.local.size() <= reach.slices) {
    part.way = Part::Way::kInline;
    return add(0, total);
  }
  if (!is_registered(transfer, reach)) {
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
      if (count == reach.slices || length == most) {
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

}  // namespace brickfs::onesided
