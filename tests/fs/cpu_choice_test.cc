// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <pthread.h>

#include <initializer_list>
#include <thread>
#include <vector>

#include "fs/fuse/serve/uring_source.h"

namespace brickfs {
namespace {

cpu_set_t set_of(std::initializer_list<size_t> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const size_t cpu : cpus) CPU_SET(cpu, &set);
  return set;
}

void run_on(const cpu_set_t& set) { ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), 0); }

bool runs_on(const cpu_set_t& set) {
  cpu_set_t now;
  return pthread_getaffinity_np(pthread_self(), sizeof(now), &now) == 0 && CPU_EQUAL(&now, &set);
}

// On a thread of its own, whose place is its own, with the numbers of two CPUs that it may run on.
template <typename Test>
void with_two_cpus(Test test) {
  cpu_set_t all;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof(all), &all), 0);
  std::vector<size_t> cpus;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU";
  std::thread([&] { test(cpus[0], cpus[1]); }).join();
}

void serve_alone(FuseCpuChoice& choice) {
  for (int i = 0; i < 20; ++i) {
    choice.begin();
    choice.end();
  }
}

void serve_beside_another(FuseCpuChoice& choice, std::atomic<unsigned>& serving) {
  ++serving;
  choice.begin();
  choice.end();
  --serving;
}

TEST(FuseCpuChoice, GoesToItsCpuAndBackToAllThatItHad) {
  with_two_cpus([](size_t one, size_t other) {
    run_on(set_of({one, other}));
    std::atomic<unsigned> serving{0};
    FuseCpuChoice choice(other, serving);
    serve_alone(choice);
    EXPECT_TRUE(runs_on(set_of({other})));
    serve_beside_another(choice, serving);
    EXPECT_TRUE(runs_on(set_of({one, other})));
  });
}

TEST(FuseCpuChoice, NeverLeavesTheCpusThatItsProcessWasStartedOn) {
  with_two_cpus([](size_t one, size_t other) {
    run_on(set_of({one}));
    std::atomic<unsigned> serving{0};
    FuseCpuChoice choice(other, serving);
    serve_alone(choice);
    EXPECT_TRUE(runs_on(set_of({one})));
    serve_beside_another(choice, serving);
    EXPECT_TRUE(runs_on(set_of({one})));
  });
}

TEST(FuseCpuChoice, StaysWhereAnAdministratorPutsItLater) {
  with_two_cpus([](size_t one, size_t other) {
    run_on(set_of({one, other}));
    std::atomic<unsigned> serving{0};
    FuseCpuChoice choice(other, serving);
    serve_alone(choice);
    run_on(set_of({one}));
    serve_beside_another(choice, serving);
    EXPECT_TRUE(runs_on(set_of({one})));
    serve_alone(choice);
    EXPECT_TRUE(runs_on(set_of({one})));
  });
}

}  // namespace
}  // namespace brickfs
