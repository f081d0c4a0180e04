// SPDX-License-Identifier: Apache-2.0
// posix_diff: random system calls in lockstep on two directories, on two file systems. Every call has to have the same
// result, errno and data on both, and the trees have to be equal now and then. A difference is shrunk to the few calls
// that show it, and printed as a C program. Exit 0: no difference; 1: one; 2: it could not run. As root.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>

#include "tests/posix/diff_call.h"
#include "tests/posix/diff_machines.h"

namespace brickfs::posix {
namespace {

struct Settings {
  std::string tested;
  std::string also;  // the same volume on another machine: every second call is made there
  std::string reference;
  uint64_t seed = 1;
  uint64_t calls = 10000;
  uint64_t episode = 300;    // calls, before it begins again with empty directories
  uint64_t look_every = 60;  // calls, at the whole trees
  unsigned processes = 1;
  unsigned seconds = 0;  // 0: by the number of calls
  std::vector<std::string> without;
  bool shrinks = true;
};

struct Difference {
  size_t calls = 0;                      // made up to it
  const Operation* operation = nullptr;  // that showed it; null: the trees did
  std::string text;
};

std::string text_of(const Outcome& outcome) {
  return std::to_string(outcome.result) + " errno " + std::to_string(outcome.error) +
         (outcome.error != 0 ? std::string(" (") + strerrorname_np(outcome.error) + ")" : "") +
         (outcome.detail.empty() ? "" : " " + outcome.detail);
}

// The lines that are not in both.
std::string difference_of(const std::string& tested, const std::string& reference) {
  const auto lines_of = [](const std::string& text) {
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  };
  const auto one = lines_of(tested);
  const auto other = lines_of(reference);
  std::string text;
  for (const auto& line : one) {
    if (std::find(other.begin(), other.end(), line) == other.end()) text += "  tested    " + line + "\n";
  }
  for (const auto& line : other) {
    if (std::find(one.begin(), one.end(), line) == one.end()) text += "  reference " + line + "\n";
  }
  return text;
}

// Two empty directories, and calls on both.
class Episode {
 public:
  Episode(const Settings& settings, unsigned process, const Profile& profile) : profile_(profile) {
    const std::string name = "/posix_diff." + std::to_string(getpid()) + "." + std::to_string(process);
    Process::get().reset();
    std::vector<std::string> paths{settings.tested + name};
    if (!settings.also.empty()) paths.push_back(settings.also + name);
    tested_.emplace(paths);
    reference_.emplace(std::vector<std::string>{settings.reference + name});
  }

  std::optional<std::string> make(const Call& call) {
    if (call.operation->of_process) {
      Side none;
      call.operation->run(call, none);
      return std::nullopt;
    }
    if (call.times) Process::let_clock_tick();
    const Outcome tested = tested_->make(call);
    const Outcome reference = reference_->make(call);
    if (tested == reference) {
      if (tested.result == 0 && (call.operation->fields & kMakes) != 0) note(call);
      return std::nullopt;
    }
    return "  tested    " + text_of(tested) + "\n  reference " + text_of(reference) + "\n";
  }

  // The whole trees.
  std::optional<std::string> look() {
    Process::get().leave_tree();
    const std::string reference = describe_tree(reference_->root(0), profile_.strict_holes);
    hints_.paths.clear();
    for (size_t at = 0; at < reference.size(); at = reference.find('\n', at) + 1) {
      const std::string path = reference.substr(at, reference.find('\t', at) - at);
      if (path.size() > 2) hints_.paths.push_back(path.substr(2));
    }
    for (size_t machine = 0; machine < tested_->count(); ++machine) {
      const std::string tested = describe_tree(tested_->root(machine), profile_.strict_holes);
      if (tested != reference) return difference_of(tested, reference);
    }
    return std::nullopt;
  }
  const Hints& hints() const { return hints_; }

 private:
  void note(const Call& call) {
    const std::string& path = (call.operation->fields & kOtherPath) != 0 ? call.other_path : call.path;
    if (path.size() < 100) hints_.paths.push_back(path);
  }

  const Profile profile_;
  std::optional<Machines> tested_;
  std::optional<Machines> reference_;  // one
  Hints hints_;
};

// The same calls again on empty directories.
std::optional<Difference> replay(const Settings& settings, unsigned process, const Profile& profile,
                                 std::span<const Call> calls) {
  Episode episode(settings, process, profile);
  for (size_t i = 0; i < calls.size(); ++i) {
    if (auto text = episode.make(calls[i])) return Difference{i + 1, calls[i].operation, *text};
  }
  if (auto text = episode.look()) return Difference{calls.size(), nullptr, *text};
  return std::nullopt;
}

// Leaves out what is not needed: halves, quarters ... single calls, until nothing more can go. The difference stays one
// of the same operation, or of trees.
std::vector<Call> shrink(const Settings& settings, unsigned process, const Profile& profile, std::vector<Call> calls,
                         const Operation* operation, std::string& text) {
  for (size_t part = std::max<size_t>(calls.size() / 2, 1);; part = part > 1 ? part / 2 : 1) {
    bool smaller = false;
    for (size_t at = 0; at < calls.size();) {
      std::vector<Call> fewer(calls.begin(), calls.begin() + static_cast<ssize_t>(at));
      fewer.insert(fewer.end(), calls.begin() + static_cast<ssize_t>(std::min(at + part, calls.size())), calls.end());
      const auto difference = replay(settings, process, profile, fewer);
      if (!difference || difference->operation != operation) {
        at += part;
        continue;
      }
      fewer.resize(difference->calls);
      calls = std::move(fewer);
      text = difference->text;
      smaller = true;
    }
    if (part == 1 && !smaller) return calls;
  }
}

void report(const Settings& settings, unsigned process, const Profile& profile, uint64_t seed, std::vector<Call> calls,
            std::string text) {
  Process::get().reset();
  printf("posix_diff: a difference, seed %llu, %zu calls\n%s", static_cast<unsigned long long>(seed), calls.size(),
         text.c_str());
  fflush(stdout);
  if (settings.shrinks) {
    const auto again = replay(settings, process, profile, calls);
    if (!again) printf("which does not come back when the calls are made again\n");
    if (again) calls = shrink(settings, process, profile, calls, again->operation, text);
  }
  Process::get().reset();
  printf("--- %zu calls show:\n%s--- as a program:\n%s", calls.size(), text.c_str(), program_of(calls).c_str());
  fflush(stdout);
}

// False: a difference.
bool run_episode(const Settings& settings, unsigned process, uint64_t seed, uint64_t length) {
  std::mt19937_64 random(seed);
  const bool holes_are_told = std::ranges::find(settings.without, "seek_data") == settings.without.end();
  const Profile profile{.strict_holes = holes_are_told && seed % 2 == 0, .without = settings.without};
  std::vector<Call> calls;
  std::optional<std::string> text;
  {
    Episode episode(settings, process, profile);
    while (!text && calls.size() < length) {
      calls.push_back(random_call(random, profile, episode.hints()));
      if (!settings.also.empty()) calls.back().turn = calls.size() % 2;
      text = episode.make(calls.back());
      if (!text && (calls.size() % settings.look_every == 0 || calls.size() == length)) text = episode.look();
    }
  }
  if (!text) return true;
  report(settings, process, profile, seed, std::move(calls), *text);
  return false;
}

// Episodes of one process, each with a seed of its own. 0, or 1 after a difference.
int run_process(const Settings& settings, unsigned process) {
  const time_t end = time(nullptr) + settings.seconds;
  uint64_t made = 0;
  for (uint64_t episode = 0; settings.seconds > 0 ? time(nullptr) < end : made < settings.calls; ++episode) {
    const uint64_t length = settings.seconds > 0 ? settings.episode : std::min(settings.episode, settings.calls - made);
    if (!run_episode(settings, process, settings.seed + process * 1'000'000 + episode, length)) return 1;
    made += length;
  }
  printf("posix_diff: %llu calls without a difference, seed %llu\n", static_cast<unsigned long long>(made),
         static_cast<unsigned long long>(settings.seed + process * 1'000'000));
  fflush(stdout);
  return 0;
}

int run_all(const Settings& settings) {
  std::vector<pid_t> children;
  for (unsigned process = 0; process < settings.processes; ++process) {
    const pid_t child = fork();
    if (child == 0) _exit(run_process(settings, process));
    children.push_back(child);
  }
  int result = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status)) fprintf(stderr, "posix_diff: a process ended by signal %d\n", WTERMSIG(status));
    result = std::max(result, WIFEXITED(status) ? WEXITSTATUS(status) : 2);
  }
  return result;
}

}  // namespace
}  // namespace brickfs::posix

int main(int argc, char** argv) {
  brickfs::posix::Settings settings;
  CLI::App app("random system calls in lockstep on two directories");
  app.add_option("tested", settings.tested)->required();
  app.add_option("reference", settings.reference)->required();
  app.add_option("--also", settings.also, "the tested volume on another machine, which makes every second call");
  app.add_option("--seed", settings.seed);
  app.add_option("--calls", settings.calls, "of each process");
  app.add_option("--episode", settings.episode, "calls before it begins again with empty directories");
  app.add_option("--look-every", settings.look_every, "calls between looks at the whole trees");
  app.add_option("--processes", settings.processes, "each in directories of its own");
  app.add_option("--seconds", settings.seconds, "so long instead of --calls");
  app.add_option("--without", settings.without, "calls that the reference does not have")->delimiter(',');
  app.add_flag("!--no-shrink", settings.shrinks);
  CLI11_PARSE(app, argc, argv);
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  return brickfs::posix::run_all(settings);
}
