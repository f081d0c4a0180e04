// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/kept.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "tests/support/crash_kept.h"
#include "tools/crash/fixed_world.h"
#include "tools/crash/processes.h"

namespace brickfs {
namespace {

constexpr uint64_t kDefaultHistories = 200;

struct KeptTotals {
  std::atomic<uint64_t> runs{0};
  std::atomic<uint64_t> states{0};
  std::atomic<uint64_t> failures{0};
  std::atomic<bool> cannot_step{false};
};

void explore_histories(const KeptArguments& arguments, double begin, uint64_t number, KeptTotals& totals) {
  const auto time_is_up = [&] {
    return totals.cannot_step || totals.failures >= arguments.failures ||
           (arguments.seconds > 0 && real_seconds() >= begin + arguments.seconds);
  };
  for (uint64_t i = number; (arguments.runs == 0 || i < arguments.runs) && !time_is_up(); i += arguments.jobs) {
    const uint64_t seed = arguments.seed + i;
    set_random(seed);
    KeptExplorer explorer;
    const std::string failure = explorer.run(seed);
    ++totals.runs;
    totals.states += explorer.states();
    if (explorer.cannot_step()) totals.cannot_step = true;
    if (failure.empty()) continue;
    ++totals.failures;
    std::printf("FAILED %s\n  reproduce: brickfs-crash kept --runs 1 --seed %lu\n", failure.c_str(), seed);
    std::fflush(stdout);
  }
}

}  // namespace

int explore_kept(const KeptArguments& given) {
  KeptArguments arguments = given;
  if (arguments.runs == 0 && arguments.seconds == 0) arguments.runs = kDefaultHistories;
  const double begin = real_seconds();
  KeptTotals& totals = make_shared_by_processes<KeptTotals>();
  totals.failures +=
      run_in_processes(arguments.jobs, [&](uint64_t number) { explore_histories(arguments, begin, number, totals); });
  if (totals.cannot_step) {
    std::printf("the system lets nobody be stepped (ptrace): nothing was tried\n");
    return 77;
  }
  std::printf("%lu runs\n", totals.runs.load());
  std::printf("%lu states explored, %lu failed, %.0f per second\n", totals.states.load(), totals.failures.load(),
              static_cast<double>(totals.states) / (real_seconds() - begin));
  return totals.failures == 0 ? 0 : 1;
}

}  // namespace brickfs
