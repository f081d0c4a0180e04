// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/client_device.h"

#include <utility>

namespace brickfs::verbs {

ClientDevice::ClientDevice(DeviceFacts facts, PdPtr domain, size_t number)
    : MemoryDevice({facts.name, facts.slices, facts.message_bytes, true}, number),
      facts_(std::move(facts)),
      domain_(std::move(domain)) {}

Result<ClientDevice*> ClientDevice::find(onesided::LocalMemory& memory, ibv_context* device) {
  const auto make = [device](size_t number) -> Result<std::unique_ptr<onesided::MemoryDevice>> {
    auto facts = TRY(look_at(device));
    auto domain = TRY(make_domain(device));
    return std::unique_ptr<onesided::MemoryDevice>(new ClientDevice(std::move(facts), std::move(domain), number));
  };
  return static_cast<ClientDevice*>(TRY(memory.find_device(ibv_get_device_name(device->device), make)));
}

Result<onesided::LocalRegion> ClientDevice::register_memory(std::span<std::byte> memory) const {
  std::shared_ptr<ibv_mr> region = TRY(register_region(domain_.get(), memory, IBV_ACCESS_LOCAL_WRITE));
  const uint64_t key = region->lkey;
  return onesided::LocalRegion{key, std::move(region)};
}

}  // namespace brickfs::verbs
