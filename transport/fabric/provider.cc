// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/provider.h"

#include <fmt/core.h>
#include <rdma/fi_errno.h>

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

namespace brickfs::fabric {
namespace {

constexpr uint32_t kVersion = FI_VERSION(1, 17);

// Where none was named, the first that is there. What needs devices comes before what does not; shm is for those alone
// who name it, as it leads to no other host.
constexpr std::array<const char*, 4> kBestFirst = {"efa", "cxi", "opx", "tcp;ofi_rxm"};

// Both ends of handles: what this transport can cope with.
constexpr int kMrModes = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

InfoPtr hints_for(const std::string& name, bool delivers) {
  InfoPtr hints(library().duplicate_info(nullptr));
  if (!hints) return hints;
  hints->caps = FI_MSG | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  // They have no descriptor to sleep on, so brickd looks whether anything comes.
  if (name == "shm" || name == "udp;ofi_rxd") hints->caps |= FI_RMA_EVENT;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  // With virtual addresses the peers of shm copy without a look at keys.
  hints->domain_attr->mr_mode = name == "shm" ? kMrModes & ~FI_MR_VIRT_ADDR : kMrModes;
  hints->tx_attr->op_flags = delivers ? FI_DELIVERY_COMPLETE : 0;
  if (!delivers) hints->tx_attr->msg_order = FI_ORDER_RMA_RAW;
  hints->fabric_attr->prov_name = ::strdup(name.c_str());
  return hints;
}

bool speaks_ip(const fi_info& info) {
  return info.addr_format == FI_SOCKADDR || info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6;
}

// Providers that have addresses of their own are not found by one of IP; they are taken where they are.
InfoPtr look_for(const std::string& name, const std::string& host, bool delivers) {
  const InfoPtr hints = hints_for(name, delivers);
  fi_info* found = nullptr;
  if (!hints || library().get_info(kVersion, nullptr, nullptr, 0, hints.get(), &found) != 0) return nullptr;
  InfoPtr info(found);
  if (!speaks_ip(*info)) return info;
  found = nullptr;
  if (library().get_info(kVersion, host.c_str(), nullptr, FI_SOURCE | FI_NUMERICHOST, hints.get(), &found) != 0)
    return nullptr;
  return InfoPtr(found);
}

// What is wrong with it; empty: nothing.
std::string flaw_of(const Provider& provider) {
  if (provider.info->domain_attr->mr_key_size < sizeof(uint32_t))
    return "its keys are too short to be guessed by nobody";
  if (provider.has_mr_mode(FI_MR_RAW)) return "its keys are too long";
  if (provider.info->domain_attr->mr_iov_limit == 0 && provider.info->tx_attr->iov_limit == 0)
    return "it takes no memory";
  return "";
}

}  // namespace

std::string Provider::device() const {
  return fmt::format("{} {}", name(), info->domain_attr->name == nullptr ? "" : info->domain_attr->name);
}

// Those whose bytes come in by a stream or by packets that this process reassembles.
bool Provider::ends_late() const {
  const std::string name = this->name();
  return name.find("ofi_rxm") != std::string::npos || name.find("ofi_rxd") != std::string::npos || name == "shm" ||
         name == "sockets" || name == "net";
}

Result<Provider> find_provider(const std::string& name, const std::string& host, std::string* why) {
  TRY(load_library(why));
  std::string last = name.empty() ? "no provider that this host has can be used"
                                  : fmt::format(
                                        "there is no provider {} at {} that reads and writes remote memory, "
                                        "and tells when it is there (fi_info -p '{}')",
                                        name, host, name);
  const auto try_one = [&](const std::string& one) -> Provider {
    for (const bool delivers : {true, false}) {
      Provider provider{look_for(one, host, delivers)};
      if (!provider.info) continue;
      const std::string flaw = flaw_of(provider);
      if (flaw.empty()) return provider;
      last = fmt::format("provider {} cannot be used: {}", one, flaw);
    }
    return {};
  };
  if (!name.empty()) {
    if (Provider provider = try_one(name); provider.info) return provider;
  } else {
    for (const char* const one : kBestFirst) {
      if (Provider provider = try_one(one); provider.info) return provider;
    }
  }
  if (why != nullptr) *why = last;
  return Error(EPROTONOSUPPORT, "no provider of libfabric that can be used there");
}

}  // namespace brickfs::fabric
