// SPDX-License-Identifier: Apache-2.0
// A provider of libfabric on one of this host's addresses, and what this transport has to know of it. docs/fabrics.md
// says what it asks of one.
#pragma once

#include <cstdint>
#include <string>

#include "transport/base/result.h"
#include "transport/fabric/fabric_ptr.h"

namespace brickfs::fabric {

struct Provider {
  InfoPtr info;

  std::string name() const { return info->fabric_attr->prov_name; }  // "tcp;ofi_rxm"
  std::string device() const;                                        // with where it is: "tcp;ofi_rxm lo"
  bool has_mr_mode(uint64_t mode) const { return (static_cast<uint64_t>(info->domain_attr->mr_mode) & mode) != 0; }
  bool virtual_addresses() const { return has_mr_mode(FI_MR_VIRT_ADDR); }
  bool chooses_keys() const { return has_mr_mode(FI_MR_PROV_KEY); }
  bool registers_local() const { return has_mr_mode(FI_MR_LOCAL); }
  // A write that has completed is in the peer's memory, for all to see; else a read behind it makes it so.
  bool delivers() const { return (info->tx_attr->op_flags & FI_DELIVERY_COMPLETE) != 0; }
  // Of peers, by an endpoint's counter.
  bool counts_accesses() const { return (info->caps & FI_RMA_EVENT) != 0; }
  // A key that was taken away may serve what had begun to come in by it.
  bool ends_late() const;
};

// `name`: empty: whatever is best at this address. `host`: an address of this host, as numbers, at which a peer has
// been spoken to. EPROTONOSUPPORT: there is no such provider, or it does not give what it must, with one line in `why`.
Result<Provider> find_provider(const std::string& name, const std::string& host, std::string* why);

}  // namespace brickfs::fabric
