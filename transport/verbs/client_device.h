// SPDX-License-Identifier: Apache-2.0
// A client's RDMA device, with a protection domain in which all its memory is registered.
//
// Threads: every call from any thread.
#pragma once

#include <memory>
#include <span>

#include "transport/base/result.h"
#include "transport/onesided/local_memory.h"
#include "transport/verbs/device.h"
#include "transport/verbs/verbs_ptr.h"

namespace brickfs::verbs {

class ClientDevice final : public onesided::MemoryDevice {
 public:
  // That of the brick's memory, made when it comes first.
  static Result<ClientDevice*> find(onesided::LocalMemory& memory, ibv_context* device);
  ~ClientDevice() override { drop_staging(); }

  const DeviceFacts& facts() const { return facts_; }
  ibv_pd* domain() const { return domain_.get(); }
  Result<onesided::LocalRegion> register_memory(std::span<std::byte> memory) const override;

 private:
  ClientDevice(DeviceFacts facts, PdPtr domain, size_t number);

  const DeviceFacts facts_;
  const PdPtr domain_;
};

}  // namespace brickfs::verbs
