// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/domain.h"

#include <utility>

namespace brickfs::fabric {

Result<std::shared_ptr<Domain>> Domain::open(Provider provider) {
  std::shared_ptr<Domain> made(new Domain(std::move(provider)));
  fi_info* const info = made->provider_.info.get();
  fid_fabric* fabric = nullptr;
  if (const int code = library().open_fabric(info->fabric_attr, &fabric, nullptr); code != 0)
    return error_of(code, "fi_fabric");
  made->fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int code = fi_domain(fabric, info, &domain, nullptr); code != 0) return error_of(code, "fi_domain");
  made->domain_.reset(domain);
  fi_av_attr attributes{};
  attributes.type = info->domain_attr->av_type == FI_AV_UNSPEC ? FI_AV_TABLE : info->domain_attr->av_type;
  fid_av* addresses = nullptr;
  if (const int code = fi_av_open(domain, &attributes, &addresses, nullptr); code != 0)
    return error_of(code, "fi_av_open");
  made->addresses_.reset(addresses);
  return made;
}

Result<Region> Domain::register_memory(std::span<std::byte> memory, uint64_t access, uint64_t key,
                                       fid_ep* endpoint) const {
  fid_mr* raw = nullptr;
  const int code = fi_mr_reg(domain_.get(), memory.data(), memory.size(), access, 0, key, 0, &raw, nullptr);
  if (code != 0) return error_of(code, "memory cannot be registered with the fabric");
  Region made{MrPtr(raw), 0, nullptr};
  if (endpoint != nullptr && provider_.has_mr_mode(FI_MR_ENDPOINT)) {
    if (const int bound = fi_mr_bind(raw, &endpoint->fid, 0); bound != 0) return error_of(bound, "fi_mr_bind");
    if (const int enabled = fi_mr_enable(raw); enabled != 0) return error_of(enabled, "fi_mr_enable");
  }
  made.key = fi_mr_key(raw);
  made.descriptor = fi_mr_desc(raw);
  if (made.key == FI_KEY_NOTAVAIL) return Error(EIO, "the fabric has no key for memory");
  return made;
}

}  // namespace brickfs::fabric
