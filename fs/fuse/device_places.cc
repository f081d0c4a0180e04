// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/device_places.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "transport/base/check.h"

namespace brickfs {
namespace {

constexpr size_t kPlaces = 16;  // as many transfers go in one call

// Of a request whose memory serves others by now.
class AnswerPlace final : public FusePlace {
 public:
  AnswerPlace(int device, uint64_t unique) : FusePlace(nullptr), device_(device), unique_(unique) {}
  bool serves(uint64_t unique) const override { return unique == unique_; }
  ssize_t send(std::span<const iovec> parts) override {
    return ::writev(device_, parts.data(), static_cast<int>(parts.size()));
  }
  std::function<void(const Answer&)> put_aside() override {
    return [this](const Answer& answer) { answer_here(answer); };
  }
  using FusePlace::answer_here;

 private:
  const int device_;
  const uint64_t unique_;
};

}  // namespace

void FuseDevicePlace::hold(std::span<std::byte> message, int device) {
  set_message(message);
  device_ = device;
  answered_ = false;
}

void FuseDevicePlace::hold_copy(std::span<const std::byte> message, int device) {
  const std::span<std::byte> room = buffers().request();
  CHECK(message.size() <= room.size());
  std::memcpy(room.data(), message.data(), message.size());
  hold(room.first(message.size()), device);
}

ssize_t FuseDevicePlace::send(std::span<const iovec> parts) {
  answered_ = true;
  waiter().end();
  return ::writev(device_, parts.data(), static_cast<int>(parts.size()));
}

// The waiter is locked; the thread looks there before it touches the place again.
void FuseDevicePlace::answer_interrupted() {
  answered_ = true;
  const fuse_out_header out{.len = sizeof(out), .error = -EINTR, .unique = unique()};
  (void)!::write(device_, &out, sizeof(out));
}

std::function<void(const FusePlace::Answer&)> FuseDevicePlace::put_aside() {
  answered_ = true;
  waiter().end();
  set_current(nullptr);
  return
      [device = device_, unique = unique()](const Answer& answer) { AnswerPlace(device, unique).answer_here(answer); };
}

Result<std::unique_ptr<FuseDevicePlaces>> FuseDevicePlaces::make(VolumeClient& volume, int device) {
  std::unique_ptr<FuseDevicePlaces> places(new FuseDevicePlaces());
  places->extra_ = UniqueFd(::open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!places->extra_) return errno_error("/dev/fuse");
  auto which = static_cast<uint32_t>(device);
  if (::ioctl(places->extra_.get(), FUSE_DEV_IOC_CLONE, &which) != 0) return errno_error("/dev/fuse");
  while (places->places_.size() < kPlaces) {
    places->places_.push_back(std::make_unique<FuseDevicePlace>(TRY(FuseBuffers::make_small(volume))));
  }
  return places;
}

std::optional<std::span<std::byte>> FuseDevicePlaces::take(std::span<std::byte> room) const {
  const ssize_t received = ::read(extra_.get(), room.data(), room.size());
  if (received < 0) return std::nullopt;
  return room.first(static_cast<size_t>(received));
}

}  // namespace brickfs
