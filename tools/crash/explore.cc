// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/explore.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/crash_explorer.h"
#include "tests/support/crash_faults.h"
#include "tools/crash/fibers.h"
#include "tools/crash/fixed_world.h"
#include "tools/crash/processes.h"

namespace brickfs {
namespace {

constexpr size_t kPhases = 8;               // making and mounting; sequences of 1, 2, ... operations; samples
constexpr unsigned kSequenceSeconds = 120;  // for one sequence: it hangs

struct Phase {
  std::atomic<uint64_t> sequences{0};
  std::atomic<uint64_t> states{0};
  std::atomic<uint64_t> repeats{0};
  std::atomic<bool> cut_short{false};
};

// What the processes have done so far; shared by them.
struct Totals {
  std::atomic<uint64_t> failures{0};
  Phase phases[kPhases];
};

std::string command_of(const ExploreArguments& arguments) {
  return "explore --bricks " + std::to_string(arguments.bricks) + " --copies " + std::to_string(arguments.copies);
}

// For whoever sees it fail, or abort.
char current_arguments[640];
uint64_t current_seed = 0;

void say_where(const char* what) {
  for (const char* text :
       {"\nFAILED: ", what, "; reproduce: brickfs-crash ", static_cast<const char*>(current_arguments), "\n"}) {
    static_cast<void>(!write(STDOUT_FILENO, text, std::strlen(text)));
  }
}

void say_and_end(int signal) {
  say_where(signal == SIGALRM ? "hangs" : signal == SIGSEGV ? "segmentation fault" : "aborted");
  _exit(3);
}

// The moment at which an operation begins: when something has happened on the brick that was not waited for.
class Disturbance {
 public:
  void set_schedule(uint64_t seed) { random_.seed(static_cast<uint32_t>(seed)); }
  void wait(fibers::Nanoseconds most) { happened_.wait(fibers::now() + most); }
  // Within a call to the brick.
  void interleave() {
    if (random_() % 4 == 0) happened_.wake_all();
    fibers::maybe_yield();
  }

 private:
  fibers::WaitList happened_;
  std::minstd_rand random_;
};
Disturbance disturbance;

// Some operations follow upon each other; the others leave time for what they set off, or for what an idle mount does,
// or begin in the midst of that.
void between_operations(uint64_t seed) {
  constexpr std::chrono::seconds kIdle{30};
  switch (seed % 8) {
    case 0:
    case 1:
      return fibers::settle();
    case 2:
      return fibers::pass(std::chrono::milliseconds(20));
    case 3:
      return fibers::pass(kIdle);
    case 4:
      return disturbance.wait(kIdle);
    case 5:
      fibers::pass(std::chrono::milliseconds(200));  // what the operation set off has ended
      return disturbance.wait(kIdle);
    default:
      return;
  }
}

// What sequences are made of. With faults one operation is done after the other: each has an answer of its own.
std::vector<CrashSequence> steps_of(const ExploreArguments& arguments) {
  std::vector<CrashSequence> steps = crash_alphabet();
  if (arguments.faults) std::erase_if(steps, has_queue);
  return steps;
}

void append(CrashSequence& sequence, const CrashSequence& step) {
  sequence.insert(sequence.end(), step.begin(), step.end());
}

// One of the processes: every so manieth sequence.
class Worker {
 public:
  Worker(const ExploreArguments& arguments, double begin, uint64_t number, Totals& totals)
      : arguments_(arguments), number_(number), totals_(totals), explorer_(options(arguments, begin, totals)) {
    if (arguments.faults) faults_.emplace(fault_options(arguments, explorer_));
  }

  void run();

 private:
  static ExploreOptions options(const ExploreArguments& arguments, double begin, Totals& totals);
  static FaultOptions fault_options(const ExploreArguments& arguments, const CrashExplorer& explorer);
  bool run(const CrashSequence& sequence, bool dense, size_t phase);
  bool run_faults(const CrashSequence& sequence);
  bool run_given();
  void making_and_mounting();
  bool all_of(size_t length);
  bool some_of(size_t length);
  // Begins or ends what counts for a phase.
  void count(size_t phase);

  const ExploreArguments& arguments_;
  const uint64_t number_;
  Totals& totals_;
  const std::vector<CrashSequence> steps_ = steps_of(arguments_);
  CrashExplorer explorer_;
  std::optional<FaultExplorer> faults_;
  uint64_t states_ = 0;
  uint64_t repeats_ = 0;
};

ExploreOptions Worker::options(const ExploreArguments& arguments, double begin, Totals& totals) {
  ExploreOptions options;
  options.seed = arguments.seed;
  options.bricks = arguments.bricks;
  options.copies = arguments.copies;
  options.time_is_up = [&arguments, begin, &totals] {
    return totals.failures >= arguments.failures ||
           (arguments.seconds > 0 && real_seconds() >= begin + arguments.seconds);
  };
  options.report = [&totals](const std::string& line) {
    ++totals.failures;
    std::printf("%s --seed %lu\n", line.c_str(), current_seed);
    std::fflush(stdout);
  };
  options.on_recording = [](uint64_t seed) {
    if (seed != 0) set_clock_back();
    fibers::set_schedule(seed);
    disturbance.set_schedule(seed);
  };
  options.interleave = [] { disturbance.interleave(); };
  options.between = between_operations;
  options.pass = [](std::chrono::milliseconds time) { fibers::pass(time); };
  return options;
}

FaultOptions Worker::fault_options(const ExploreArguments& arguments, const CrashExplorer& explorer) {
  FaultOptions options;
  options.seed = arguments.seed;
  options.pairs = arguments.pairs;
  options.on_run = [](uint64_t seed) {
    set_clock_back();
    fibers::set_schedule(seed | 1);
  };
  options.delay = [] { fibers::pass(std::chrono::seconds(5)); };
  options.time_is_up = [&explorer] { return explorer.time_is_up(); };
  return options;
}

void Worker::count(size_t phase) {
  const uint64_t states = faults_ ? faults_->runs() : explorer_.states();
  totals_.phases[phase].states += states - std::exchange(states_, states);
  totals_.phases[phase].repeats += explorer_.repeats() - std::exchange(repeats_, explorer_.repeats());
}

bool Worker::run(const CrashSequence& sequence, bool dense, size_t phase) {
  const std::string text = text_of(sequence);
  bool more = true;
  for (uint64_t i = 0; i < arguments_.seeds && more; ++i) {
    current_seed = arguments_.seed + i;
    const std::string what = faults_ ? "faults" : command_of(arguments_);
    explorer_.set_seed(current_seed);
    std::snprintf(current_arguments, sizeof(current_arguments), "%s --sequence '%s' --seed %lu", what.c_str(),
                  text.c_str(), current_seed);
    alarm(kSequenceSeconds);
    more = faults_ ? run_faults(sequence) : explorer_.run(sequence, dense);
    alarm(0);
    count(phase);
  }
  ++totals_.phases[phase].sequences;
  if (!more) totals_.phases[phase].cut_short = true;
  return more;
}

bool Worker::run_faults(const CrashSequence& sequence) {
  const std::string failure = faults_->explore(sequence);
  if (!failure.empty()) {
    ++totals_.failures;
    std::printf("FAILED [%s]: %s\n  reproduce: brickfs-crash faults --sequence '%s' --pairs %lu --seed %lu\n",
                text_of(sequence).c_str(), failure.c_str(), text_of(sequence).c_str(), arguments_.pairs,
                arguments_.seed);
    std::fflush(stdout);
  }
  return !explorer_.time_is_up();
}

// As in an enumeration; then densely.
bool Worker::run_given() {
  std::string why;
  const CrashSequence sequence = parse_sequence(arguments_.sequence, &why).value();
  const bool once = faults_ || arguments_.copies > 1;
  return run(sequence, false, 0) && (once || run(sequence, true, 0));
}

void Worker::making_and_mounting() {
  if (number_ == 0) {
    std::snprintf(current_arguments, sizeof(current_arguments), "%s --max-ops 0 --seed %lu",
                  command_of(arguments_).c_str(), arguments_.seed);
    if (const std::string failure = explorer_.explore_making(); !failure.empty()) {
      ++totals_.failures;
      std::printf("FAILED %s\n  reproduce: brickfs-crash %s --max-ops 0 --seed %lu\n", failure.c_str(),
                  command_of(arguments_).c_str(), arguments_.seed);
      std::fflush(stdout);
    }
    count(0);
  }
  if (number_ == arguments_.jobs - 1) run({}, true, 0);
}

// Every sequence of `length` operations once, in an order that the seed decides.
bool Worker::all_of(size_t length) {
  uint64_t count = 1;
  for (size_t i = 0; i < length; ++i) count *= steps_.size();
  // A full period of a linear congruence modulo a power of two, without those beyond the end.
  uint64_t period = 4;
  while (period < count) period *= 2;
  uint64_t at = arguments_.seed % period;
  uint64_t turn = 0;
  for (uint64_t done = 0; done < period; ++done) {
    at = (at * 5 + 2 * arguments_.seed + 1) % period;
    if (at >= count || turn++ % arguments_.jobs != number_) continue;
    CrashSequence sequence;
    for (uint64_t rest = at, i = 0; i < length; ++i, rest /= steps_.size())
      append(sequence, steps_[rest % steps_.size()]);
    if (!run(sequence, length == 1, length)) return false;
  }
  return true;
}

bool Worker::some_of(size_t length) {
  std::mt19937_64 random(arguments_.seed);
  for (uint64_t i = 0; i < arguments_.samples; ++i) {
    CrashSequence sequence;
    for (size_t j = 0; j < length; ++j) append(sequence, steps_[random() % steps_.size()]);
    if (i % arguments_.jobs == number_ && !run(sequence, false, length)) return false;
  }
  return true;
}

void Worker::run() {
  for (const int signal : {SIGABRT, SIGALRM, SIGSEGV}) std::signal(signal, say_and_end);
  if (!arguments_.sequence.empty()) {
    run_given();
    return;
  }
  if (!faults_) making_and_mounting();
  bool more = !explorer_.time_is_up();
  for (size_t length = 1; more && length <= arguments_.max_ops; ++length) more = all_of(length);
  if (more) some_of(arguments_.max_ops + 1);
}

// --- all of them

void print_phase(const char* what, const Phase& phase, uint64_t of) {
  if (phase.states == 0) return;
  std::printf("%-30s %6lu", what, phase.sequences.load());
  if (of > 0) std::printf(" of %lu", of);
  std::printf(" sequences, %lu%s; %lu more were equal to one before\n", phase.states.load(),
              phase.cut_short ? " (cut short)" : "", phase.repeats.load());
}

int print_totals(const ExploreArguments& arguments, const Totals& totals, double seconds) {
  uint64_t states = 0;
  uint64_t of = 1;
  for (size_t i = 0; i < kPhases; ++i, of *= steps_of(arguments).size()) {
    states += totals.phases[i].states;
    const std::string what = i == 0 && arguments.sequence.empty() ? "making, mounting, unmounting"
                             : i == 0                             ? "given"
                                                                  : "sequences of " + std::to_string(i);
    print_phase(what.c_str(), totals.phases[i], i == 0 ? 0 : of);
  }
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const double busy = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                      static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  const char* const what = arguments.faults ? "runs with faults" : "states explored";
  std::printf("%lu processes, %.0f per second of processor time (%.1f s in all)\n", arguments.jobs,
              static_cast<double>(states) / busy, busy);
  std::printf("%lu %s, %lu failed, %.0f per second\n", states, what, totals.failures.load(),
              static_cast<double>(states) / seconds);
  if (states < arguments.at_least)
    std::printf("too few: %lu states at least were to be explored\n", arguments.at_least);
  return totals.failures == 0 && states >= arguments.at_least ? 0 : 1;
}

}  // namespace

int explore(const ExploreArguments& given) {
  ExploreArguments arguments = given;
  std::string why;
  const auto sequence = parse_sequence(arguments.sequence, &why);
  if (sequence.ok() && arguments.faults && has_queue(*sequence)) why = "no requests of a queue with faults";
  if (!why.empty()) {
    std::fprintf(stderr, "brickfs-crash: %s\n", why.c_str());
    return 2;
  }
  if (arguments.copies > 1 && arguments.copies > arguments.bricks) {
    std::fprintf(stderr, "brickfs-crash: as many bricks as copies, at least\n");
    return 2;
  }
  if (!arguments.sequence.empty()) arguments.jobs = 1;
  const double begin = real_seconds();
  Totals& totals = make_shared_by_processes<Totals>();
  const auto work = [&](uint64_t number) { Worker(arguments, begin, number, totals).run(); };
  totals.failures += run_in_processes(arguments.jobs, work);
  return print_totals(arguments, totals, real_seconds() - begin);
}

}  // namespace brickfs
