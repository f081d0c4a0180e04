// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/device_source.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "fs/fuse/protocol/operations.h"
#include "transport/base/log.h"

namespace brickfs {

namespace {

constexpr std::chrono::milliseconds kTick{4};  // between two looks of the standby: at the same request twice is long
constexpr unsigned kQuietTicks = 10;           // without a request: then it sleeps until one comes

}  // namespace

FuseDeviceQueue::FuseDeviceQueue(int device) : device_(device), stopped_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Result<FuseDeviceQueue::Turn> FuseDeviceQueue::wait_for_turn(Member& member) {
  if (receiver_ == &member) {
    turn_ = (turn_ | 1) + 1;
    if (!stopping_) return Turn{.passed = nullptr, .kept = true};
  }
  MutexLock lock(mutex_);
  while (!takes_turn(member)) {
    if (standby_ == nullptr) {
      stand_by(member, lock);
    } else {
      idle_.push_back(&member);
      member.called_.wait(lock);
      std::erase(idle_, &member);
    }
  }
  // It may have been woken to stand by, and have got something to do before it could.
  if (standby_ == nullptr && !idle_.empty()) idle_.back()->called_.notify_one();
  FuseRequest* const passed = std::exchange(member.passed_, nullptr);
  if (passed == nullptr && stopping_) return Error(EINTR, "it is stopped");
  return Turn{.passed = passed, .kept = false};
}

// Who is awake comes before who has been woken.
bool FuseDeviceQueue::takes_turn(const Member& member) {
  if (receiver_ == nullptr && member.passed_ == nullptr) receiver_ = &member;
  return is_called(member);
}

bool FuseDeviceQueue::is_called(const Member& member) const {
  return stopping_ || receiver_ == &member || member.passed_ != nullptr;
}

void FuseDeviceQueue::begin_turn(const Member& member) {
  if (receiver_ != &member) return;
  turn_ = (turn_ + 1) | 1;
  if (!standby_sleeps_) return;
  MutexLock lock(mutex_);
  if (standby_ != nullptr) standby_->called_.notify_one();
}

// Who was idle last, whose memory is in the caches.
FuseDeviceQueue::Member* FuseDeviceQueue::take_idle() {
  if (idle_.empty()) return std::exchange(standby_, nullptr);
  Member* const member = idle_.back();
  idle_.pop_back();
  return member;
}

void FuseDeviceQueue::hand_over(const Member& member) {
  if (receiver_ != &member) return;
  MutexLock lock(mutex_);
  if (receiver_ != &member) return;
  turn_ = (turn_ | 1) + 1;
  receiver_ = nullptr;
  if (Member* const next = take_idle()) next->called_.notify_one();
}

bool FuseDeviceQueue::pass(FuseRequest& request) {
  MutexLock lock(mutex_);
  if (stopping_) return false;
  Member* const next = take_idle();
  if (next == nullptr) return false;
  next->passed_ = &request;
  next->called_.notify_one();
  return true;
}

bool FuseDeviceQueue::has_more() const {
  pollfd device{device_, POLLIN, 0};
  return ::poll(&device, 1, 0) != 0;
}

void FuseDeviceQueue::wait_for_more() const {
  std::array<pollfd, 2> either = {pollfd{device_, POLLIN, 0}, pollfd{stopped_.get(), POLLIN, 0}};
  (void)::poll(either.data(), either.size(), -1);
}

void FuseDeviceQueue::stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  const uint64_t one = 1;
  (void)!::write(stopped_.get(), &one, sizeof(one));
  for (Member* const member : idle_) member->called_.notify_one();
  if (standby_ != nullptr) standby_->called_.notify_one();
}

// Until it is called. Becomes the receiver once that one is at the same request for a tick or two and others wait
// behind it.
void FuseDeviceQueue::stand_by(Member& member, MutexLock& lock) {
  standby_ = &member;
  unsigned quiet = 0;
  for (uint64_t seen = turn_; !is_called(member) && standby_ == &member && receiver_ != nullptr;) {
    const bool serves = seen % 2 == 1;
    if (!serves && quiet >= kQuietTicks) {
      standby_sleeps_ = true;
      if (turn_ == seen) member.called_.wait(lock);
      standby_sleeps_ = false;
      quiet = 0;
    } else {
      member.called_.wait_for(lock, kTick);
    }
    const uint64_t now = turn_;
    quiet = now == seen ? quiet + 1 : 0;
    if (now == seen && serves && !is_called(member) && has_more()) {
      turn_ = (turn_ | 1) + 1;
      receiver_ = &member;
    }
    seen = now;
  }
  if (standby_ == &member) standby_ = nullptr;
  if (standby_ == nullptr && !idle_.empty()) idle_.back()->called_.notify_one();  // to be the standby
}

namespace {

constexpr size_t kTogether = 16;                       // as many transfers go in one call
constexpr size_t kManyBytes = kFuseTransferBytes / 2;  // the kernel is about to send the other half of them

FuseOperation::Takes time_of(const FuseRequest& request, Durability durability) {
  if (request.transfer() != nullptr && request.transfer()->bytes >= kManyBytes) return kMuch;
  if (request.header().opcode == FUSE_INTERRUPT) return kLittle;
  const FuseOperation* const operation = find_operation(request.header().opcode);
  if (operation == nullptr) return FuseOperation::Takes::kSome;
  if (operation->takes != kDisk) return operation->takes;
  return durability == Durability::kDurable ? kMuch : FuseOperation::Takes::kSome;
}

}  // namespace

ssize_t FuseDeviceRequest::receive() {
  const std::span<std::byte> room = buffers().request();
  const ssize_t received = ::read(device_, room.data(), room.size());
  if (received >= 0) begin(room.first(static_cast<size_t>(received)));
  return received;
}

ssize_t FuseDeviceRequest::send(std::span<const iovec> parts) {
  return ::writev(device_, parts.data(), static_cast<int>(parts.size()));
}

FuseRequest::Answer FuseDeviceRequest::put_aside() {
  return [device = device_, unique = header().unique](int error, std::span<const std::byte> payload) {
    fuse_out_header out = answer_header(unique, error, payload.size());
    const iovec parts[] = {{&out, sizeof(out)}, {const_cast<std::byte*>(payload.data()), payload.size()}};
    (void)!::writev(device, parts, payload.empty() ? 1 : 2);
  };
}

FuseDeviceSource::FuseDeviceSource(VolumeAccess& volume, KernelCache& cache, OperationCounters& counters,
                                   FuseDeviceQueue& queue, FuseInterrupts& interrupts, int device,
                                   std::unique_ptr<FuseBuffers> buffers, bool polls)
    : volume_(volume),
      durability_(volume.durability()),
      cache_(cache),
      counters_(counters),
      queue_(queue),
      interrupts_(interrupts),
      device_(device),
      polls_(polls),
      own_(std::move(buffers), cache, counters, device),
      member_(queue) {
  interrupts_.watch(own_);
}

Status FuseDeviceSource::receive(std::vector<FuseRequest*>& requests) {
  const FuseDeviceQueue::Turn turn = TRY(queue_.wait_for_turn(member_));
  if (turn.passed != nullptr) {
    requests.push_back(turn.passed);
    return {};
  }
  TRY(receive_one(polls_ && turn.kept));
  queue_.begin_turn(member_);
  if (own_.is_small() && queue_.has_more() && collect(requests)) return {};
  own_.serve_alone();
  requests.push_back(&own_);
  return {};
}

// The device does not wait. To poll for the next request pays where requests come one after the other.
// ENOENT: the request was interrupted while it was handed over.
Status FuseDeviceSource::receive_one(bool polls) {
  wait_.begin();
  if (polls) (void)wait_.poll([this] { return queue_.has_more() || queue_.is_stopping(); });
  while (own_.receive() < 0) {
    if (errno == ENODEV) return Error(ENODEV, "/dev/fuse");
    if (queue_.is_stopping() || (errno != EAGAIN && errno != EINTR && errno != ENOENT)) {
      if (!queue_.is_stopping()) log::error("cannot read from /dev/fuse: {}", strerror(errno));
      return Error(queue_.is_stopping() ? EINTR : ENODEV, "/dev/fuse");
    }
    if (errno == EAGAIN) queue_.wait_for_more();
  }
  wait_.end();
  return {};
}

// Small ones up to the first that is not, which is served behind them. As many as go together are at hand: another
// worker takes what waits beside them. False: there is no memory for small ones.
bool FuseDeviceSource::collect(std::vector<FuseRequest*>& requests) {
  do {
    FuseDeviceRequest* const small = own_.is_small() ? free_small() : nullptr;
    if (small == nullptr) {
      if (requests.empty()) return false;
      own_.serve_alone();
      requests.push_back(&own_);
      return true;
    }
    small->take_over(own_);
    requests.push_back(small);
    if (requests.size() == kTogether) {
      queue_.hand_over(member_);
      return true;
    }
  } while (own_.receive() >= 0);
  return true;
}

FuseDeviceRequest* FuseDeviceSource::free_small() {
  for (const auto& small : small_) {
    if (small->is_free()) return small.get();
  }
  if (small_.size() == kTogether) return nullptr;
  auto buffers = FuseBuffers::make_small(volume_);
  if (!buffers.ok()) return nullptr;
  small_.push_back(std::make_unique<FuseDeviceRequest>(std::move(*buffers), cache_, counters_, device_));
  interrupts_.watch(*small_.back());
  return small_.back().get();
}

bool FuseDeviceSource::pass(FuseRequest& request) {
  if (&request == &own_) return false;
  request.serve_alone();
  return queue_.pass(request);
}

// What comes beside a small one is received together behind it: so it waits for that one's transfer at most.
void FuseDeviceSource::begin_alone(const FuseRequest& request) {
  if (!queue_.is_receiver(member_)) return;
  const bool is_first_small = &request == &own_ && own_.is_small_transfer();
  const FuseOperation::Takes time = time_of(request, durability_);
  if (time == kMuch || (time != kLittle && !is_first_small && queue_.has_more())) {
    queue_.hand_over(member_);
  }
}

Status FuseDeviceSource::give_back(FuseRequest& request) {
  static_cast<FuseDeviceRequest&>(request).set_free();
  return {};
}

}  // namespace brickfs
