// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/set_wait.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "fs/recovery/recovery.h"
#include "fs/source/source_volume.h"
#include "tools/brickctl/interrupt.h"
#include "tools/brickctl/target.h"
#include "transport/base/printable.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookEvery{250};
constexpr milliseconds kTryEvery{2'000};       // to open the volume
constexpr milliseconds kHolderIsQuiet{8'000};  // it may be dead; one that lives looks at the map each 2 s

// Of opening the volume beside a holder that may be dead: another has just come; a brick or etcd may come back.
bool may_pass(Error error) {
  switch (error.code()) {
    case ESTALE:
    case EIO:
    case ETIMEDOUT:
    case EMSGSIZE:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ECONNREFUSED:
    case ECONNRESET:
    case ENOTCONN:
    case EPIPE:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool SetWait::is_done(const SetMap& map) const {
  const auto is_there = [&](const MemberId& id) {
    const MapReplica* const replica = find_replica(map, id);
    return replica == nullptr || replica->state == ReplicaState::kInSync;  // null: another command moved it on
  };
  return std::ranges::all_of(plan_.coming, is_there) &&
         std::ranges::all_of(plan_.leaving, [&](const MemberId& id) { return find_replica(map, id) == nullptr; });
}

// A copy whose size is not known yet counts as the largest that is.
void SetWait::show(const SetMap& map) {
  uint64_t largest = 1;
  for (const MemberId& id : plan_.coming) {
    const MapReplica* const replica = find_replica(map, id);
    if (replica != nullptr && replica->total_blocks > 0) totals_[id] = replica->total_blocks;
    if (totals_.contains(id)) largest = std::max(largest, totals_[id]);
  }
  if (totals_.empty()) return bar_.show("copies begun", 0, plan_.coming.size());
  uint64_t done = 0;
  uint64_t total = 0;
  for (const MemberId& id : plan_.coming) {
    const MapReplica* const replica = find_replica(map, id);
    const uint64_t all = totals_.contains(id) ? totals_[id] : largest;
    const bool in_sync = replica == nullptr || replica->state == ReplicaState::kInSync;
    done += in_sync ? all : replica->copied_blocks;
    total += all;
  }
  bar_.show("blocks copied", std::min(done, total), total);
}

Status SetWait::open(std::string* why) {
  const ClientSecret secret = TRY(secret_in(command_.secret_file, why));
  const Target target{command_.source, source_, nullptr};
  VolumeOptions options;
  options.open = open_request(target, OpenMode::kExclusive);
  options.soft = limits::kSoftTimeout;
  SourceFailure failure;
  auto set = open_source(source_, command_.source, {secret, command_.set.etcd}, options, false, failure);
  if (!set.ok()) {
    *why = failure.why.empty() ? describe_open_error(target, set.error(), failure.holder) : failure.why;
    return set.error();
  }
  set_ = std::move(*set);
  // Copies that a dead client left different are made equal first, or nothing would be copied.
  const Status settled = settle_unserved(*set_);
  if (settled.ok()) return {};
  *why = "what its last client left could not be settled";
  static_cast<void>(set_->close());
  set_.reset();
  return settled;
}

// As the holder, if there is no other.
Status SetWait::take_part(const SetMap& map, std::string* why) {
  const auto now = Clock::now();
  if (map.generation != generation_) changed_at_ = now;
  generation_ = map.generation;
  if (set_ != nullptr) {
    if (set_->final_error().ok()) return {};
    static_cast<void>(set_->close());
    set_.reset();
    changed_at_ = now;
  }
  const bool is_free = !map.holder || map.holder->let_go;
  if (now < try_at_ || (!is_free && now - changed_at_ < kHolderIsQuiet)) return {};
  const Status status = open(why);
  try_at_ = Clock::now() + kTryEvery;
  if (status.ok()) return {};
  const bool is_held = status.error().is(EBUSY) || status.error().is(EAGAIN);
  if (!is_held && (is_free || !may_pass(status.error()))) return status;
  say_waiting(status.code(), *why);
  return {};
}

// Once for each reason; its text may count seconds.
void SetWait::say_waiting(int code, const std::string& why) {
  if (code == said_) return;
  said_ = code;
  bar_.end();
  fmt::print(stderr, "brickctl: {}: waiting: {}\n", command_.source, printable(why));
}

// Why copies do not come, as who brings them up to date has found.
void SetWait::say_troubles(const SetMap& map) {
  for (const MemberId& id : plan_.coming) {
    const MapReplica* const replica = find_replica(map, id);
    if (replica == nullptr || replica->trouble.empty()) continue;
    if (std::exchange(said_troubles_[id], replica->trouble) == replica->trouble) continue;
    bar_.end();
    fmt::print(stderr, "brickctl: {}: {} cannot be brought up to date: {}; this is tried again\n", command_.source,
               printable(replica->source), printable(replica->trouble));
  }
}

Status SetWait::run(std::string* why) {
  auto heard_at = Clock::now();
  Status status;
  for (;;) {
    const auto stored = store_.load();
    if (stored.ok()) {
      heard_at = Clock::now();
      if (is_done(stored->map)) break;
      show(stored->map);
      say_troubles(stored->map);
      status = take_part(stored->map, why);
    } else if (Clock::now() - heard_at > kWithoutTheMap) {
      *why = store_.trouble();
      status = stored.error();
    }
    if (status.ok() && interrupted()) status = Error(EINTR, "a change of a set");
    if (!status.ok()) break;
    std::this_thread::sleep_for(kLookEvery);
  }
  bar_.end();
  if (set_ != nullptr) {
    const Status closed = set_->close();
    if (status.ok() && !closed.ok())
      *why = fmt::format("all is done, but the volume was not closed well: {}", closed.error().what());
    if (status.ok()) status = closed;
  }
  return status;
}

}  // namespace brickfs
