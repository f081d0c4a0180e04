// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/volume_link.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/brick/refusal.h"
#include "transport/membership/client_identity.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kTell{1'500};       // a brick that has been silent for so long is said to be
constexpr milliseconds kLookAtBrick{250};  // of a soft mount

bool refuses_client(Error error) {
  return error.is(EACCES) || error.is(EKEYREJECTED) || error.is(ENOENT) || error.is(EPROTO) || error.is(EUSERS) ||
         error.is(EROFS) || error.is(ENOPROTOOPT);
}

std::string describe_outage(Error error, const std::optional<milliseconds>& soft, bool has_another_way) {
  if (has_another_way)
    return fmt::format("brick unreachable: {}; what is on it is asked for another way", describe(error));
  const auto seconds = soft ? std::chrono::duration<double>(*soft).count() : 0;
  return fmt::format("brick unreachable: {}; operations {}", describe(error),
                     soft ? fmt::format("fail after {:g} s", seconds) : "wait");
}

bool ends_session(Error error) { return error.is(ENOTCONN) || error.is(ETIMEDOUT) || error.is(EPROTO); }

}  // namespace

Status Patience::check(Clock::time_point from) {
  TRY(Interruption::check(by_));
  if (!soft_) return {};
  if (!until_) until_ = from + *soft_;
  if (Clock::now() >= *until_) return Error(EIO, "brick unreachable for too long");
  return {};
}

Status Patience::wait(CondVar& changed, MutexLock& lock, Clock::time_point heard) {
  TRY(check(std::max(began_, heard)));
  if (!soft_) return wait_interruptibly(changed, lock, by_);
  changed.wait_until(lock, by_ == nullptr ? *until_ : std::min(*until_, Clock::now() + kLookAtBrick));
  return {};
}

Status Patience::lasts() { return check(soft_ ? Clock::now() : Clock::time_point()); }

VolumeLink::VolumeLink(std::unique_ptr<Brick> brick, OpenRequest request, std::optional<milliseconds> soft,
                       VolumeCounters& counters, std::string name, bool is_copy)
    : soft_(soft),
      counters_(counters),
      name_(std::move(name)),
      is_copy_(is_copy),
      request_(std::move(request)),
      jitter_(static_cast<uint32_t>(request_.client)),
      brick_(std::move(brick)) {
  brick_->set_on_lost([this](Error error) {
    uint64_t session = 0;
    {
      MutexLock lock(mutex_);
      if (!error.is(ERESTART)) lost_early_ = true;
      session = number_;
    }
    if (error.is(ESTALE)) {
      fail(error, "");
    } else {
      lose(session, error);
    }
  });
}

VolumeLink::~VolumeLink() {
  cancel(End::kAbandon);
  if (thread_.joinable()) thread_.join();
}

Status VolumeLink::open(Holder* holder) {
  const Session session = TRY(open_past_ended(*brick_, request_, holder));
  request_.resume = session.epoch;
  request_.steal = false;
  MutexLock lock(mutex_);
  session_ = session;
  number_ = 1;
  state_ = State::kConnected;
  gate_.store(number_);
  return {};
}

void VolumeLink::start(Restore restore, IsClean is_clean) {
  restore_ = std::move(restore);
  is_clean_ = std::move(is_clean);
  thread_ = Thread([this] { run(); });
}

// The thread closes the gate first and counts the guards then.
Result<VolumeLink::Guard> VolumeLink::enter(Patience& patience) {
  for (;;) {
    const size_t place = guards_.enter();
    const uint64_t session = gate_.load();
    if (session != 0) {
      Guard guard;
      guard.link_ = this;
      guard.place_ = place;
      guard.session_ = session;
      return guard;
    }
    leave(place);
    const VolumeCounters::Call counted(counters_, VolumeCall::kWait);
    MutexLock lock(mutex_);
    while (state_ == State::kWaiting) {
      if (outage_given_up_) return Error(EIO, "brick unreachable for too long");
      TRY(patience.wait(changed_, lock, heard_));
    }
    if (state_ == State::kFailed) return error_;
  }
}

void VolumeLink::leave(size_t place) {
  guards_.leave(place);
  if (gate_.load() != 0) return;
  MutexLock lock(mutex_);
  changed_.notify_all();
}

bool VolumeLink::lost_by(const Guard& guard, Error error) {
  if (error.is(ESTALE)) {
    fail(error, "");
    return true;
  }
  if (!ends_session(error)) return false;
  lose(guard.session_, error);
  return true;
}

void VolumeLink::lose(uint64_t session, Error error) {
  MutexLock lock(mutex_);
  if (state_ != State::kConnected || session != number_) return;
  heard_ = steady_clock::now();
  lose_current(error);
}

void VolumeLink::lose_current(Error error) {
  gate_.store(0);
  state_ = State::kWaiting;
  error_ = error;
  if (error.is(ERESTART)) {  // works, and could work better: what is under way ends in peace
    text_ = fmt::format("changing over: {}", error.what());
    log::info("{}{}", name_, text_);
  } else {
    text_ = describe_outage(error, soft_, request_.bound);
    log::warn("{}{}", name_, text_);
  }
  changed_.notify_all();
}

void VolumeLink::give_up_silent(milliseconds silence) {
  uint64_t session = 0;
  {
    MutexLock lock(mutex_);
    if (state_ != State::kConnected) return;
    session = number_;
  }
  const milliseconds silent = brick_->silence(Asking::kYes);
  if (silent == milliseconds(0) || silent < silence) return;
  MutexLock lock(mutex_);
  if (state_ != State::kConnected || session != number_) return;
  heard_ = steady_clock::now() - silent;
  abandons_ = true;
  lose_current(Error(ETIMEDOUT, "it does not answer"));
}

void VolumeLink::fail(Error error, std::string text) {
  MutexLock lock(mutex_);
  if (state_ == State::kFailed) return;
  if (error.is(ESTALE)) {
    text = fmt::format(
        "volume '{}' was taken over by another client; nothing works here any more: unmount, and mount anew",
        request_.volume);
  }
  if (error.is(EIDRM)) {
    text = fmt::format("volume '{}' was removed from the brick, or the brick's store replaced by an older one{}",
                       request_.volume, is_copy_ ? "" : "; nothing works here any more: unmount");
    error = Error(is_copy_ ? EIO : ESTALE, error.what());
  }
  gate_.store(0);
  state_ = State::kFailed;
  error_ = error;
  failed_ = true;
  text_ = std::move(text);
  // Who is bound to a holder goes with him, or opens the next session: that is his to tell.
  if (!error.is(ECANCELED) && !request_.bound) log::error("{}{}", name_, text_);
  changed_.notify_all();
}

void VolumeLink::give_up_outage() {
  MutexLock lock(mutex_);
  if (state_ != State::kWaiting || outage_given_up_) return;
  outage_given_up_ = true;
  log::warn("{}operations fail until the brick is back", name_);
  changed_.notify_all();
}

Session VolumeLink::session() const {
  MutexLock lock(mutex_);
  return session_;
}

BootId VolumeLink::boot() const {
  MutexLock lock(mutex_);
  return session_.boot;
}

LinkState VolumeLink::state(Asking asking) const {
  const milliseconds silent = brick_->silence(asking);
  MutexLock lock(mutex_);
  LinkState state;
  if (state_ == State::kConnected && silent < kTell) {
    state.text = session_.transport;
    return state;
  }
  if (state_ == State::kConnected) {
    state.kind = LinkState::Kind::kSilent;
    state.error = Error(ETIMEDOUT, "it does not answer");
    state.text = fmt::format("{}: the brick has not answered for {:.1f} s", session_.transport,
                             std::chrono::duration<double>(silent).count());
    return state;
  }
  state.kind = state_ == State::kWaiting ? LinkState::Kind::kWaiting : LinkState::Kind::kFailed;
  state.error = error_;
  state.text = text_;
  return state;
}

Status VolumeLink::final_error() const {
  if (!failed_) return {};
  MutexLock lock(mutex_);
  return error_;
}

void VolumeLink::cancel(End end) {
  fail(Error(ECANCELED, "volume closed"), "closed");
  MutexLock lock(mutex_);
  error_ = Error(ECANCELED, "volume closed");
  if (end_ == End::kNone) end_ = end;
  changed_.notify_all();
}

void VolumeLink::expect_no_restart() {
  MutexLock lock(mutex_);
  expects_no_restart_ = session_.suspect_blocks > 0;
}

void VolumeLink::interrupt(bool uncommitted_matters) {
  {
    MutexLock lock(mutex_);
    cut_off_ = true;
    uncommitted_matters_ = uncommitted_matters;
  }
  cancel(End::kGiveUp);
}

Status VolumeLink::close() {
  cancel(End::kGiveUp);
  MutexLock lock(mutex_);
  while (!closed_) changed_.wait(lock);
  return *closed_;
}

void VolumeLink::run() {
  End end = End::kNone;
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (end_ == End::kNone && state_ != State::kWaiting) await_loss(lock);
      end = end_;
    }
    if (end != End::kNone) break;
    reconnect();
  }
  if (end == End::kAbandon) return;
  {
    MutexLock lock(mutex_);
    if (std::exchange(abandons_, false)) {
      lock.unlock();
      brick_->abandon();
      lock.lock();
    }
    while (!guards_.none() && !cut_off_) changed_.wait(lock);
  }
  const bool keeps_lease = ends_as_a_crash();
  if (keeps_lease) brick_->abandon();
  const Status status = keeps_lease ? Error(ECANCELED, "volume closed") : brick_->close();
  MutexLock lock(mutex_);
  closed_ = status;
  changed_.notify_all();
}

bool VolumeLink::ends_as_a_crash() const {
  {
    MutexLock lock(mutex_);
    if (!cut_off_ || !uncommitted_matters_) return false;
  }
  return !is_clean_();
}

void VolumeLink::await_loss(MutexLock& lock) {
  if (!soft_) return changed_.wait(lock);
  if (changed_.wait_for(lock, kLookAtBrick)) return;
  mutex_.unlock();
  give_up_silent(*soft_);
  mutex_.lock();
}

void VolumeLink::reconnect() {
  {
    MutexLock lock(mutex_);
    while (state_ == State::kWaiting && (abandons_ || !guards_.none())) {
      if (!abandons_) {
        changed_.wait(lock);
        continue;
      }
      abandons_ = false;
      lock.unlock();
      brick_->abandon();  // what is under way in the session ends, and so do the guards
      lock.lock();
    }
    if (state_ != State::kWaiting) return;
  }
  const auto lost_at = steady_clock::now();
  auto delay = limits::kReconnectFirst;
  for (;;) {
    const Status begun = begin_session();
    if (begun.ok()) break;
    tell_refusal(begun.error());
    if (!await_retry(delay)) return;
    delay = std::min(delay * 2, limits::kReconnectMost);
  }
  log::info("{}brick is back after {} ms", name_,
            std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - lost_at).count());
}

// What answers there does not let us in: whoever it is, so it is tried again. Said once, and so is that it does not
// answer any more.
void VolumeLink::tell_refusal(Error error) {
  if (error.is(EMSGSIZE)) {
    return tell_once(error, fmt::format("brick unreachable: {}; it is tried again", error.what()));
  }
  bool refused = false;
  {
    MutexLock lock(mutex_);
    refused = text_.starts_with(kRefusesClient);
  }
  if (refuses_client(error)) {
    tell_once(error, fmt::format("{}{}; it is tried again", kRefusesClient, error.what()));
  } else if (refused) {
    tell_once(error, describe_outage(error, soft_, request_.bound));
  }
}

void VolumeLink::tell_once(Error error, std::string text) {
  MutexLock lock(mutex_);
  if (state_ != State::kWaiting || error_.is(error.code())) return;
  error_ = error;
  text_ = std::move(text);
  log::warn("{}{}", name_, text_);
}

// False: there is nothing more to try.
bool VolumeLink::await_retry(std::chrono::milliseconds delay) {
  const auto until = steady_clock::now() + delay / 2 + std::chrono::milliseconds(jitter_() % (delay.count() + 1));
  MutexLock lock(mutex_);
  while (end_ == End::kNone && state_ == State::kWaiting) {
    if (!changed_.wait_until(lock, until)) return true;
  }
  return false;
}

Status VolumeLink::begin_session() {
  const Session former = session();
  bool expects_no_restart = false;
  {
    MutexLock lock(mutex_);
    lost_early_ = false;
    // Behind a restart nobody knows whether what it is to write is still its own.
    expects_no_restart = expects_no_restart_ || request_.writes;
  }
  const auto opened = brick_->open(request_, nullptr);
  if (!opened.ok()) {
    if (opened.error().is(ESTALE) || opened.error().is(EIDRM)) fail(opened.error(), "");
    return opened.error();
  }
  const bool restarted = opened->boot != former.boot;
  Status restored;
  if (restarted && (former.durability == Durability::kVolatile || opened->durability == Durability::kVolatile)) {
    restored = Error(ENODATA, "the brick restarted and its memory is gone");
  } else if (restarted && expects_no_restart) {
    fail(Error(EIO, "the brick restarted"),
         "the brick restarted, and what its last writer had not committed may be gone: unmount, and mount anew");
    return Error(EIO, "the brick restarted");
  } else {
    restored = restore_(*brick_, restarted);
  }
  if (!restored.ok()) {
    const Error error = restored.error();
    if (error.is(ESTALE)) fail(error, "");
    if (error.is(ENODATA))
      fail(Error(EIO, error.what()), fmt::format("{}: unmount; what was written there is lost", error.what()));
    if (restarted && !ends_session(error)) {
      tell_once(error, fmt::format("the brick restarted, and what was not committed cannot be written there again: {}; "
                                   "it is tried again",
                                   describe(error)));
    }
    return error;
  }
  MutexLock lock(mutex_);
  if (lost_early_) return Error(ENOTCONN, "session lost");
  if (state_ != State::kWaiting) return Error(ECANCELED, "volume closed");
  request_.resume = opened->epoch;
  session_ = *opened;
  ++number_;
  state_ = State::kConnected;
  error_ = Error(0);
  text_.clear();
  outage_given_up_ = false;
  gate_.store(number_);
  changed_.notify_all();
  return {};
}

}  // namespace brickfs
