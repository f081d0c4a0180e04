// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/member_session.h"

#include <algorithm>
#include <utility>

#include "transport/base/random.h"

namespace brickfs::shared {
namespace {

constexpr std::chrono::seconds kRecallsAwaited{5};

wire::Token random_token() {
  wire::Token token{};
  fill_random(token);
  return token;
}

static_assert(kMostSlots == ReplyRow::kSlots);

JoinRequest request_of(const KnownMember& known) {
  JoinRequest request;
  request.client = ClientId{known.client};
  request.read_only = known.read_only;
  request.name = known.name;
  return request;
}

ServedAnswer done(const Status& status) {
  ServedAnswer answer;
  answer.status = status.code();
  return answer;
}

}  // namespace

MemberSession::MemberSession(FileOperations& files, Leases& leases, UnitLender* lender, SessionId id,
                             JoinRequest request)
    : files_(files), leases_(leases), lender_(lender), id_(id), token_(random_token()), request_(std::move(request)) {
  hear();
  leases_.join(id);
}

MemberSession::MemberSession(FileOperations& files, Leases& leases, UnitLender* lender, const KnownMember& known)
    : files_(files),
      leases_(leases),
      lender_(lender),
      id_(known.session),
      token_(known.token),
      request_(request_of(known)) {
  hear();
  leases_.join(id_);
  for (const auto& [slot, reply] : known.replies) slots_[slot].before = reply;
}

MemberSession::~MemberSession() = default;

MemberRow MemberSession::row() const {
  return {.session = id_,
          .client = static_cast<uint64_t>(request_.client),
          .token = token_,
          .read_only = request_.read_only,
          .name = request_.name};
}

Status MemberSession::connect(uint32_t slot, Channel& channel) {
  MutexLock lock(mutex_);
  if (over_ && comes_back_) return Error(EAGAIN, "the coordinator ends");
  if (over_) return Error(ESTALE, "the member's session has ended");
  if (Channel* const before = std::exchange(channels_[slot], &channel)) before->shut_down();
  if (slot == kRecallsSlot) slots_[slot].interruption.raise();  // nobody hears of recalls on the one before
  return {};
}

void MemberSession::disconnect(uint32_t slot, Channel& channel) {
  MutexLock lock(mutex_);
  if (channels_[slot] == &channel) channels_[slot] = nullptr;
}

Status MemberSession::call(uint32_t at, uint64_t number, const Decoded& call, const Perform& perform,
                           const std::function<Status(const Answer&)>& say) {
  Slot& slot = slots_[at];
  {
    MutexLock lock(mutex_);  // whoever asks for more does not wait for the answer to the last one
    if (number > slot.current && !slot.is_done) slot.interruption.raise();
  }
  MutexLock turn(slot.mutex);
  hear();
  Status said;
  if (number == slot.last && slot.kept) {
    said = say({slot.kept->status, slot.kept->fields, {}});
  } else if (number < slot.last || (slot.before && number < slot.before->number)) {
    said = Error(EPROTO, "a call out of turn");
  } else {
    ++calls_;
    ServedAnswer answer = do_once(at, number, call, perform);
    slot.last = number;
    slot.kept.reset();
    if (!answer.may_be_done_again) slot.kept = Kept{answer.status, answer.fields};
    said = say({answer.status, answer.fields, answer.data});
  }
  hear();
  return said;
}

// False: it is not to be done.
bool MemberSession::begin(Slot& slot, uint64_t number) {
  MutexLock lock(mutex_);
  if (over_ || slot.abandoned == number) return false;
  slot.interruption.clear();
  slot.current = number;
  slot.is_done = false;
  slot.given.clear();
  if (slot.cancelled == number) slot.interruption.raise();
  return true;
}

// Of a call that nobody waits for any more nothing is kept.
void MemberSession::finish(Slot& slot, const std::vector<Ino>& given) {
  bool is_abandoned = false;
  {
    MutexLock lock(mutex_);
    slot.is_done = true;
    slot.given = given;
    is_abandoned = slot.abandoned == slot.current;
    if (is_abandoned) slot.given.clear();
  }
  if (is_abandoned) take_back(given);
}

ServedAnswer MemberSession::do_once(uint32_t at, uint64_t number, const Decoded& call, const Perform& perform) {
  Slot& slot = slots_[at];
  if (!begin(slot, number)) return done(Error(ESTALE, "the member's session has ended"));
  const bool was_done = slot.before && number == slot.before->number;
  const OperationContext context{
      .thread = 0, .interruption = &slot.interruption, .wake_later = nullptr, .machine = id_, .call = {at, number}};
  ServedAnswer answer =
      std::visit(calls::Overloaded{
                     [&](const Forget& asked) { return perform_own(asked); },
                     [&](const Hold& asked) { return perform_own(asked); },
                     [&](const Leave& asked) { return perform_own(asked); },
                     [&](const Cancel& asked) { return perform_own(asked); },
                     [&](const Claim& asked) { return perform_own(asked); },
                     [&](const AwaitRecalls& asked) { return perform_own(asked, slot); },
                     [&](const ReturnUnits& asked) { return perform_own(asked); },
                     [&](const GiveBytes& asked) { return perform_own(asked, call.data); },
                     [&](const auto&) { return perform(call, was_done ? &*slot.before : nullptr, context); },
                 },
                 call.request);
  keep_references(answer.given);
  finish(slot, answer.given);
  return answer;
}

void MemberSession::keep_references(const std::vector<Ino>& given) {
  MutexLock lock(mutex_);
  for (const Ino ino : given) ++references_[ino];
}

ServedAnswer MemberSession::perform_own(const Forget& asked) {
  for (const Forget::One& one : asked.inodes) forget(one.ino, one.references);
  return done({});
}

// More than it has it cannot give back: those are somebody else's.
void MemberSession::forget(Ino ino, uint64_t references) {
  bool is_last = false;
  {
    MutexLock lock(mutex_);
    const auto held = references_.find(ino);
    if (held == references_.end()) return;
    references = std::min(references, held->second);
    held->second -= references;
    is_last = held->second == 0;
    if (is_last) references_.erase(held);
  }
  if (is_last) leases_.release(id_, ino);
  files_.forget(ino, references);
}

void MemberSession::take_back(const std::vector<Ino>& given) {
  for (const Ino ino : given) forget(ino, 1);
}

ServedAnswer MemberSession::perform_own(const Hold& asked) {
  const Status held = files_.hold(asked.ino);
  ServedAnswer answer = done(held);
  if (held.ok()) answer.given.push_back(asked.ino);
  return answer;
}

// What is not there any more was nobody's, or has been taken back with its transaction. A lock that another has claimed
// was his before. What is claimed anew is held before that of the first time is let go of.
ServedAnswer MemberSession::perform_own(const Claim& asked) {
  ServedAnswer answer = done({});
  if (asked.is_first) {
    MutexLock lock(mutex_);
    for (const auto& [ino, references] : std::exchange(references_, {})) claimed_before_[ino] += references;
  }
  for (const Forget::One& one : asked.inodes) {
    uint64_t held = 0;
    while (held < one.references && files_.hold(one.ino).ok()) ++held;
    if (held == 0) continue;
    MutexLock lock(mutex_);
    references_[one.ino] += held;
  }
  for (const LockOf& one : asked.locks) {
    const LockRequest request{one.ino, {id_, one.owner, one.kind}, one.open_file, one.lock};
    (void)files_.set_lock(request, false);
  }
  for (const Ino ino : asked.by_pages) leases_.stand(id_, ino);
  References before;
  if (asked.is_all) {
    MutexLock lock(mutex_);
    before.swap(claimed_before_);
  }
  let_go_of(before);
  return answer;
}

void MemberSession::let_go_of(const References& references) {
  for (const auto& [ino, count] : references) files_.forget(ino, count);
}

// The session ends behind the answer, as that of a member which is gone.
ServedAnswer MemberSession::perform_own(const Leave&) { return done({}); }

ServedAnswer MemberSession::perform_own(const Cancel& asked) {
  if (asked.slot >= kMostSlots) return done(Error(EPROTO, "no such slot"));
  std::vector<Ino> given;
  bool is_under_way = false;
  {
    Slot& slot = slots_[asked.slot];
    MutexLock lock(mutex_);
    slot.cancelled = asked.number;
    is_under_way = slot.current == asked.number && !slot.is_done;
    if (is_under_way) slot.interruption.raise();
    if (asked.is_abandoned) slot.abandoned = asked.number;
    if (asked.is_abandoned && slot.current == asked.number && slot.is_done) given.swap(slot.given);
  }
  take_back(given);
  ServedAnswer answer = done({});
  answer.fields = encode(Cancelled{!is_under_way});
  return answer;
}

ServedAnswer MemberSession::perform_own(const AwaitRecalls& asked, Slot& slot) {
  Recalls recalls;
  recalls.recalls = leases_.await(id_, asked.done, Clock::now() + kRecallsAwaited, slot.interruption);
  if (lender_ != nullptr) recalls.wants_units = lender_->wants_back(id_);
  if (lender_ != nullptr) recalls.wants_bytes = lender_->bytes().wanted(id_);
  ServedAnswer answer = done({});
  answer.fields = encode(recalls);
  return answer;
}

// These two wait for nothing, and least of all for a brick that waits for them.
ServedAnswer MemberSession::perform_own(const ReturnUnits& asked) {
  ServedAnswer answer = done({});
  Returned returned;
  if (lender_ != nullptr) {
    lender_->give_back(id_, asked);
    returned.below = lender_->bytes().begun(id_);
  }
  answer.fields = encode(returned);
  return answer;
}

ServedAnswer MemberSession::perform_own(const GiveBytes& asked, std::span<const std::byte> bytes) {
  if (lender_ != nullptr) lender_->bytes().give(id_, asked.tag, asked.are_there ? &bytes : nullptr);
  return done({});
}

void MemberSession::end(Ends how, const std::function<Status()>& write_down) {
  {
    MutexLock lock(mutex_);
    over_ = true;
    comes_back_ = how == Ends::kComesBack;
    ending_.raise();
    for (Channel* const channel : channels_)
      if (channel != nullptr) channel->shut_down();
    for (Slot& slot : slots_) slot.interruption.raise();
  }
  leases_.leave(id_);
  for (Slot& slot : slots_) MutexLock turn(slot.mutex);
  leases_.leave(id_);  // what those calls were granted
  // Of who comes back the locks stay: he claims them from the next coordinator, and nobody is to have them meanwhile.
  if (how == Ends::kComesBack) return;
  const bool is_written = !write_down || write_down().ok();
  if (is_written) (void)files_.release_machine_locks(id_);
  References held;
  References before;
  {
    MutexLock lock(mutex_);
    held.swap(references_);
    before.swap(claimed_before_);
  }
  let_go_of(held);
  let_go_of(before);
}

void MemberSession::add_references(References& to) {
  MutexLock lock(mutex_);
  for (const References* const each : {&references_, &claimed_before_})
    for (const auto& [ino, count] : *each) to[ino] += count;
}

}  // namespace brickfs::shared
