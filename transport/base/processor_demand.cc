// SPDX-License-Identifier: Apache-2.0
#include "transport/base/processor_demand.h"

#include <algorithm>

namespace brickfs {

// Of several threads that tell it at the same time only one makes it longer.
void ProcessorDemand::note_high(Clock::time_point now) {
  const Clock::rep at = now.time_since_epoch().count();
  Clock::rep until = until_;
  if (at < until) return;
  const Clock::rep held = held_;
  const bool in_a_row = at - until < held;
  const Clock::rep holds =
      in_a_row ? std::min(2 * held, Clock::duration(kLongest).count()) : Clock::duration(kFirst).count();
  if (!until_.compare_exchange_strong(until, at + holds)) return;
  held_ = holds;
}

ProcessorDemand& processor_demand() {
  static ProcessorDemand demand;
  return demand;
}

}  // namespace brickfs
