// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/parked_request.h"

#include <algorithm>
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

ParkedRequest* ParkedRequests::take() {
  const auto free = std::ranges::find_if(places_, [](ParkedRequest& place) { return !place.taken_.exchange(true); });
  return free == places_.end() ? nullptr : &*free;
}

bool ParkedRequests::any() const {
  return std::ranges::any_of(places_, [](const ParkedRequest& place) { return place.taken_.load(); });
}

}  // namespace brickfs
