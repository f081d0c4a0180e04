// SPDX-License-Identifier: Apache-2.0
#include "transport/accept/secret_guesses.h"

#include <algorithm>
#include <utility>

#include "transport/accept/accept_limits.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr std::chrono::seconds kBetweenAnyLines{1};  // of whatever addresses
constexpr std::chrono::seconds kSecond{1};

}  // namespace

bool SecretGuesses::may_try(const PeerHost& host, Clock::time_point now) {
  MutexLock lock(mutex_);
  const auto found = by_host_.find(host);
  return found == by_host_.end() || now - found->second.second >= kSecond || found->second.in_second < kMostInSecond;
}

std::chrono::milliseconds SecretGuesses::delay(const PeerHost& host, Clock::time_point now) {
  MutexLock lock(mutex_);
  const auto found = by_host_.find(host);
  if (found == by_host_.end() || now - found->second.last > limits::kGuessRemembered) return {};
  return std::min<std::chrono::milliseconds>(limits::kDelayOfGuess * found->second.failures, limits::kDelayOfGuesses);
}

size_t SecretGuesses::failed(const PeerHost& host, Clock::time_point now) {
  MutexLock lock(mutex_);
  if (!by_host_.contains(host) && by_host_.size() >= limits::kGuessingHosts) forget_old(now);
  Record& record = by_host_[host];
  if (now - record.last > limits::kGuessRemembered) record.failures = 0;
  record.last = now;
  ++record.failures;
  if (now - record.second >= kSecond) {
    record.second = now;
    record.in_second = 0;
  }
  ++record.in_second;
  ++record.unlogged;
  const bool soon = record.logged != Clock::time_point() && now - record.logged < limits::kGuessRemembered;
  if (soon || (logged_ != Clock::time_point() && now - logged_ < kBetweenAnyLines)) return 0;
  logged_ = record.logged = now;
  return std::exchange(record.unlogged, 0);
}

// At least one.
void SecretGuesses::forget_old(Clock::time_point now) {
  std::erase_if(by_host_, [&](const auto& entry) { return now - entry.second.last > limits::kGuessRemembered; });
  if (by_host_.size() < limits::kGuessingHosts) return;
  const auto older = [](const auto& a, const auto& b) { return a.second.last < b.second.last; };
  by_host_.erase(std::ranges::min_element(by_host_, older));
}

void note_guess(SecretGuesses& guesses, const PeerAddress& peer) {
  const size_t times = guesses.failed(peer.host, SecretGuesses::Clock::now());
  if (times == 1) log::warn("{} was refused: its secret is wrong or missing", peer.text);
  if (times > 1)
    log::warn("{} was refused, its address for the {}th time lately: its secret is wrong or missing", peer.text, times);
}

}  // namespace brickfs
