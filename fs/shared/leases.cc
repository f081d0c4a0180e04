// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/leases.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "fs/operations/member_journal.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRecallTakes{2'000};        // then the member's leases lapse
constexpr milliseconds kRecallOwed{500};           // then nothing is renewed
constexpr milliseconds kLapses = kMembersRelyFor;  // clocks do not run alike
static_assert(kLapses >= kCacheLease * 11 / 10);
constexpr size_t kMostRecalls = 1'024;  // told at once

constexpr std::array kEachKind = {Lease::kAttributes, Lease::kNames, Lease::kData};

}  // namespace

void Leases::Scope::add(Ino ino, Lease kinds, bool asker_drops) {
  if (ino == kNoIno) return;
  for (Part& part : std::span(parts_).first(count_)) {
    if (part.ino != ino || part.asker_drops != asker_drops) continue;
    part.kinds = part.kinds | kinds;
    return;
  }
  parts_[count_++] = {ino, kinds, asker_drops};
}

Leases::Change::~Change() {
  if (leases_ == nullptr) return;
  if (is_unseen_) --leases_->unseen_;
  if (asker_ && leases_->stood_ > 0) {
    const auto wanted = leases_->close_standing(scope_, *asker_);
    if (!wanted.empty()) (void)leases_->await_done(leases_->recall(wanted), nullptr);
  }
  for (const auto& part : scope_.parts()) leases_->open(part.ino, part.kinds);
}

bool Leases::Entry::is_closed(Lease kinds) const {
  for (int i = 0; i < kLeaseKinds; ++i)
    if (any(kinds & kEachKind[i]) && closed[i] > 0) return true;
  return false;
}

void Leases::Entry::close(Lease kinds, int by) {
  for (int i = 0; i < kLeaseKinds; ++i)
    if (any(kinds & kEachKind[i])) closed[i] += by;
}

Lease Leases::Entry::held_by(uint64_t machine) const {
  for (const Holder& holder : holders)
    if (holder.machine == machine) return holder.kinds;
  return Lease::kNone;
}

void Leases::join(uint64_t machine) {
  {
    MutexLock lock(mutex_);
    machines_.try_emplace(machine);
    machine_count_ = machines_.size();
  }
  while (unseen_ > 0) std::this_thread::sleep_for(milliseconds(1));
}

// Counted before it is looked whether there are machines, as those are before it is looked at changes.
std::optional<Leases::Change> Leases::begin_unseen() {
  ++unseen_;
  if (machine_count_ == 0) return Change(this, {}, true);
  --unseen_;
  return std::nullopt;
}

void Leases::hold_back(bool hold) {
  MutexLock lock(mutex_);
  is_held_back_ = hold;
  done_.notify_all();
}

bool Leases::is_held_back() const {
  MutexLock lock(mutex_);
  return is_held_back_;
}

Status Leases::await_going_on(const Interruption* by) {
  MutexLock lock(mutex_);
  while (is_held_back_) TRY(wait_interruptibly(done_, lock, by));
  return {};
}

void Leases::leave(uint64_t machine) {
  if (stood_ > 0) stop_standing(machine);
  std::vector<Pending> pending;
  {
    MutexLock lock(mutex_);
    const auto at = machines_.find(machine);
    if (at != machines_.end()) {
      pending = take_pending(at->second);
      at->second.told->notify_all();
      machines_.erase(at);
      machine_count_ = machines_.size();
    }
  }
  drop(machine, pending);
}

Lease Leases::grant(uint64_t machine, Ino ino, Lease kinds) {
  {
    MutexLock lock(mutex_);
    const auto at = machines_.find(machine);
    if (at == machines_.end() || at->second.lapses) return Lease::kNone;
  }
  Shard& shard = shard_of(ino);
  MutexLock lock(shard.mutex);
  const auto found = shard.entries.find(ino);
  Lease granted = kinds;
  if (found != shard.entries.end())
    for (const Lease kind : kEachKind)
      if (found->second.is_closed(kind)) granted = without(granted, kind);
  if (!any(granted)) return granted;
  Entry& entry = found != shard.entries.end() ? found->second : shard.entries[ino];
  for (Holder& holder : entry.holders) {
    if (holder.machine != machine) continue;
    holder.kinds = holder.kinds | granted;
    return granted;
  }
  entry.holders.push_back({machine, granted});
  ++held_;
  return granted;
}

void Leases::stand(uint64_t machine, Ino ino) {
  Shard& shard = shard_of(ino);
  MutexLock lock(shard.mutex);
  ++stood_;
  Entry& entry = shard.entries[ino];
  for (Holder& holder : entry.holders)
    if (holder.machine == machine) return void(holder.stands = true);
  entry.holders.push_back({machine, Lease::kNone, true});
  ++held_;
}

void Leases::stop_standing(uint64_t machine) {
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    std::vector<Ino> stood;
    for (auto& [ino, entry] : shard.entries)
      for (Holder& holder : entry.holders)
        if (holder.machine == machine && std::exchange(holder.stands, false)) stood.push_back(ino);
    for (const Ino ino : stood) remove_holder(shard, ino, machine, Lease::kNone);
  }
}

// Not taken away at once: it may just be granted anew.
void Leases::release(uint64_t machine, Ino ino) {
  Wanted wanted{machine, ino, Lease::kNone};
  {
    Shard& shard = shard_of(ino);
    MutexLock lock(shard.mutex);
    const auto found = shard.entries.find(ino);
    if (found != shard.entries.end() && stood_ > 0) {
      for (Holder& holder : found->second.holders) holder.stands = holder.stands && holder.machine != machine;
      if (!any(found->second.held_by(machine))) return remove_holder(shard, ino, machine, Lease::kNone);
    }
    if (found != shard.entries.end()) wanted.kinds = found->second.held_by(machine);
    if (!any(wanted.kinds)) return;
    found->second.close(wanted.kinds, 1);
  }
  recall(std::span(&wanted, 1));
}

void Leases::remove_holder(Shard& shard, Ino ino, uint64_t machine, Lease kinds) {
  const auto found = shard.entries.find(ino);
  if (found == shard.entries.end()) return;
  Entry& entry = found->second;
  held_ -= std::erase_if(entry.holders, [&](Holder& holder) {
    if (holder.machine == machine) holder.kinds = without(holder.kinds, kinds);
    return !any(holder.kinds) && !holder.stands;
  });
  if (entry.holders.empty() && !entry.is_closed(Lease::kAttributes | Lease::kNames | Lease::kData))
    shard.entries.erase(found);
}

void Leases::open(Ino ino, Lease kinds) {
  Shard& shard = shard_of(ino);
  MutexLock lock(shard.mutex);
  shard.entries.at(ino).close(kinds, -1);
  remove_holder(shard, ino, 0, kinds);
}

// Answers from whom it is to be recalled: closed once more for each.
std::vector<Leases::Wanted> Leases::close(const Scope& scope, uint64_t asker) {
  std::vector<Wanted> wanted;
  for (const Scope::Part& part : scope.parts()) {
    Shard& shard = shard_of(part.ino);
    MutexLock lock(shard.mutex);
    Entry& entry = shard.entries[part.ino];
    entry.close(part.kinds, 1);
    for (const Holder& holder : entry.holders) {
      Lease kinds = holder.kinds & part.kinds;
      if (holder.stands && holder.machine != asker) kinds = kinds | (part.kinds & Lease::kData);
      const bool has_dropped_it = holder.machine == asker && part.asker_drops;
      if (!any(kinds) || has_dropped_it) continue;
      entry.close(kinds, 1);
      wanted.push_back({holder.machine, part.ino, kinds});
    }
  }
  return wanted;
}

std::vector<Leases::Wanted> Leases::close_standing(const Scope& scope, uint64_t asker) {
  std::vector<Wanted> wanted;
  for (const Scope::Part& part : scope.parts()) {
    if (!any(part.kinds & Lease::kData)) continue;
    Shard& shard = shard_of(part.ino);
    MutexLock lock(shard.mutex);
    Entry& entry = shard.entries.at(part.ino);
    for (const Holder& holder : entry.holders) {
      if (!holder.stands || holder.machine == asker) continue;
      entry.close(Lease::kData, 1);
      wanted.push_back({holder.machine, part.ino, Lease::kData});
    }
  }
  return wanted;
}

Result<Leases::Change> Leases::begin(const Scope& scope, uint64_t asker, const Interruption* by) {
  if (auto unseen = begin_unseen()) return *std::move(unseen);
  TRY(await_going_on(by));
  const auto wanted = close(scope, asker);
  Change change(this, scope);
  if (!wanted.empty()) TRY(await_done(recall(wanted), by));
  change.asker_ = asker;
  return change;
}

std::optional<Leases::Change> Leases::try_begin(const Scope& scope) {
  if (auto unseen = begin_unseen()) return unseen;
  if (is_held_back()) return std::nullopt;
  const auto wanted = close(scope, 0);
  Change change(this, scope);
  for (const Wanted& one : wanted) open(one.ino, one.kinds);
  return wanted.empty() ? std::optional(std::move(change)) : std::nullopt;
}

// Of what has been closed once more for each; which it is until it is done, also for who does not wait for it any more.
Leases::Awaited Leases::recall(std::span<const Wanted> wanted) {
  Awaited awaited;
  std::vector<Wanted> gone;
  {
    MutexLock lock(mutex_);
    for (const Wanted& one : wanted) {
      const auto at = machines_.find(one.machine);
      if (at == machines_.end()) {
        gone.push_back(one);
        continue;
      }
      const uint64_t number = ++last_recall_;
      at->second.pending.emplace(number, Pending{one.ino, one.kinds, Clock::now()});
      at->second.untold.push_back(number);
      at->second.told->notify_all();
      awaited.emplace_back(one.machine, number);
    }
  }
  for (const Wanted& one : gone) {
    const Pending over{one.ino, one.kinds, {}};
    finish(one.machine, std::span(&over, 1));
  }
  return awaited;
}

Status Leases::await_done(const Awaited& awaited, const Interruption* by) {
  MutexLock lock(mutex_);
  for (const auto& [number, id] : awaited) {
    while (true) {
      const auto at = machines_.find(number);
      if (at == machines_.end() || !at->second.pending.contains(id)) break;
      TRY(wait_interruptibly(done_, lock, by));
    }
  }
  return {};
}

// What is pending any more is opened, and relied on by that machine no longer.
void Leases::finish(uint64_t machine, std::span<const Pending> done) {
  for (const Pending& one : done) {
    {
      Shard& shard = shard_of(one.ino);
      MutexLock lock(shard.mutex);
      remove_holder(shard, one.ino, machine, one.kinds);
    }
    open(one.ino, one.kinds);
  }
}

std::vector<Leases::Pending> Leases::take_pending(Machine& machine) {
  std::vector<Pending> taken;
  for (const auto& [id, pending] : machine.pending) taken.push_back(pending);
  machine.pending.clear();
  machine.untold.clear();
  done_.notify_all();
  return taken;
}

// Behind take_pending(): it relies on nothing any more.
void Leases::drop(uint64_t machine, std::span<const Pending> pending) {
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    std::vector<Ino> held;
    for (const auto& [ino, entry] : shard.entries)
      if (any(entry.held_by(machine))) held.push_back(ino);
    for (const Ino ino : held) remove_holder(shard, ino, machine, Lease::kAttributes | Lease::kNames | Lease::kData);
  }
  finish(machine, pending);
}

// What it held before the generation that it says it has begun is gone before anything is granted in that.
uint64_t Leases::renew(uint64_t number, uint64_t generation) {
  const auto now = Clock::now();
  std::vector<Pending> pending;
  {
    MutexLock lock(mutex_);
    const auto at = machines_.find(number);
    if (at == machines_.end()) return 0;
    Machine& machine = at->second;
    if (generation != machine.generation) return machine.generation;
    const bool owes = !machine.pending.empty() && now - machine.pending.begin()->second.since > kRecallOwed;
    if (machine.is_dropped || (owes && !machine.lapses)) return 0;
    machine.renewed = now;
    if (!machine.lapses) return generation;
    pending = take_pending(machine);
  }
  drop(number, pending);
  MutexLock lock(mutex_);
  const auto at = machines_.find(number);
  if (at != machines_.end()) at->second.lapses = false;
  return generation;
}

std::vector<Recall> Leases::await(uint64_t number, std::span<const uint64_t> done, Clock::time_point until,
                                  const Interruption& ending) {
  tell_done(number, done);
  constexpr milliseconds kLook{500};
  std::vector<Recall> recalls;
  MutexLock lock(mutex_);
  while (true) {
    const auto at = machines_.find(number);
    if (at == machines_.end() || ending.raised()) return recalls;
    Machine& machine = at->second;
    for (; !machine.untold.empty() && recalls.size() < kMostRecalls; machine.untold.pop_front()) {
      const uint64_t id = machine.untold.front();
      const auto pending = machine.pending.find(id);
      if (pending != machine.pending.end()) recalls.push_back({id, pending->second.ino, pending->second.kinds});
    }
    const auto now = Clock::now();
    if (std::exchange(machine.is_called, false) || !recalls.empty() || now >= until) return recalls;
    const auto told = machine.told;
    told->wait_until(lock, std::min(until, now + kLook));
  }
}

void Leases::call(uint64_t number) {
  MutexLock lock(mutex_);
  const auto at = machines_.find(number);
  if (at == machines_.end()) return;
  at->second.is_called = true;
  at->second.told->notify_all();
}

void Leases::tell_done(uint64_t number, std::span<const uint64_t> done) {
  std::vector<Pending> finished;
  {
    MutexLock lock(mutex_);
    const auto at = machines_.find(number);
    if (at == machines_.end()) return;
    for (const uint64_t id : done) {
      const auto pending = at->second.pending.extract(id);
      if (!pending.empty()) finished.push_back(pending.mapped());
    }
    if (!finished.empty()) done_.notify_all();
  }
  finish(number, finished);
}

void Leases::look(Clock::time_point now) {
  std::vector<std::pair<uint64_t, std::vector<Pending>>> over;
  {
    MutexLock lock(mutex_);
    for (auto& [number, machine] : machines_) {
      const bool is_late = std::ranges::any_of(
          machine.pending, [&](const auto& each) { return now - each.second.since >= kRecallTakes; });
      if (is_late && !machine.lapses) {
        machine.lapses = true;
        ++machine.generation;
        ++lapsed_;
      }
      if (!machine.lapses || machine.pending.empty() || now - machine.renewed < kLapses) continue;
      machine.is_dropped = true;
      over.emplace_back(number, take_pending(machine));
    }
  }
  for (const auto& [number, pending] : over) {
    drop(number, pending);
    MutexLock lock(mutex_);
    if (const auto at = machines_.find(number); at != machines_.end()) at->second.is_dropped = false;
  }
}

Leases::Counts Leases::counts() const {
  MutexLock lock(mutex_);
  return {held_, last_recall_, lapsed_};
}

}  // namespace brickfs::shared
