// SPDX-License-Identifier: Apache-2.0
#include "tests/support/verbs_test_brick.h"

#include <cstdlib>
#include <utility>

#include "server/verbs/listener.h"
#include "transport/verbs/verbs_brick.h"

namespace brickfs::testing {
namespace {

std::vector<std::string> split(const char* text) {
  std::vector<std::string> parts;
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    parts.push_back(rest.substr(0, comma));
    rest.erase(0, comma + 1);
  }
  return parts;
}

std::vector<ListenUrl> verbs_urls(const std::vector<std::string>& addresses) {
  std::vector<ListenUrl> urls;
  for (const std::string& address : addresses) urls.push_back({SourceKind::kRdma, address, 0});
  return urls;
}

std::unique_ptr<TestBrick> make_at_verbs_address(BrickConfig config) {
  return std::make_unique<VerbsTestBrick>(std::move(config), std::vector{*verbs_address()});
}

}  // namespace

std::optional<std::string> verbs_address() {
  const char* const address = std::getenv("BRICKFS_RDMA_ADDRESS");
  if (address == nullptr || *address == 0) return std::nullopt;
  return address;
}

std::vector<std::string> verbs_addresses() { return split(std::getenv("BRICKFS_RDMA_ADDRESSES")); }

VerbsTestBrick::VerbsTestBrick(BrickConfig config, std::vector<std::string> addresses, Secret secret)
    : ListeningTestBrick(std::move(config), {listen_at_all<VerbsListener>, make_verbs_brick}, verbs_urls(addresses),
                         std::move(secret)) {}

std::unique_ptr<TestBrick> make_verbs_memory(uint64_t memory_blocks, uint64_t, std::vector<VolumeSpec> volumes) {
  return make_listening_memory(make_at_verbs_address, memory_blocks, std::move(volumes));
}

std::unique_ptr<TestBrick> make_verbs_kept(uint64_t memory_blocks, uint64_t, std::vector<VolumeSpec> volumes) {
  return make_listening_kept(make_at_verbs_address, memory_blocks, std::move(volumes));
}

std::unique_ptr<TestBrick> make_verbs_file(uint64_t memory_blocks, uint64_t capacity_blocks,
                                           std::vector<VolumeSpec> volumes) {
  return make_listening_file(make_at_verbs_address, memory_blocks, capacity_blocks, std::move(volumes));
}

}  // namespace brickfs::testing
