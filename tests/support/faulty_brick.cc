// SPDX-License-Identifier: Apache-2.0
#include "tests/support/faulty_brick.h"

#include <utility>

namespace brickfs {

class FaultyBrick final : public Brick {
 public:
  explicit FaultyBrick(std::shared_ptr<BrickFaults> faults) : faults_(std::move(faults)) {}
  ~FaultyBrick() override {
    ExclusiveLock lock(faults_->under_way_);
    if (faults_->opened_by_ == this) faults_->inner_.reset();  // not that of a brick that was opened since
    if (faults_->told_ == this) faults_->on_lost_ = nullptr;   // not that of a brick that was made since
  }

  Result<Session> open(const OpenRequest& request, Holder* holder) override {
    if (faults_->refusing_ || faults_->is_absent()) return Error(ECONNREFUSED, "refused");
    if (faults_->fenced_) return Error(ESTALE, "fenced");
    ExclusiveLock lock(faults_->under_way_);
    faults_->inner_.reset();
    faults_->inner_ = faults_->connect_();
    faults_->opened_by_ = this;
    if (faults_->inner_ == nullptr) return Error(ECONNREFUSED, "no brick");
    Session session = TRY(faults_->inner_->open(request, holder));
    MutexLock state(faults_->mutex_);
    faults_->connected_ = true;
    ++faults_->sessions_;
    return session;
  }
  Status close() override {
    {
      MutexLock state(faults_->mutex_);
      if (!std::exchange(faults_->connected_, false)) return Error(ENOTCONN, "lost");
    }
    ExclusiveLock lock(faults_->under_way_);
    return faults_->inner_->close();
  }
  void abandon() override {
    {
      MutexLock state(faults_->mutex_);
      faults_->connected_ = false;
    }
    ExclusiveLock lock(faults_->under_way_);
    if (faults_->inner_ != nullptr) faults_->inner_->abandon();
  }

  Result<calls::Answer> call(const calls::Request& request) override {
    const auto kind = BrickCall{static_cast<uint16_t>(calls::kind_of(request))};
    const auto carry_out = [&](Brick& brick) { return brick.call(request); };
    const auto* const commit = std::get_if<calls::Commit>(&request);
    if (commit == nullptr) return subject(kind, carry_out);
    {
      MutexLock state(faults_->mutex_);
      faults_->commits_.push_back(commit->ranges);
    }
    return subject(kind, carry_out, [&](Brick& brick) {  // lost with its brick
      static_cast<void>(brick.commit(std::span(commit->ranges).first((commit->ranges.size() + 1) / 2)));
    });
  }

  Result<RegisteredMemory> register_memory(std::span<std::byte>) override { return RegisteredMemory(1, nullptr); }

  void submit(Batch& batch) override {
    batch.begin(1);
    {
      SharedLock calling(faults_->calling_);
      if (faults_->before_transfers_) faults_->before_transfers_();
    }
    const Status status = subject(
        BrickCall::kTransfer,
        [&](Brick& brick) {
          Batch inner;
          inner.transfers = batch.transfers;
          brick.submit(inner);
          return brick.wait(inner);
        },
        [&](Brick& brick) {  // lost on the way: half of it has landed
          Batch inner;
          inner.transfers.assign(batch.transfers.begin(), batch.transfers.begin() + (batch.transfers.size() + 1) / 2);
          brick.submit(inner);
          static_cast<void>(brick.wait(inner));
        });
    batch.finish_one(status.code());
  }
  Status wait(Batch& batch) override { return batch.status(); }

  std::chrono::steady_clock::time_point known_at() override {
    MutexLock state(faults_->mutex_);
    return faults_->known_at_.value_or(std::chrono::steady_clock::now());
  }
  void set_on_lost(std::function<void(Error)> callback) override {
    ExclusiveLock lock(faults_->under_way_);
    faults_->on_lost_ = std::move(callback);
    faults_->told_ = this;
  }

 private:
  // `in_part`: what is carried out of a call whose session is lost.
  template <typename Call>
  auto subject(BrickCall kind, Call&& carry_out) -> decltype(carry_out(std::declval<Brick&>())) {
    return subject(kind, carry_out, [&](Brick& brick) { static_cast<void>(carry_out(brick)); });
  }
  template <typename Call, typename Part>
  auto subject(BrickCall kind, Call&& carry_out, Part&& in_part) -> decltype(carry_out(std::declval<Brick&>())) {
    const uint64_t session = faults_->sessions_;
    const std::optional<PlannedFault::Kind> fault = faults_->next_planned();
    if (fault == PlannedFault::Kind::kDelayed) faults_->delay_();
    if (fault == PlannedFault::Kind::kRestarted || fault == PlannedFault::Kind::kRestartedThen) {
      if (fault == PlannedFault::Kind::kRestartedThen) {
        SharedLock lock(faults_->under_way_);
        if (faults_->is_connected()) in_part(*faults_->inner_);
      }
      faults_->lose(faults_->restart_);
      return Error(ENOTCONN, "fault");
    }
    auto answer = in_session(kind, fault, carry_out, in_part);
    if (answer.ok() && kind == BrickCall::kCommit && faults_->has_after_commit_) {
      ExclusiveLock lock(faults_->under_way_);
      MutexLock state(faults_->mutex_);
      if (!faults_->connected_ || session != faults_->sessions_) return Error(ENOTCONN, "fault");
      if (faults_->after_commit_) faults_->after_commit_();
    }
    return answer;
  }
  template <typename Call, typename Part>
  auto in_session(BrickCall kind, std::optional<PlannedFault::Kind> fault, Call&& carry_out, Part&& in_part)
      -> decltype(carry_out(std::declval<Brick&>())) {
    SharedLock lock(faults_->under_way_);
    const BrickFaults::Verdict verdict = faults_->judge(kind, fault);
    if (verdict.before != 0) return Error(verdict.before, "fault");
    if (verdict.lose_after) {
      in_part(*faults_->inner_);
      return Error(ENOTCONN, "fault");
    }
    if (verdict.repeat) static_cast<void>(carry_out(*faults_->inner_));
    return carry_out(*faults_->inner_);
  }

  const std::shared_ptr<BrickFaults> faults_;
};

std::unique_ptr<Brick> BrickFaults::make_brick() { return std::make_unique<FaultyBrick>(shared_from_this()); }

namespace {

// What a brick in order may answer to such a call.
int refusal_of(BrickCall call) {
  switch (call) {
    case BrickCall::kAlloc:
      return ENOSPC;
    case BrickCall::kMap:
      return ENOMEM;
    default:
      return EIO;
  }
}

// The second time it would be refused: such a call is known by its number, and answered from what is remembered.
bool can_repeat(BrickCall call) {
  return call != BrickCall::kAlloc && call != BrickCall::kFree && call != BrickCall::kUnmap;
}

}  // namespace

void BrickFaults::plan(std::vector<PlannedFault> faults, std::function<void()> restart, std::function<void()> delay,
                       std::function<void()> interrupt) {
  planned_ = std::move(faults);
  restart_ = std::move(restart);
  delay_ = std::move(delay);
  interrupt_ = std::move(interrupt);
}

std::optional<PlannedFault::Kind> BrickFaults::next_planned() {
  const uint64_t call = all_calls_++;
  for (const PlannedFault& fault : planned_) {
    if (fault.call == call) return fault.kind;
  }
  return std::nullopt;
}

bool BrickFaults::is_absent() {
  MutexLock state(mutex_);
  return absent_for_ > 0 && absent_for_-- > 0;
}

BrickFaults::Verdict BrickFaults::judge(BrickCall call, std::optional<PlannedFault::Kind> fault) {
  ++counts_[static_cast<size_t>(call)];
  MutexLock state(mutex_);
  if (fenced_) return {ESTALE, false};
  if (!connected_) return {ENOTCONN, false};
  if (fault == PlannedFault::Kind::kRefused) return {refusal_of(call), false};
  if (fault == PlannedFault::Kind::kRepeated) return {0, false, can_repeat(call)};
  if (fault == PlannedFault::Kind::kDelayed) fault.reset();
  if (fault) {  // one that loses the session
    connected_ = false;
    const bool interrupts = fault == PlannedFault::Kind::kInterrupted || fault == PlannedFault::Kind::kInterruptedThen;
    const bool absent = interrupts || fault == PlannedFault::Kind::kAbsent || fault == PlannedFault::Kind::kAbsentThen;
    if (absent) absent_for_ = PlannedFault::kAttemptsWhileAbsent;
    if (interrupts) interrupt_();
    const bool carried_out = fault == PlannedFault::Kind::kLostAnswer || fault == PlannedFault::Kind::kAbsentThen ||
                             fault == PlannedFault::Kind::kInterruptedThen;
    return carried_out ? Verdict{0, true} : Verdict{ENOTCONN, false};
  }
  if (const int code = answers_[static_cast<size_t>(call)]; code != 0) return {code, false};
  if (answer_ && answer_->call == call && --answer_->nth == 0) {
    const int code = answer_->code;
    answer_.reset();
    return {code, false};
  }
  if (until_loss_ == 0 || --until_loss_ > 0) return {};
  connected_ = false;
  if (loss_ == When::kBefore) return {ENOTCONN, false};
  return {0, true};
}

void BrickFaults::lose_at(uint64_t nth, When when) {
  MutexLock state(mutex_);
  until_loss_ = nth;
  loss_ = when;
}

void BrickFaults::lose(const std::function<void()>& behind) {
  ExclusiveLock lock(under_way_);
  {
    MutexLock state(mutex_);
    connected_ = false;
  }
  inner_.reset();
  if (behind) behind();
  if (on_lost_) on_lost_(Error(ENOTCONN, "fault"));
}

void BrickFaults::set_after_commit(std::function<void()> callback) {
  ExclusiveLock lock(under_way_);
  has_after_commit_ = callback != nullptr;
  after_commit_ = std::move(callback);
}

void BrickFaults::set_before_transfers(std::function<void()> callback) {
  ExclusiveLock lock(calling_);
  before_transfers_ = std::move(callback);
}

void BrickFaults::answer(BrickCall call, int code, uint64_t nth) {
  MutexLock state(mutex_);
  answer_ = {call, code, nth};
}

std::vector<std::vector<CommitRange>> BrickFaults::commits() const {
  MutexLock state(mutex_);
  return commits_;
}

}  // namespace brickfs
