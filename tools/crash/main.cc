// SPDX-License-Identifier: Apache-2.0
// brickfs-crash: proves crash consistency state by state. docs/recovery.md, "The crash explorer".
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/crash/explore.h"
#include "tools/crash/fixed_world.h"
#include "tools/crash/kept.h"
#include "tools/crash/shared.h"
#include "tools/crash/store.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

// The harnesses for real processes are programs in Python; they are told where the others are: a build directory, or
// the prefix that all have been installed under.
int run_harness(const char* script, int argc, char** argv) {
  const std::filesystem::path tree = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  std::filesystem::path harness = tree / BRICKFS_INSTALLED_CRASH_KILL;
  if (!std::filesystem::exists(harness)) harness = BRICKFS_CRASH_KILL;
  harness /= script;
  std::vector<const char*> words = {"python3", "-B", harness.c_str(), "--build", tree.c_str()};
  words.insert(words.end(), argv + 2, argv + argc);
  words.push_back(nullptr);
  execvp(words[0], const_cast<char**>(words.data()));
  std::fprintf(stderr, "brickfs-crash: cannot run %s: %s\n", words[0], std::strerror(errno));
  return 1;
}

// The states of a mount: with the crashes of all, and with each call that fails.
CLI::App* add_explore(CLI::App& app, ExploreArguments& arguments) {
  CLI::App* explore = app.add_subcommand("explore", "builds crash states, mounts and judges each");
  CLI::App* faults = app.add_subcommand("faults", "lets each call to the brick fail in each way");
  faults->add_option("--pairs", arguments.pairs, "then so many pairs of faults for each sequence");
  explore
      ->add_option("--seeds", arguments.seeds,
                   "each sequence with so many, from --seed on: other threads are ahead each time")
      ->check(CLI::PositiveNumber);
  explore->add_option("--at-least", arguments.at_least, "fails if fewer states are explored");
  explore->add_option("--bricks", arguments.bricks, "of the set that the volume is striped over (1)")
      ->check(CLI::Range(1, 4));
  explore->add_option("--copies", arguments.copies, "of each place of the set: its map is in memory (1)")
      ->check(CLI::Range(1, 4));
  for (CLI::App* command : {explore, faults}) {
    command->add_option("--max-ops", arguments.max_ops, "all sequences of up to so many operations")
        ->check(CLI::Range(0, 6));
    command->add_option("--samples", arguments.samples, "then so many sequences of one operation more");
    command->add_option("--seconds", arguments.seconds, "ends after so long (0: when all is done)")
        ->check(CLI::NonNegativeNumber);
    command->add_option("--seed", arguments.seed, "decides order, samples, and how threads overlap");
    command->add_option("--jobs", arguments.jobs, "processes")->check(CLI::Range(1, 256));
    command->add_option("--sequence", arguments.sequence, "only this one: \"create c; append a 3000; sync\"");
    command->add_option("--failures", arguments.failures, "ends after so many sequences that fail")
        ->check(CLI::PositiveNumber);
  }
  return faults;
}

struct RunTexts {
  const char* runs;
  const char* seed;
  const char* failures;
};

// What every explorer of whole runs asks for.
template <typename Arguments>
void add_runs(CLI::App& command, Arguments& arguments, const RunTexts& texts) {
  command.add_option("--runs", arguments.runs, texts.runs);
  command.add_option("--seconds", arguments.seconds, "ends after so long (0: when all is done)")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--seed", arguments.seed, texts.seed);
  command.add_option("--jobs", arguments.jobs, "processes")->check(CLI::Range(1, 256));
  command.add_option("--failures", arguments.failures, texts.failures)->check(CLI::PositiveNumber);
}

}  // namespace
}  // namespace brickfs

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "kill") return brickfs::run_harness("__main__.py", argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "cluster") return brickfs::run_harness("cluster.py", argc, argv);
  brickfs::check_clock();
  CLI::App app("Explores the states in which crashes can leave a brickfs");
  app.set_version_flag("--version", BRICKFS_VERSION);
  app.require_subcommand(1);
  brickfs::ExploreArguments arguments;
  const CLI::App* const faults = brickfs::add_explore(app, arguments);
  brickfs::StoreArguments store_arguments;
  CLI::App* store =
      app.add_subcommand("store", "lets the brick lose power at each step, and judges what its disk has then");
  brickfs::add_runs(*store, store_arguments,
                    {.runs = "so many runs of clients (500, unless --seconds is given)",
                     .seed = "of the first run: what clients do, and how threads overlap",
                     .failures = "ends after so many runs that fail"});
  brickfs::KeptArguments kept_arguments;
  CLI::App* kept = app.add_subcommand("kept", "kills a brick behind each instruction, and judges the memory it leaves");
  brickfs::add_runs(*kept, kept_arguments,
                    {.runs = "so many histories (200, unless --seconds is given)",
                     .seed = "of the first history",
                     .failures = "ends after so many histories that fail"});
  brickfs::SharedArguments shared_arguments;
  CLI::App* shared = app.add_subcommand("shared", "machines with one volume, of which any may end or be cut off");
  brickfs::add_runs(*shared, shared_arguments,
                    {.runs = "so many runs (200, unless --seconds is given)",
                     .seed = "of the first run",
                     .failures = "ends after so many runs that fail"});
  shared->add_option("--at-least", shared_arguments.at_least, "fails if fewer runs are made");
  shared->add_flag("--verbose", shared_arguments.verbose, "says what the machines log, and what happens to them");
  app.add_subcommand("kill", "kills, stops and cuts off real processes under load (kill --help tells more)");
  app.add_subcommand("cluster",
                     "the same in a replicated set with etcd, each in a network of its own (cluster --help)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  arguments.faults = faults->parsed();
  // Buffers of a block come and go with each mount: not from the kernel each time.
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  brickfs::log::set_level(brickfs::log::Level::kOff);
  if (kept->parsed()) return brickfs::explore_kept(kept_arguments);
  if (shared->parsed()) return brickfs::explore_shared(shared_arguments);
  return store->parsed() ? brickfs::explore_store(store_arguments) : brickfs::explore(arguments);
}
