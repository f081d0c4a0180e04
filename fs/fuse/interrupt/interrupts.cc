// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/interrupt/interrupts.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "fs/fuse/interrupt/thread_status.h"

namespace brickfs {

void FuseWaiter::begin(uint64_t unique, uint32_t thread) {
  MutexLock lock(mutex_);
  unique_ = unique;
  thread_ = thread;
  aside_ = false;
  asked_ = signalled_ = false;
  together_ = nullptr;
  interruption_.clear();
}

void FuseWaiter::end() {
  MutexLock lock(mutex_);
  unique_ = 0;
  aside_ = false;
  together_ = nullptr;
  interruption_.clear();
}

void FuseWaiter::join(Interruption* together) {
  MutexLock lock(mutex_);
  together_ = together;
  if (together != nullptr && interruption_.raised()) together->raise();
}

bool FuseWaiter::set_aside() {
  MutexLock lock(mutex_);
  aside_ = unique_ != 0 && !interruption_.raised();
  return aside_;
}

bool FuseWaiter::take_up() {
  MutexLock lock(mutex_);
  aside_ = false;
  return unique_ != 0;
}

std::optional<FuseWaiter::Request> FuseWaiter::look() {
  MutexLock lock(mutex_);
  const uint64_t seen = std::exchange(seen_, unique_);
  if (unique_ == 0) return std::nullopt;
  return Request{unique_, thread_, asked_, seen == unique_, interruption_.raised()};
}

bool FuseWaiter::ask(uint64_t unique) {
  MutexLock lock(mutex_);
  if (unique_ != unique) return false;
  asked_ = true;
  return true;
}

bool FuseWaiter::was_asked() {
  MutexLock lock(mutex_);
  return asked_;
}

bool FuseWaiter::sleeps_through(uint64_t unique, bool signal) {
  MutexLock lock(mutex_);
  return unique_ == unique && std::exchange(signalled_, signal) && signal;
}

void FuseWaiter::interrupt(uint64_t unique, const std::function<void()>& answer) {
  MutexLock lock(mutex_);
  if (unique_ != unique) return;
  if (aside_) {
    answer();
    unique_ = 0;
    return;
  }
  interruption_.raise();
  if (together_ != nullptr) together_->raise();
}

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kIdle{250};    // between two looks
constexpr milliseconds kBusy{50};     // while requests linger
constexpr milliseconds kSilent{400};  // a brick that says nothing for so long is not waited for by who is interrupted

constexpr uint64_t bit(int signal) { return uint64_t{1} << (signal - 1); }
constexpr uint64_t kIgnoredByDefault = bit(SIGCHLD) | bit(SIGURG) | bit(SIGWINCH) | bit(SIGCONT);
// Of those that a program handles, the ones that tell it to end. Others are its business: a database has timers and
// wakes its processes by signals, and takes EINTR from fdatasync for a disk that has failed.
constexpr uint64_t kTellsToEnd = bit(SIGINT) | bit(SIGTERM) | bit(SIGQUIT);
constexpr uint64_t kStop = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);

}  // namespace

PendingSignal pending_signal(std::string_view status) {
  if (status_field(status, "SigPnd").empty()) return PendingSignal::kUnknown;
  const uint64_t pending = status_bits(status, "SigPnd") | status_bits(status, "ShdPnd");
  if ((pending & bit(SIGKILL)) != 0) return PendingSignal::kFatal;  // also what a fatal one makes of itself
  const uint64_t let_in = pending & ~status_bits(status, "SigBlk") & ~status_bits(status, "SigIgn");
  const uint64_t caught = let_in & status_bits(status, "SigCgt");
  if ((let_in & ~caught & ~kIgnoredByDefault & ~kStop) != 0) return PendingSignal::kFatal;
  return (caught & kTellsToEnd) != 0 ? PendingSignal::kHandled : PendingSignal::kNone;
}

FuseInterrupts::FuseInterrupts(VolumeAccess& volume, std::function<void()> look)
    : volume_(volume), look_(std::move(look)), thread_([this] { run(); }) {}

FuseInterrupts::~FuseInterrupts() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void FuseInterrupts::watch(FusePlace& place) {
  MutexLock lock(mutex_);
  places_.push_back(&place);
}

bool FuseInterrupts::ask(uint64_t unique) {
  MutexLock lock(mutex_);
  const bool found =
      std::ranges::count_if(places_, [unique](FusePlace* place) { return place->waiter().ask(unique); }) > 0;
  if (found) {
    asked_ = true;
    changed_.notify_all();
  }
  return found;
}

void FuseInterrupts::run() {
  bool lingers = false;
  for (;;) {
    {
      MutexLock lock(mutex_);
      const auto until = std::chrono::steady_clock::now() + (lingers ? kBusy : kIdle);
      while (!stopping_ && !asked_ && changed_.wait_until(lock, until)) continue;
      if (stopping_) return;
      asked_ = false;
    }
    lingers = look();
    if (lingers && look_) look_();
  }
}

bool FuseInterrupts::look() {
  std::vector<FusePlace*> places;
  {
    MutexLock lock(mutex_);
    places = places_;
  }
  const bool away = volume_.is_away();  // then no request is done soon
  bool lingers = false;
  bool gives_up = false;
  std::vector<std::pair<FusePlace*, FuseWaiter::Request>> killed;
  std::vector<std::pair<FusePlace*, FuseWaiter::Request>> signalled;
  for (FusePlace* const place : places) {
    const auto request = place->waiter().look();
    if (!request) continue;
    lingers = true;
    if (!request->lingers && !request->asked && !away) continue;
    gives_up |= request->raised;
    if (request->raised) continue;
    PendingSignal signal = pending_signal(thread_status(request->thread));
    if (signal == PendingSignal::kNone && away && is_exiting(request->thread)) signal = PendingSignal::kHandled;
    if (signal == PendingSignal::kFatal) killed.emplace_back(place, *request);
    const bool sleeps = place->waiter().sleeps_through(request->unique, signal == PendingSignal::kHandled);
    const bool may_sleep = signal == PendingSignal::kHandled || signal == PendingSignal::kUnknown;
    if (sleeps || (may_sleep && request->asked)) signalled.emplace_back(place, *request);
  }
  for (const auto& [place, request] : killed) interrupt(*place, request);
  // What is under way cannot be ended alone: with it ends the session, if nothing is to be hoped from that.
  if (gives_up || !killed.empty() || !signalled.empty()) volume_.give_up_silent(kSilent);
  if (volume_.is_away()) {
    for (const auto& [place, request] : signalled) interrupt(*place, request);
  }
  return lingers;
}

void FuseInterrupts::interrupt(FusePlace& place, const FuseWaiter::Request& request) {
  place.waiter().interrupt(request.unique, [&] { place.answer_interrupted(); });
}

}  // namespace brickfs
