// SPDX-License-Identifier: Apache-2.0
#include "transport/volume_link.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "transport/base/log.h"
#include "transport/limits.h"

namespace brickfs {
namespace {

using std::chrono::steady_clock;

std::string describe(Error error) {
  const std::string reason = std::strerror(error.code());
  return error.what()[0] == '\0' ? reason : fmt::format("{}: {}", error.what(), reason);
}

bool ends_session(Error error) { return error.is(ENOTCONN) || error.is(ETIMEDOUT) || error.is(EPROTO); }

}  // namespace

bool Patience::wait(CondVar& changed, MutexLock& lock) {
  if (!soft_) {
    changed.wait(lock);
    return true;
  }
  if (!lasts()) return false;
  changed.wait_until(lock, *until_);
  return true;
}

bool Patience::lasts() {
  if (!soft_) return true;
  const auto now = steady_clock::now();
  if (!until_) until_ = now + *soft_;
  return now < *until_;
}

VolumeLink::VolumeLink(std::unique_ptr<Brick> brick, OpenRequest request)
    : request_(std::move(request)), jitter_(static_cast<uint32_t>(request_.client)), brick_(std::move(brick)) {
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
  const Session session = TRY(brick_->open(request_, holder));
  request_.resume = session.epoch;
  request_.steal = false;
  MutexLock lock(mutex_);
  session_ = session;
  number_ = 1;
  state_ = State::kConnected;
  gate_.store(number_);
  return {};
}

void VolumeLink::start(Restore restore) {
  restore_ = std::move(restore);
  thread_ = Thread([this] { run(); });
}

// The thread closes the gate first and counts the stays then.
Result<VolumeLink::Use> VolumeLink::enter(Patience& patience) {
  for (;;) {
    const size_t place = stays_.enter();
    const uint64_t session = gate_.load();
    if (session != 0) {
      Use use;
      use.link_ = this;
      use.place_ = place;
      use.session_ = session;
      return use;
    }
    leave(place);
    MutexLock lock(mutex_);
    while (state_ == State::kWaiting) {
      if (!patience.wait(changed_, lock)) return Error(EIO, "brick unreachable for too long");
    }
    if (state_ == State::kFailed) return error_;
  }
}

void VolumeLink::leave(size_t place) {
  stays_.leave(place);
  if (gate_.load() != 0) return;
  MutexLock lock(mutex_);
  changed_.notify_all();
}

bool VolumeLink::lost_by(const Use& use, Error error) {
  if (error.is(ESTALE)) {
    fail(error, "");
    return true;
  }
  if (!ends_session(error)) return false;
  lose(use.session_, error);
  return true;
}

void VolumeLink::lose(uint64_t session, Error error) {
  MutexLock lock(mutex_);
  if (state_ != State::kConnected || session != number_) return;
  gate_.store(0);
  state_ = State::kWaiting;
  error_ = error;
  if (error.is(ERESTART)) {  // works, and could work better: what is under way ends in peace
    text_ = fmt::format("changing over: {}", error.what());
    log::info("{}", text_);
  } else {
    text_ = fmt::format("brick unreachable: {}; operations wait", describe(error));
    log::warn("{}", text_);
  }
  changed_.notify_all();
}

void VolumeLink::fail(Error error, std::string text) {
  MutexLock lock(mutex_);
  if (state_ == State::kFailed) return;
  if (error.is(ESTALE)) {
    text = fmt::format("volume '{}' was taken over by another client; nothing works here any more: unmount, and mount anew",
                       request_.volume);
  }
  gate_.store(0);
  state_ = State::kFailed;
  error_ = error;
  failed_ = true;
  text_ = std::move(text);
  if (!error.is(ECANCELED)) log::error("{}", text_);
  changed_.notify_all();
}

Session VolumeLink::session() const {
  MutexLock lock(mutex_);
  return session_;
}

LinkState VolumeLink::state() const {
  MutexLock lock(mutex_);
  LinkState state;
  if (state_ == State::kConnected) {
    state.text = session_.transport;
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

void VolumeLink::interrupt() {
  {
    MutexLock lock(mutex_);
    cut_off_ = true;
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
      while (end_ == End::kNone && state_ != State::kWaiting) changed_.wait(lock);
      end = end_;
    }
    if (end != End::kNone) break;
    reconnect();
  }
  if (end == End::kAbandon) return;
  {
    MutexLock lock(mutex_);
    while (!stays_.none() && !cut_off_) changed_.wait(lock);
  }
  const Status status = brick_->close();
  MutexLock lock(mutex_);
  closed_ = status;
  changed_.notify_all();
}

void VolumeLink::reconnect() {
  {
    MutexLock lock(mutex_);
    while (state_ == State::kWaiting && !stays_.none()) changed_.wait(lock);
    if (state_ != State::kWaiting) return;
  }
  const auto lost_at = steady_clock::now();
  auto delay = limits::kReconnectFirst;
  for (;;) {
    const Status begun = begin_session();
    if (begun.ok()) break;
    if (!await_retry(delay)) return;
    delay = std::min(delay * 2, limits::kReconnectMost);
  }
  log::info("brick is back after {} ms", std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - lost_at).count());
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
  {
    MutexLock lock(mutex_);
    lost_early_ = false;
  }
  const auto opened = brick_->open(request_, nullptr);
  if (!opened.ok()) {
    if (opened.error().is(ESTALE)) fail(opened.error(), "");
    return opened.error();
  }
  const bool restarted = opened->boot != former.boot;
  Status restored;
  if (restarted && (former.durability == Durability::kVolatile || opened->durability == Durability::kVolatile)) {
    restored = Error(ENODATA, "the brick restarted and its memory is gone");
  } else {
    restored = restore_(*brick_, restarted);
  }
  if (!restored.ok()) {
    const Error error = restored.error();
    if (error.is(ESTALE)) fail(error, "");
    if (error.is(ENODATA)) fail(Error(EIO, error.what()), fmt::format("{}: unmount; what was written there is lost", error.what()));
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
  gate_.store(number_);
  changed_.notify_all();
  return {};
}

}  // namespace brickfs
