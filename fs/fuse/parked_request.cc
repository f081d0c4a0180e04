// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/parked_request.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace brickfs {

void ParkedRequest::begin(uint32_t opcode, Clock::time_point begun, OperationCounters& counters, Answer answer) {
  opcode_ = opcode;
  begun_ = begun;
  counters_ = &counters;
  answer_ = std::move(answer);
}

void ParkedRequest::finish(int error, std::span<const std::byte> payload) {
  if (waiter_.take_up()) {
    waiter_.end();
    send(error, payload);
  }
  answer_ = nullptr;
  taken_ = false;
}

void ParkedRequest::send(int error, std::span<const std::byte> payload) {
  counters_->count(opcode_, error, Clock::now() - begun_, 0);
  answer_(error, payload);
}

void ParkedRequest::give_up(Clock::duration after, const Error& error) {
  waiter_.answer_aside([&] {
    if (Clock::now() - begun_ < after) return false;
    send(error.code(), {});
    return true;
  });
}

ParkedRequest* ParkedRequests::take() {
  if (stopped_) return nullptr;
  const auto free = std::ranges::find_if(places_, [](ParkedRequest& place) { return !place.taken_.exchange(true); });
  return free == places_.end() ? nullptr : &*free;
}

void ParkedRequests::look(bool is_away) {
  if (stopped_) give_up(Clock::duration::zero(), Error(EINVAL, "nothing is waited for any more"));
  if (longest_.away && is_away) give_up(*longest_.away, Error(EIO, "the brick is away"));
  if (longest_.ever) give_up(*longest_.ever, Error(EIO, "it takes too long"));
}

void ParkedRequests::give_up(Clock::duration after, const Error& error) {
  for (ParkedRequest& place : places_) place.give_up(after, error);
}

void ParkedRequests::stop() {
  stopped_ = true;
  look(false);
}

}  // namespace brickfs
