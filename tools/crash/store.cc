// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/store.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/crash_store_explorer.h"
#include "tools/crash/fibers.h"
#include "tools/crash/fixed_world.h"
#include "tools/crash/processes.h"

namespace brickfs {
namespace {

constexpr unsigned kRunSeconds = 120;  // for one run: it hangs
constexpr uint64_t kDefaultRuns = 500;

struct StoreTotals {
  std::atomic<uint64_t> runs{0};
  std::atomic<uint64_t> states{0};
  std::atomic<uint64_t> repeats{0};
  std::atomic<uint64_t> failures{0};
};

uint64_t run_under_way = 0;

void on_signal(int signal) {
  char line[128];
  const int length =
      std::snprintf(line, sizeof(line), "\nFAILED: %s; reproduce: brickfs-crash store --runs 1 --seed %lu\n",
                    signal == SIGALRM ? "hangs" : "aborted", run_under_way);
  static_cast<void>(!write(STDOUT_FILENO, line, static_cast<size_t>(length)));
  _exit(3);
}

void work(const StoreArguments& arguments, double begin, uint64_t number, StoreTotals& totals) {
  for (const int signal : {SIGABRT, SIGALRM, SIGSEGV}) std::signal(signal, on_signal);
  const auto time_is_up = [&] {
    return totals.failures >= arguments.failures ||
           (arguments.seconds > 0 && real_seconds() >= begin + arguments.seconds);
  };
  StoreExplorer explorer({.on_run = [](uint64_t seed) { fibers::set_schedule(seed); },
                          .interleave = [] { fibers::maybe_yield(); },
                          .time_is_up = time_is_up});
  for (uint64_t i = number; (arguments.runs == 0 || i < arguments.runs) && !time_is_up(); i += arguments.jobs) {
    run_under_way = arguments.seed + i;
    set_random(run_under_way);
    const uint64_t states = explorer.states();
    const uint64_t repeats = explorer.repeats();
    alarm(kRunSeconds);
    const std::string failure = explorer.run(run_under_way);
    alarm(0);
    ++totals.runs;
    totals.states += explorer.states() - states;
    totals.repeats += explorer.repeats() - repeats;
    if (failure.empty()) continue;
    ++totals.failures;
    std::printf("FAILED %s\n  reproduce: brickfs-crash store --runs 1 --seed %lu\n", failure.c_str(), run_under_way);
    std::fflush(stdout);
  }
}

}  // namespace

int explore_store(const StoreArguments& given) {
  StoreArguments arguments = given;
  if (arguments.runs == 0 && arguments.seconds == 0) arguments.runs = kDefaultRuns;
  const double begin = real_seconds();
  StoreTotals& totals = make_shared_by_processes<StoreTotals>();
  totals.failures += run_in_processes(arguments.jobs, [&](uint64_t number) { work(arguments, begin, number, totals); });
  const double seconds = real_seconds() - begin;
  std::printf("%lu runs; %lu more states were equal to one before\n", totals.runs.load(), totals.repeats.load());
  std::printf("%lu states explored, %lu failed, %.0f per second\n", totals.states.load(), totals.failures.load(),
              static_cast<double>(totals.states) / seconds);
  return totals.failures == 0 ? 0 : 1;
}

}  // namespace brickfs
