// SPDX-License-Identifier: Apache-2.0
#include "transport/accept/secret_guesses.h"

#include <gtest/gtest.h>

#include "transport/accept/accept_limits.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;

PeerHost guesser(size_t number) {
  PeerHost made{};
  made[0] = static_cast<std::byte>(number);
  made[1] = static_cast<std::byte>(number >> 8);
  return made;
}

TEST(SecretGuesses, EachWrongProofMakesTheNextAnswerSlowerAndTimeForgives) {
  SecretGuesses guesses;
  auto now = SecretGuesses::Clock::time_point(100h);
  EXPECT_EQ(guesses.delay(guesser(1), now), 0ms);
  guesses.failed(guesser(1), now);
  EXPECT_EQ(guesses.delay(guesser(1), now), limits::kDelayOfGuess);
  EXPECT_EQ(guesses.delay(guesser(2), now), 0ms);
  for (int i = 0; i < 100; ++i) guesses.failed(guesser(1), now);
  EXPECT_EQ(guesses.delay(guesser(1), now), limits::kDelayOfGuesses);
  now += limits::kGuessRemembered + 1s;
  EXPECT_EQ(guesses.delay(guesser(1), now), 0ms);
  guesses.failed(guesser(1), now);
  EXPECT_EQ(guesses.delay(guesser(1), now), limits::kDelayOfGuess);
}

TEST(SecretGuesses, SoManyOfAnAddressAreLookedAtInASecond) {
  SecretGuesses guesses;
  const auto start = SecretGuesses::Clock::time_point(100h);
  for (size_t i = 0; i < SecretGuesses::kMostInSecond; ++i) {
    EXPECT_TRUE(guesses.may_try(guesser(1), start + 1ms * (i % 900)));
    guesses.failed(guesser(1), start + 1ms * (i % 900));
  }
  EXPECT_FALSE(guesses.may_try(guesser(1), start + 999ms));
  EXPECT_TRUE(guesses.may_try(guesser(2), start + 999ms));
  EXPECT_TRUE(guesses.may_try(guesser(1), start + 1s));
}

TEST(SecretGuesses, AnAddressHasALineAMinuteThatCounts) {
  SecretGuesses guesses;
  const auto start = SecretGuesses::Clock::time_point(100h);
  EXPECT_EQ(guesses.failed(guesser(1), start), 1u);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(guesses.failed(guesser(1), start + 1s + i * 1ms), 0u);
  EXPECT_EQ(guesses.failed(guesser(1), start + 61s), 501u);
}

TEST(SecretGuesses, ManyAddressesFillNeitherTheLogNorMemory) {
  SecretGuesses guesses;
  const auto start = SecretGuesses::Clock::time_point(100h);
  size_t lines = 0;
  for (size_t i = 0; i < 3 * limits::kGuessingHosts; ++i)
    lines += guesses.failed(guesser(i), start + i * 1ms) > 0 ? 1 : 0;
  EXPECT_LE(lines, 5u);
  EXPECT_EQ(guesses.delay(guesser(0), start + 4s), 0ms);  // forgotten
  EXPECT_EQ(guesses.delay(guesser(3 * limits::kGuessingHosts - 1), start + 4s), limits::kDelayOfGuess);
}

}  // namespace
}  // namespace brickfs
