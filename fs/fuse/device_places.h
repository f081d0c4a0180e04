// SPDX-License-Identifier: Apache-2.0
// Where requests from /dev/fuse are served: a thread has one place for any, and several for requests for few bytes,
// which it then serves together; those it takes in a way that does not wait.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fs/fuse/place.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

class FuseDevicePlace final : public FusePlace {
 public:
  explicit FuseDevicePlace(std::unique_ptr<FuseBuffers> buffers) : FusePlace(std::move(buffers)) {}

  // A request in the request buffer that came from `device`, where the answer goes.
  void hold(std::span<std::byte> message, int device);
  // The same of one that has to be copied there, and fits.
  void hold_copy(std::span<const std::byte> message, int device);
  bool serves(uint64_t unique) const override { return !answered_ && this->unique() == unique; }
  ssize_t send(std::span<const iovec> parts) override;
  void answer_interrupted() override;
  std::function<void(const Answer&)> put_aside() override;

 private:
  int device_ = -1;
  bool answered_ = true;
};

class FuseDevicePlaces {
 public:
  // For `device`, as long as that is open. ENOMEM, EMFILE, or the kernel's: it will not have another way in.
  static Result<std::unique_ptr<FuseDevicePlaces>> make(VolumeClient& volume, int device);

  size_t count() const { return places_.size(); }
  FuseDevicePlace& operator[](size_t i) const { return *places_[i]; }
  // One request, into `room`, if one waits. Its answer goes to extra_device().
  std::optional<std::span<std::byte>> take(std::span<std::byte> room) const;
  int extra_device() const { return extra_.get(); }

 private:
  FuseDevicePlaces() = default;

  UniqueFd extra_;  // the connection once more, not waiting
  std::vector<std::unique_ptr<FuseDevicePlace>> places_;
};

}  // namespace brickfs
