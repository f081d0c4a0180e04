// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/interrupt/interrupts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace brickfs {
namespace {

// As /proc shows it; the numbers of signals count from 1.
std::string status(uint64_t own, uint64_t shared, uint64_t blocked, uint64_t ignored, uint64_t caught) {
  char text[400];
  std::snprintf(
      text, sizeof(text),
      "Name:\tdd\nSigQ:\t0/1\nSigPnd:\t%016lx\nShdPnd:\t%016lx\nSigBlk:\t%016lx\nSigIgn:\t%016lx\nSigCgt:\t%016lx\n",
      own, shared, blocked, ignored, caught);
  return text;
}
constexpr uint64_t kUser = 1 << 9, kAlarm = 1 << 13;
constexpr uint64_t kHup = 1 << 0, kInt = 1 << 1, kQuit = 1 << 2, kKill = 1 << 8, kTerm = 1 << 14, kChild = 1 << 16,
                   kStop = 1 << 18, kTstp = 1 << 19;

TEST(PendingSignal, IsFatalIfNothingStandsAgainstIt) {
  EXPECT_EQ(pending_signal(status(kKill, 0, 0, 0, 0)), PendingSignal::kFatal);
  EXPECT_EQ(pending_signal(status(kKill, kTerm, 0, 0, 0)), PendingSignal::kFatal);
  EXPECT_EQ(pending_signal(status(0, kQuit, 0, 0, 0)), PendingSignal::kFatal) << "one that dumps core";
  EXPECT_EQ(pending_signal(status(0, kTerm, kTerm, 0, 0)), PendingSignal::kNone);
  EXPECT_EQ(pending_signal(status(0, kHup, 0, kHup, 0)), PendingSignal::kNone);
  EXPECT_EQ(pending_signal(status(0, kInt, 0, 0, kInt)), PendingSignal::kHandled);
}

TEST(PendingSignal, ThatStopsOrIsIgnoredEndsNothing) {
  EXPECT_EQ(pending_signal(status(0, 0, 0, 0, kInt)), PendingSignal::kNone);
  EXPECT_EQ(pending_signal(status(kStop | kTstp, kChild, 0, 0, 0)), PendingSignal::kNone);
  EXPECT_EQ(pending_signal(status(0, kChild, 0, 0, kChild)), PendingSignal::kNone);
}

TEST(PendingSignal, ThatIsHandledEndsOnlyIfItTellsToEnd) {
  for (const uint64_t signal : {kInt, kTerm, kQuit}) {
    EXPECT_EQ(pending_signal(status(signal, kAlarm, 0, 0, signal | kAlarm)), PendingSignal::kHandled);
  }
  for (const uint64_t signal : {kAlarm, kUser, kHup}) {
    EXPECT_EQ(pending_signal(status(signal, 0, 0, 0, signal)), PendingSignal::kNone);
    EXPECT_EQ(pending_signal(status(signal, 0, 0, 0, 0)), PendingSignal::kFatal);
  }
}

TEST(PendingSignal, OfAProcessThatIsNotSeenIsUnknown) {
  EXPECT_EQ(pending_signal(""), PendingSignal::kUnknown);
  EXPECT_EQ(pending_signal("Name:\tdd\nSigQ:\t0/1\n"), PendingSignal::kUnknown);
}

TEST(FuseWaiter, WhatIsSetAsideIsAnsweredByWhoInterruptsIt) {
  FuseWaiter waiter;
  int answers = 0;
  const auto answer = [&] { ++answers; };
  waiter.begin(10, 1);
  waiter.interrupt(8, answer);
  EXPECT_FALSE(waiter.interruption()->raised()) << "another request's";
  waiter.set_aside();
  waiter.interrupt(10, answer);
  EXPECT_EQ(answers, 1);
  EXPECT_FALSE(waiter.take_up());
  waiter.begin(12, 1);
  waiter.set_aside();
  EXPECT_TRUE(waiter.take_up());
  waiter.interrupt(12, answer);
  EXPECT_EQ(answers, 1) << "whoever serves it answers";
  EXPECT_TRUE(waiter.interruption()->raised());
  waiter.begin(14, 1);
  EXPECT_FALSE(waiter.interruption()->raised()) << "the next request's";
}

// A thread that does not wait for its request (asynchronous ones) handles a signal soon.
TEST(FuseWaiter, ASignalCountsThatIsNotHandledSoon) {
  FuseWaiter waiter;
  waiter.begin(2, 1);
  EXPECT_FALSE(waiter.sleeps_through(2, true));
  EXPECT_FALSE(waiter.sleeps_through(2, false)) << "it was handled";
  EXPECT_FALSE(waiter.sleeps_through(2, true)) << "another one";
  EXPECT_TRUE(waiter.sleeps_through(2, true));
  EXPECT_FALSE(waiter.sleeps_through(4, true));
  waiter.begin(4, 1);
  EXPECT_FALSE(waiter.sleeps_through(4, true));
}

TEST(FuseWaiter, RaisesWhatItsRequestIsServedWith) {
  FuseWaiter waiter;
  Interruption together;
  waiter.begin(2, 1);
  EXPECT_FALSE(waiter.ask(4));
  EXPECT_TRUE(waiter.ask(2));
  EXPECT_TRUE(waiter.look()->asked);
  EXPECT_TRUE(waiter.look()->lingers);
  waiter.join(&together);
  waiter.interrupt(2, [] {});
  EXPECT_TRUE(together.raised());
  waiter.end();
  EXPECT_FALSE(waiter.look());
}

}  // namespace
}  // namespace brickfs
