// SPDX-License-Identifier: Apache-2.0
#include "fs/run/signals.h"

#include <array>

namespace brickfs::run {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLasts{400};   // as of the mount (fs/fuse/interrupt/interrupts.cc)
constexpr milliseconds kAway{2'000};  // the brick, as far as one can tell: the mount knows it for sure
constexpr std::array kLeftOut{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};  // held they end the process

constinit thread_local const sigset_t* held_out = nullptr;  // what the program itself holds

// Of one that waits and that the program lets in.
enum class Effect { kNone, kTells, kEnds };

Effect effect_of(int signal) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0) return Effect::kNone;
  if (action.sa_handler == SIG_IGN) return Effect::kNone;
  const bool is_handled = action.sa_handler != SIG_DFL;  // that of SA_SIGINFO is at the same place
  switch (signal) {
    case SIGINT:
    case SIGTERM:
    case SIGQUIT:
      return is_handled ? Effect::kTells : Effect::kEnds;
    case SIGCHLD:
    case SIGURG:
    case SIGWINCH:
    case SIGCONT:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
      return Effect::kNone;
    default:
      return is_handled ? Effect::kNone : Effect::kEnds;
  }
}

}  // namespace

SignalsHeld::SignalsHeld() {
  sigset_t held;
  sigfillset(&held);
  for (const int signal : kLeftOut) sigdelset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
  held_out = &before_;
}

SignalsHeld::~SignalsHeld() {
  held_out = nullptr;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool ends_wait(milliseconds waited) {
  sigset_t pending;
  if (waited < kLasts || held_out == nullptr || sigpending(&pending) != 0) return false;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (sigismember(&pending, signal) != 1 || sigismember(held_out, signal) == 1) continue;
    const Effect effect = effect_of(signal);
    if (effect == Effect::kEnds || (effect == Effect::kTells && waited >= kAway)) return true;
  }
  return false;
}

}  // namespace brickfs::run
