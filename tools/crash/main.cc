// SPDX-License-Identifier: Apache-2.0
// brickfs-crash: proves crash consistency state by state. docs/recovery.md, "The crash explorer".
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/support/crash_explorer.h"
#include "tools/crash/fixed_world.h"
#include "transport/base/bytes.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  size_t max_ops = 1;
  double seconds = 0;
  uint64_t seed = 1;
  std::string sequence;
  uint64_t failures = 5;
};

// For whoever sees the program abort.
char current_sequence[512];

void on_abort(int) {
  static constexpr char kText[] = "\nFAILED: aborted; reproduce: brickfs-crash explore --sequence '";
  static_cast<void>(!write(STDOUT_FILENO, kText, sizeof(kText) - 1));
  static_cast<void>(!write(STDOUT_FILENO, current_sequence, std::strlen(current_sequence)));
  static_cast<void>(!write(STDOUT_FILENO, "'\n", 2));
}

bool run(CrashExplorer& explorer, const CrashSequence& sequence, bool dense) {
  std::snprintf(current_sequence, sizeof(current_sequence), "%s", text_of(sequence).c_str());
  return explorer.run(sequence, dense);
}

// Every sequence of `length` operations once, in an order that the seed decides.
bool run_all(CrashExplorer& explorer, size_t length, uint64_t seed) {
  const CrashSequence& alphabet = crash_alphabet();
  uint64_t count = 1;
  for (size_t i = 0; i < length; ++i) count *= alphabet.size();
  // A full period of a linear congruence modulo a power of two, without those beyond the end.
  uint64_t period = 4;
  while (period < count) period *= 2;
  uint64_t at = seed % period;
  for (uint64_t done = 0; done < period; ++done) {
    at = (at * 5 + 2 * seed + 1) % period;
    if (at >= count) continue;
    CrashSequence sequence;
    for (uint64_t rest = at, i = 0; i < length; ++i, rest /= alphabet.size()) sequence.push_back(alphabet[rest % alphabet.size()]);
    if (!run(explorer, sequence, length == 1)) return false;
  }
  return true;
}

int explore(const Arguments& arguments) {
  const auto begin = Clock::now();
  ExploreOptions options;
  options.seed = arguments.seed;
  options.most_failures = arguments.failures;
  if (arguments.seconds > 0) options.until = begin + std::chrono::microseconds(static_cast<int64_t>(arguments.seconds * 1e6));
  options.on_recording = set_clock_back;
  options.report = [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  CrashExplorer explorer(options);
  uint64_t failed = 0;
  const auto progress = [&](const char* what, bool whole) {
    std::printf("%s%s: %lu states so far, %lu more were equal to one before\n", what, whole ? "" : " (cut short)", explorer.states(),
                explorer.repeats());
    std::fflush(stdout);
  };
  if (!arguments.sequence.empty()) {
    std::string why;
    const auto sequence = parse_sequence(arguments.sequence, &why);
    if (!sequence.ok()) {
      std::fprintf(stderr, "brickfs-crash: %s\n", why.c_str());
      return 2;
    }
    run(explorer, *sequence, true);
  } else {
    if (const std::string failure = explorer.explore_making(); !failure.empty()) {
      options.report("FAILED " + failure);
      ++failed;
    }
    bool more = run(explorer, {}, true);
    progress("making, mounting, unmounting", more);
    for (size_t length = 1; more && length <= arguments.max_ops; ++length) {
      more = run_all(explorer, length, arguments.seed);
      progress(("sequences of " + std::to_string(length)).c_str(), more);
    }
  }
  failed += explorer.failures();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("%lu states explored, %lu failed, %.0f per second\n", explorer.states(), failed,
              static_cast<double>(explorer.states()) / seconds);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace brickfs

int main(int argc, char** argv) {
  CLI::App app("Explores the states in which crashes can leave a brickfs");
  app.set_version_flag("--version", BRICKFS_VERSION);
  app.require_subcommand(1);
  brickfs::Arguments arguments;
  CLI::App* explore = app.add_subcommand("explore", "builds crash states, mounts and judges each");
  explore->add_option("--max-ops", arguments.max_ops, "all sequences of up to so many operations")->check(CLI::Range(0, 6));
  explore->add_option("--seconds", arguments.seconds, "ends after so long (0: when all is done)")->check(CLI::NonNegativeNumber);
  explore->add_option("--seed", arguments.seed, "decides order and samples");
  explore->add_option("--sequence", arguments.sequence, "only this one: \"create c; append a 3000; sync\"");
  explore->add_option("--failures", arguments.failures, "ends after so many sequences that fail")->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  // Buffers of a block come and go with each mount: not from the kernel each time.
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  spdlog::set_level(spdlog::level::off);
  std::signal(SIGABRT, brickfs::on_abort);
  return brickfs::explore(arguments);
}
