// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/client_device.h"

#include <algorithm>
#include <utility>

#include "transport/base/random.h"

namespace brickfs::fabric {
namespace {

onesided::MemoryDevice::Traits traits_of(const Provider& provider) {
  onesided::MemoryDevice::Traits traits;
  traits.name = provider.device();
  traits.slices =
      static_cast<uint32_t>(std::clamp<size_t>(provider.info->tx_attr->iov_limit, 1, limits::kSlicesPerTransfer));
  traits.message_bytes = std::min<uint64_t>(provider.info->ep_attr->max_msg_size, limits::kTransferBytes);
  traits.registers = provider.registers_local();
  return traits;
}

}  // namespace

ClientDevice::ClientDevice(std::shared_ptr<Domain> domain, size_t number)
    : MemoryDevice(traits_of(domain->provider()), number), domain_(std::move(domain)) {}

Result<ClientDevice*> ClientDevice::find(onesided::LocalMemory& memory, const std::string& provider,
                                         const std::string& host) {
  Provider found = TRY(find_provider(provider, host, nullptr));
  const std::string name = found.device();
  const auto make = [&](size_t number) -> Result<std::unique_ptr<onesided::MemoryDevice>> {
    auto domain = TRY(Domain::open(std::move(found)));
    return std::unique_ptr<onesided::MemoryDevice>(new ClientDevice(std::move(domain), number));
  };
  return static_cast<ClientDevice*>(TRY(memory.find_device(name, make)));
}

Result<onesided::LocalRegion> ClientDevice::register_memory(std::span<std::byte> memory) const {
  auto made = TRY(domain_->register_memory(memory, FI_READ | FI_WRITE, random_id<uint32_t>(), nullptr));
  onesided::LocalRegion region;
  region.key = reinterpret_cast<uint64_t>(made.descriptor);
  region.owner = std::shared_ptr<fid_mr>(std::move(made.region));
  if (region.key == 0) return Error(EIO, "the fabric has no descriptor for memory");
  return region;
}

}  // namespace brickfs::fabric
