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

void ParkedRequest::give_up(const Error& error) {
  waiter_.answer_aside([&] {
    send(error.code(), {});
    return true;
  });
}

ParkedRequest* ParkedRequests::take() {
  if (stopped_) return nullptr;
  const auto free = std::ranges::find_if(places_, [](ParkedRequest& place) { return !place.taken_.exchange(true); });
  return free == places_.end() ? nullptr : &*free;
}

void ParkedRequests::look() {
  if (!stopped_) return;
  for (ParkedRequest& place : places_) place.give_up(Error(EINVAL, "nothing is waited for any more"));
}

void ParkedRequests::stop() {
  stopped_ = true;
  look();
}

}  // namespace brickfs
