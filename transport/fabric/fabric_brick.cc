// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/fabric_brick.h"

#include <utility>

#include "transport/fabric/connector.h"
#include "transport/onesided/link.h"
#include "transport/remote/remote_brick.h"

namespace brickfs {
namespace {

class FabricBrick final : public RemoteBrick {
 public:
  FabricBrick(onesided::Peer peer, std::string provider)
      : peer_(std::move(peer)), connector_(*memory_, std::move(provider)) {}
  ~FabricBrick() override { drop_link(); }

  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) override {
    const uint32_t key = TRY(memory_->add(memory));
    return RegisteredMemory(key, [memory = memory_, key] { memory->remove(key); });
  }

 private:
  Result<std::unique_ptr<RemoteLink>> connect(const OpenRequest& request, Holder* holder,
                                              std::function<void(Error)> on_lost) override {
    auto link = TRY(onesided::Link::open(peer_, connector_, *memory_, request, holder, std::move(on_lost)));
    return std::unique_ptr<RemoteLink>(std::move(link));
  }

  const onesided::Peer peer_;
  // Registrations outlive the Brick if their owner does.
  const std::shared_ptr<onesided::LocalMemory> memory_ = std::make_shared<onesided::LocalMemory>();
  fabric::Connector connector_;
};

}  // namespace

std::unique_ptr<Brick> make_fabric_brick(std::vector<HostPort> addresses, std::string provider,
                                         const ClientSecret& secret) {
  return std::make_unique<FabricBrick>(onesided::Peer{std::move(addresses), secret}, std::move(provider));
}

}  // namespace brickfs
