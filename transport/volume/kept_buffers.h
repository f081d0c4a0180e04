// SPDX-License-Identifier: Apache-2.0
// Memory for bytes that are kept until a commit covers them. Large buffers are parts of slabs, which are registered as
// a whole, and are used again: fresh memory costs more than the copy.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/brick/brick.h"

namespace brickfs {

class KeptBuffers : public std::enable_shared_from_this<KeptBuffers> {
 public:
  static constexpr uint32_t kLargeBytes = 256 * kKiB;

  struct Buffer {
    std::shared_ptr<std::byte> bytes;  // may outlive whoever made the pool
    uint32_t local_key = 0;
  };
  // Of a slab; an error: it is used unregistered.
  using Register = std::function<Result<RegisteredMemory>(std::span<std::byte> memory)>;

  static std::shared_ptr<KeptBuffers> make(Register registers = nullptr);
  KeptBuffers(const KeptBuffers&) = delete;
  KeptBuffers& operator=(const KeptBuffers&) = delete;

  // Of that length, at most kLargeBytes.
  Buffer take(uint32_t length);
  // Before what they are registered with ends. No key is used any more.
  void unregister();

 private:
  struct Free {
    std::byte* bytes;
    uint32_t local_key;
  };
  struct Slab {
    std::unique_ptr<std::byte[]> memory;
    RegisteredMemory registration;
  };

  explicit KeptBuffers(Register registers) : register_(std::move(registers)) {}
  Free take_large();
  void give_back(Free buffer);

  const Register register_;
  Mutex mutex_;  // leaf
  std::vector<Free> free_ ABSL_GUARDED_BY(mutex_);
  std::vector<Slab> slabs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
