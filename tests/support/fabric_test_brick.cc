// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fabric_test_brick.h"

#include <utility>

#include "server/fabric/listener.h"
#include "transport/fabric/fabric_brick.h"

namespace brickfs::testing {
namespace {

TestEnds fabric_ends(const std::string& provider) {
  return {listen_at_all<FabricListener>, [provider](std::vector<HostPort> addresses, const Secret& secret) {
            return make_fabric_brick(std::move(addresses), provider, secret);
          }};
}

std::vector<ListenUrl> fabric_urls(const std::vector<std::string>& addresses, const std::string& provider) {
  std::vector<ListenUrl> urls;
  for (const std::string& address : addresses) urls.push_back({SourceKind::kFabric, address, 0, provider});
  return urls;
}

MakeListening made_by(std::string provider) {
  return [provider = std::move(provider)](BrickConfig config) {
    return std::make_unique<FabricTestBrick>(std::move(config), provider);
  };
}

}  // namespace

FabricTestBrick::FabricTestBrick(BrickConfig config, std::string provider, std::vector<std::string> addresses,
                                 Secret secret)
    : ListeningTestBrick(std::move(config), fabric_ends(provider), fabric_urls(addresses, provider),
                         std::move(secret)) {}

std::vector<BrickKind> fabric_kinds() {
  const auto memory = [](std::string provider) {
    return [make = made_by(std::move(provider))](uint64_t memory_blocks, uint64_t, std::vector<VolumeSpec> volumes) {
      return make_listening_memory(make, memory_blocks, std::move(volumes));
    };
  };
  const auto file = [](uint64_t memory_blocks, uint64_t capacity_blocks, std::vector<VolumeSpec> volumes) {
    return make_listening_file(made_by("tcp;ofi_rxm"), memory_blocks, capacity_blocks, std::move(volumes));
  };
  return {{"fabric_memory", Durability::kVolatile, memory("tcp;ofi_rxm")}, {"fabric_file", Durability::kDurable, file}};
}

}  // namespace brickfs::testing
