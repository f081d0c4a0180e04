// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/member_session.h"

#include <algorithm>
#include <utility>

#include "transport/base/random.h"

namespace brickfs::shared {
namespace {

wire::Token random_token() {
  wire::Token token{};
  fill_random(token);
  return token;
}

ServedAnswer done(const Status& status) {
  ServedAnswer answer;
  answer.status = status.code();
  return answer;
}

}  // namespace

MemberSession::MemberSession(FileOperations& files, SessionId id, JoinRequest request)
    : files_(files), id_(id), token_(random_token()), request_(std::move(request)) {
  hear();
}

MemberSession::~MemberSession() = default;

Status MemberSession::connect(uint32_t slot, Channel& channel) {
  MutexLock lock(mutex_);
  if (over_) return Error(ESTALE, "the member's session has ended");
  if (Channel* const before = std::exchange(channels_[slot], &channel)) before->shut_down();
  return {};
}

void MemberSession::disconnect(uint32_t slot, Channel& channel) {
  MutexLock lock(mutex_);
  if (channels_[slot] == &channel) channels_[slot] = nullptr;
}

Status MemberSession::call(uint32_t at, uint64_t number, const Decoded& call, const Perform& perform,
                           const std::function<Status(const Answer&)>& say) {
  Slot& slot = slots_[at];
  ++busy_;
  MutexLock turn(slot.mutex);
  hear();
  Status said;
  if (number == slot.last && slot.kept) {
    said = say({slot.kept->status, slot.kept->fields, {}});
  } else if (number < slot.last) {
    said = Error(EPROTO, "a call out of turn");
  } else {
    ++calls_;
    ServedAnswer answer = do_once(slot, number, call, perform);
    slot.last = number;
    slot.kept.reset();
    if (!answer.may_be_done_again) slot.kept = Kept{answer.status, answer.fields};
    said = say({answer.status, answer.fields, answer.data});
  }
  hear();
  --busy_;
  return said;
}

ServedAnswer MemberSession::do_once(Slot& slot, uint64_t number, const Decoded& call, const Perform& perform) {
  {
    MutexLock lock(mutex_);
    if (over_) return done(Error(ESTALE, "the member's session has ended"));
    slot.interruption.clear();
    slot.current = number;
    if (slot.cancelled == number) slot.interruption.raise();
  }
  const OperationContext context{.thread = 0, .interruption = &slot.interruption, .wake_later = nullptr};
  return std::visit(calls::Overloaded{
                        [&](const Forget& asked) { return perform_own(asked); },
                        [&](const Hold& asked) { return perform_own(asked); },
                        [&](const Leave& asked) { return perform_own(asked); },
                        [&](const Cancel& asked) { return perform_own(asked); },
                        [&](const auto&) {
                          ServedAnswer answer = perform(call, context);
                          keep_references(answer.given);
                          return answer;
                        },
                    },
                    call.request);
}

void MemberSession::keep_references(const std::vector<Ino>& given) {
  MutexLock lock(mutex_);
  for (const Ino ino : given) ++references_[ino];
}

// More than it has it cannot give back: those are somebody else's.
ServedAnswer MemberSession::perform_own(const Forget& asked) {
  std::vector<Forget::One> gone;
  {
    MutexLock lock(mutex_);
    for (const Forget::One& one : asked.inodes) {
      const auto held = references_.find(one.ino);
      if (held == references_.end()) continue;
      const uint64_t references = std::min(one.references, held->second);
      gone.push_back({one.ino, references});
      held->second -= references;
      if (held->second == 0) references_.erase(held);
    }
  }
  for (const Forget::One& one : gone) files_.forget(one.ino, one.references);
  return done({});
}

ServedAnswer MemberSession::perform_own(const Hold& asked) {
  const Status held = files_.hold(asked.ino);
  if (held.ok()) keep_references({asked.ino});
  return done(held);
}

// The session ends behind the answer, as that of a member which is gone.
ServedAnswer MemberSession::perform_own(const Leave&) { return done({}); }

ServedAnswer MemberSession::perform_own(const Cancel& asked) {
  if (asked.slot >= kMostSlots) return done(Error(EPROTO, "no such slot"));
  Slot& slot = slots_[asked.slot];
  MutexLock lock(mutex_);
  slot.cancelled = asked.number;
  if (slot.current == asked.number) slot.interruption.raise();
  return done({});
}

void MemberSession::end() {
  {
    MutexLock lock(mutex_);
    over_ = true;
    for (Channel* const channel : channels_)
      if (channel != nullptr) channel->shut_down();
    for (Slot& slot : slots_) slot.interruption.raise();
  }
  (void)files_.release_machine_locks(id_);  // who waits for one ends
  for (Slot& slot : slots_) MutexLock turn(slot.mutex);
  (void)files_.release_machine_locks(id_);
  std::unordered_map<Ino, uint64_t> held;
  {
    MutexLock lock(mutex_);
    held.swap(references_);
  }
  for (const auto& [ino, references] : held) files_.forget(ino, references);
}

}  // namespace brickfs::shared
