// SPDX-License-Identifier: Apache-2.0
// Owners of libfabric's objects, and its errors. A close that fails is a bug of ours (something still uses the object):
// it is logged as one. Members that use an object stand behind it, so that they go first.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <memory>

#include "transport/base/result.h"
#include "transport/fabric/library.h"

namespace brickfs::fabric {

struct Close {
  template <typename Object>
  void operator()(Object* object) const {
    close(&object->fid);
  }
  static void close(fid* object);
};
struct FreeInfo {
  void operator()(fi_info* info) const { library().free_info(info); }
};

using FabricPtr = std::unique_ptr<fid_fabric, Close>;
using DomainPtr = std::unique_ptr<fid_domain, Close>;
using AvPtr = std::unique_ptr<fid_av, Close>;
using CqPtr = std::unique_ptr<fid_cq, Close>;
using CounterPtr = std::unique_ptr<fid_cntr, Close>;
using EndpointPtr = std::unique_ptr<fid_ep, Close>;
using MrPtr = std::unique_ptr<fid_mr, Close>;
using InfoPtr = std::unique_ptr<fi_info, FreeInfo>;

// What a call of libfabric has answered, negative, as an errno of Linux: those beyond are EIO.
Error error_of(ssize_t code, const char* what);

}  // namespace brickfs::fabric
