// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/device_worker.h"

#include <cerrno>
#include <cstring>

#include "fs/fuse/extra.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr size_t kManyBytes =
    kFuseTransferBytes / 2;  // while they move, another thread takes what the kernel sends beside them

}  // namespace

Result<std::unique_ptr<FuseDeviceWorker>> FuseDeviceWorker::make(Filesystem& filesystem, FuseDeviceQueue& queue,
                                                                 FuseInterrupts& interrupts, int device,
                                                                 FuseProcess process) {
  auto buffers = TRY(FuseBuffers::make(filesystem.volume()));
  return std::unique_ptr<FuseDeviceWorker>(
      new FuseDeviceWorker(filesystem, queue, interrupts, device, std::move(buffers), std::move(process)));
}

void FuseDeviceWorker::serve(const std::atomic<bool>& stopping, const std::function<bool()>& goes) {
  FuseDeviceQueue::Seat seat(queue_);
  Received received = Received::kNothing;
  while (!stopping && received != Received::kEnd) {
    received = receive(seat);
    if (received != Received::kRequest) continue;
    busy_ = true;
    serve_one(seat);
    busy_ = false;
    if (goes && goes()) return;
  }
}

FuseDeviceWorker::Received FuseDeviceWorker::receive(FuseDeviceQueue::Seat& seat) {
  const std::span<std::byte> room = own_.buffers().request();
  const ssize_t received = queue_.receive(seat, room);
  if (received >= 0) {
    own_.hold(room.first(static_cast<size_t>(received)), device_);
    return Received::kRequest;
  }
  if (errno == ENODEV) return Received::kEnd;
  // ENOENT: the request was interrupted while it was handed over.
  if (errno == ENOENT || errno == EINTR || errno == EAGAIN) return Received::kNothing;
  log::error("cannot read from /dev/fuse: {}", strerror(errno));
  return Received::kEnd;
}

void FuseDeviceWorker::serve_one(FuseDeviceQueue::Seat& seat) {
  const bool joins = JointRequests::suits(own_.message());
  queue_.note(seat, joins);
  if (joins && queue_.serves_together(seat) && can_serve_together()) {
    serve_together(seat);
  } else {
    serve_alone(own_, seat);
  }
}

bool FuseDeviceWorker::can_serve_together() {
  if (others_ || has_no_others_) return others_ != nullptr;
  auto others = FuseDevicePlaces::make(filesystem_.volume(), device_);
  has_no_others_ = !others.ok();
  if (!others.ok()) return false;
  others_ = std::move(*others);
  for (size_t i = 0; i < others_->count(); ++i) interrupts_.watch((*others_)[i]);
  return true;
}

void FuseDeviceWorker::serve_together(FuseDeviceQueue::Seat& seat) {
  std::vector<FuseDevicePlace*> added;
  FuseDevicePlace* last = nullptr;
  bool done = false;
  {
    const auto answer_first = filesystem_.answer_first();
    JointRequests joint(filesystem_);
    last = collect(joint, added);
    if (added.size() == others_->count()) queue_.pass_on_what_waits(seat);
    done = joint.try_to_finish();
  }
  queue_.served_together(added.size());
  if (last == &own_) {
    queue_.note(seat, false);
  } else {
    own_.waiter().end();  // it went to one of the others
  }
  // The brick is away: first what may not need it.
  if (!done) set_aside(added, seat);
  if (last != nullptr) serve_alone(*last, seat);
  if (!done) serve_in_one_go(added, seat);
}

// Adds the request at hand and others that wait. Returns the first that has to be served by itself; null: there is
// none.
FuseDevicePlace* FuseDeviceWorker::collect(JointRequests& joint, std::vector<FuseDevicePlace*>& added) {
  int device = device_;
  for (size_t i = 0; i < others_->count(); ++i) {
    FuseDevicePlace& place = (*others_)[i];
    place.hold_copy(own_.message(), device);
    if (!joint.add(place, process_)) return &place;
    added.push_back(&place);
    if (i + 1 == others_->count()) break;
    const auto next = others_->take(own_.buffers().request());
    if (!next) break;
    device = others_->extra_device();
    own_.hold(*next, device);
    if (!JointRequests::suits(*next)) return &own_;
  }
  return nullptr;
}

// Waits for the brick, once for all of them. Who is interrupted goes, the others go on.
void FuseDeviceWorker::serve_in_one_go(std::vector<FuseDevicePlace*> requests, FuseDeviceQueue::Seat& seat) {
  std::vector<FuseDevicePlace*> alone;
  for (bool done = false; !done;) {
    std::erase_if(requests, [](FuseDevicePlace* place) { return !place->waiter().take_up(); });
    done = try_in_one_go(requests, alone);
    std::erase_if(requests, [&](FuseDevicePlace* place) {
      const bool interrupted = !done && place->waiter().interruption()->raised();
      if (interrupted) serve_alone(*place, seat);
      return interrupted;
    });
  }
  set_aside(alone, seat);
  for (FuseDevicePlace* const place : alone) serve_alone(*place, seat);
}

// False: some were interrupted, all are to be served still. `alone`: which cannot be served with the others.
bool FuseDeviceWorker::try_in_one_go(const std::vector<FuseDevicePlace*>& requests,
                                     std::vector<FuseDevicePlace*>& alone) {
  alone.clear();
  Interruption some;
  JointRequests joint(filesystem_);
  for (FuseDevicePlace* const place : requests) {
    place->waiter().join(&some);
    if (!joint.add(*place, process_)) alone.push_back(place);
  }
  const bool done = joint.finish(some);
  for (FuseDevicePlace* const place : requests) place->waiter().join(nullptr);
  return done;
}

// What the thread does first may take as long as the brick is away. Those that are interrupted already end before that.
void FuseDeviceWorker::set_aside(const std::vector<FuseDevicePlace*>& requests, FuseDeviceQueue::Seat& seat) {
  for (FuseDevicePlace* const place : requests) {
    if (!place->waiter().set_aside()) serve_alone(*place, seat);
  }
}

void FuseDeviceWorker::serve_alone(FuseDevicePlace& place, FuseDeviceQueue::Seat& seat) {
  if (!place.waiter().take_up()) return;
  if (data_bytes(place.message()) >= kManyBytes) queue_.pass_on(seat);
  const auto answer_first = filesystem_.answer_first();
  FusePlace::set_current(&place);
  process_(place.message());
  FusePlace::set_current(nullptr);
  place.waiter().end();
}

}  // namespace brickfs
