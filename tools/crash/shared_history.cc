// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/shared_history.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace brickfs::shared_world {

void Known::learn(uint64_t value, const Listener& listener) {
  uint64_t& known = listener.is_own ? by_own_.at(listener.machine) : surely_;
  known = std::max(known, value);
}

void History::see(Known& known, const Floor& before, uint64_t value, const Listener& listener,
                  const std::string& what) {
  const auto told = fmt::format("{}: {} is seen on machine {}", what, value, listener.machine);
  if (value < before.surely_) violation(fmt::format("{}, and {} was known before", told, before.surely_));
  if (value > known.begun_) violation(fmt::format("{}, and {} was begun last", told, known.begun_));
  for (Machine machine = 0; machine < before.by_own_.size(); ++machine) {
    if (value < before.by_own_[machine])
      suspect({machine}, fmt::format("{}, and machine {} knew {}", told, machine, before.by_own_[machine]));
  }
  known.learn(value, listener);
}

void History::has_made(const std::string& name, const Listener& listener) {
  const auto [maker, is_first] = makers_.try_emplace(name, listener);
  if (is_first) return;
  const auto what = fmt::format("{} was made on machine {} and on {}", name, maker->second.machine, listener.machine);
  if (!maker->second.is_own) return violation(what);
  suspect({maker->second.machine}, what);
  maker->second = listener;
}

void History::has_locked(unsigned program, const Listener& listener) {
  for (const auto& [other, machine] : lockers_) {
    if (other != program)
      suspect({machine, listener.machine},
              fmt::format("program {} on machine {} has the lock that {} has on machine {}", program, listener.machine,
                          other, machine));
  }
  lockers_[program] = listener.machine;
}

void History::unlocks(unsigned program) { lockers_.erase(program); }

std::string History::record_of(unsigned program, uint64_t number) {
  return fmt::format("{}{:06}\n", static_cast<char>('a' + program), number);
}

// Of each program all from the first to some one, in their order; and nothing moves.
void History::see_records(std::string_view text, std::vector<Known>& known, const std::vector<Floor>& before,
                          const Listener& listener) {
  std::vector<uint64_t> last(known.size(), 0);
  for (size_t at = 0; at < text.size(); at += kRecordBytes) {
    const std::string_view record = text.substr(at, kRecordBytes);
    const size_t program = static_cast<size_t>(record[0]) - 'a';
    uint64_t number = 0;
    if (record.size() == kRecordBytes) std::from_chars(record.data() + 1, record.data() + 7, number);
    if (program >= known.size() || number == 0)
      return violation(
          fmt::format("no record at {} of {} bytes, seen on machine {}", at, text.size(), listener.machine));
    if (number != last[program] + 1)
      return violation(fmt::format("record {} of program {} comes behind {}, seen on machine {}", number, program,
                                   last[program], listener.machine));
    last[program] = number;
  }
  for (size_t program = 0; program < known.size(); ++program)
    see(known[program], before[program], last[program], listener, fmt::format("records of program {}", program));
  const size_t common = std::min(records_.size(), text.size());
  if (text.substr(0, common) != std::string_view(records_).substr(0, common)) violation("records have moved");
  if (!listener.is_own && text.size() > records_.size()) records_ = text;
}

void History::lost(Machine machine) {
  lost_.insert(machine);
  std::erase_if(lockers_, [&](const auto& entry) { return entry.second == machine; });
}

void History::suspect(std::vector<Machine> machines, std::string what) {
  suspicions_.push_back({std::move(machines), std::move(what)});
}

void History::violation(const std::string& what) { violations_.push_back(what); }

std::string History::verdict() const {
  if (!violations_.empty()) return violations_.front();
  for (const Suspicion& suspicion : suspicions_)
    if (std::ranges::none_of(suspicion.machines, [&](Machine machine) { return lost_.contains(machine); }))
      return suspicion.what;
  return {};
}

}  // namespace brickfs::shared_world
