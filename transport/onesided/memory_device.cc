// SPDX-License-Identifier: Apache-2.0
#include "transport/onesided/memory_device.h"

#include <cstdlib>

namespace brickfs::onesided {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

void StagingPool::FreeMemory::operator()(std::byte* memory) const { std::free(memory); }

Status StagingPool::make() {
  constexpr size_t kBytes = limits::kStagingBuffers * limits::kStagingBytes;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kBytes)));
  if (!memory_) return Error(ENOMEM, "staging buffers");
  region_ = TRY(device_.register_memory({memory_.get(), kBytes}));
  for (uint32_t number = 0; number < limits::kStagingBuffers; ++number) free_.push_back(number);
  return {};
}

std::optional<uint32_t> StagingPool::take() {
  MutexLock lock(mutex_);
  if (region_.key == 0 && !broken_) broken_ = !make().ok();
  if (free_.empty()) return std::nullopt;
  const uint32_t number = free_.back();
  free_.pop_back();
  return number;
}

void StagingPool::give_back(uint32_t number) {
  MutexLock lock(mutex_);
  free_.push_back(number);
}

bool StagingPool::broken() const {
  MutexLock lock(mutex_);
  return broken_;
}

}  // namespace brickfs::onesided
