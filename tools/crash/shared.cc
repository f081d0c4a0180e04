// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/shared.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "tools/crash/fibers.h"
#include "tools/crash/fixed_world.h"
#include "tools/crash/processes.h"
#include "tools/crash/shared_world.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr unsigned kSharedRunSeconds = 120;  // for one run: it hangs
constexpr std::chrono::hours kBeginning{1};  // of simulated time
constexpr uint64_t kDefaultSharedRuns = 200;

struct SharedTotals {
  std::atomic<uint64_t> runs{0};
  std::atomic<uint64_t> operations{0};
  std::atomic<uint64_t> lost{0};
  std::atomic<uint64_t> failures{0};
};

uint64_t shared_run_under_way = 0;

void say_shared_run(int signal) {
  char line[128];
  const int length =
      std::snprintf(line, sizeof(line), "\nFAILED: %s; reproduce: brickfs-crash shared --runs 1 --seed %lu\n",
                    signal == SIGALRM ? "hangs" : "aborted", shared_run_under_way);
  static_cast<void>(!write(STDOUT_FILENO, line, static_cast<size_t>(length)));
  _exit(3);
}

// What the product says, when, and on which machine.
void say_line(void*, log::Level, const char* text) {
  const auto now = std::chrono::duration<double>(fibers::now() - kBeginning);
  std::printf("%10.3f %u %s\n", now.count(), fibers::machine(), text);
  std::fflush(stdout);  // it may be the last one
}

void one_run(const SharedArguments& arguments, uint64_t seed, SharedTotals& totals) {
  shared_run_under_way = seed;
  for (const int signal : {SIGABRT, SIGALRM, SIGSEGV}) std::signal(signal, say_shared_run);
  alarm(kSharedRunSeconds);
  static constexpr log::Sink kLines{say_line, nullptr, log::Level::kInfo};
  if (arguments.verbose) log::set_sink(&kLines);
  set_random(seed);
  fibers::set_schedule(seed);
  const SharedRun run = run_shared(seed, arguments.simulated);
  ++totals.runs;
  totals.operations += run.operations;
  totals.lost += run.machines_lost;
  if (arguments.verbose) std::printf("seed %lu: %lu operations; %s\n", seed, run.operations, run.happened.c_str());
  if (run.failure.empty()) return;
  ++totals.failures;
  std::printf("FAILED %s\n  when: %s\n  reproduce: brickfs-crash shared --runs 1 --seed %lu\n", run.failure.c_str(),
              run.happened.c_str(), seed);
}

}  // namespace

int explore_shared(const SharedArguments& given) {
  SharedArguments arguments = given;
  if (arguments.runs == 0 && arguments.seconds == 0) arguments.runs = kDefaultSharedRuns;
  const double begin = real_seconds();
  SharedTotals& totals = make_shared_by_processes<SharedTotals>();
  const auto work = [&](uint64_t number) {
    for (uint64_t i = number; arguments.runs == 0 || i < arguments.runs; i += arguments.jobs) {
      if (totals.failures >= arguments.failures) return;
      if (arguments.seconds > 0 && real_seconds() >= begin + arguments.seconds) return;
      // What is dead in a run is given back with its process alone.
      totals.failures += run_in_processes(1, [&](uint64_t) { one_run(arguments, arguments.seed + i, totals); });
    }
  };
  totals.failures += run_in_processes(arguments.jobs, work);
  const double seconds = real_seconds() - begin;
  std::printf("%lu operations of programs, %lu machines lost the volume\n", totals.operations.load(),
              totals.lost.load());
  std::printf("%lu runs, %lu failed, %.1f per second\n", totals.runs.load(), totals.failures.load(),
              static_cast<double>(totals.runs.load()) / seconds);
  if (totals.runs < arguments.at_least) std::printf("too few: %lu runs at least were to be made\n", arguments.at_least);
  return totals.failures == 0 && totals.runs >= arguments.at_least ? 0 : 1;
}

}  // namespace brickfs
