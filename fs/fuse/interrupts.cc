// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/interrupts.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace brickfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kIdle{250};    // between two looks
constexpr milliseconds kBusy{50};     // while requests linger
constexpr milliseconds kSilent{400};  // a brick that says nothing for so long is not waited for by who is interrupted

constexpr uint64_t bit(int signal) { return uint64_t{1} << (signal - 1); }
constexpr uint64_t kIgnoredByDefault = bit(SIGCHLD) | bit(SIGURG) | bit(SIGWINCH) | bit(SIGCONT);
constexpr uint64_t kStop = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);

// A set of signals; 0 if there is none of that name.
uint64_t signals(std::string_view status, std::string_view name) {
  const size_t at = status.find(name);
  if (at == status.npos) return 0;
  const size_t begin = status.find_first_not_of(" \t", at + name.size());
  uint64_t set = 0;
  if (begin != status.npos) std::from_chars(status.data() + begin, status.data() + status.size(), set, 16);
  return set;
}

PendingSignal pending_signal_of(uint32_t thread) {
  if (thread == 0) return PendingSignal::kUnknown;
  std::ifstream file(fmt::format("/proc/{}/status", thread));
  std::string status;  // by lines: a thread that ends meanwhile is an end of file to getline(), and an exception to the buffer
  for (std::string line; std::getline(file, line);) status += line + '\n';
  return pending_signal(status);
}

}  // namespace

PendingSignal pending_signal(std::string_view status) {
  if (status.find("\nSigPnd:") == status.npos) return PendingSignal::kUnknown;
  const uint64_t pending = signals(status, "\nSigPnd:") | signals(status, "\nShdPnd:");
  if ((pending & bit(SIGKILL)) != 0) return PendingSignal::kFatal;  // also what a fatal one makes of itself
  const uint64_t let_in = pending & ~signals(status, "\nSigBlk:") & ~signals(status, "\nSigIgn:");
  const uint64_t caught = let_in & signals(status, "\nSigCgt:");
  if ((let_in & ~caught & ~kIgnoredByDefault & ~kStop) != 0) return PendingSignal::kFatal;
  return caught != 0 ? PendingSignal::kHandled : PendingSignal::kNone;
}

FuseInterrupts::FuseInterrupts(VolumeClient& volume, std::function<void()> look)
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
    const PendingSignal signal = pending_signal_of(request->thread);
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
