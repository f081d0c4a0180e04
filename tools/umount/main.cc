// SPDX-License-Identifier: Apache-2.0
// umount(8) runs this for a brickfs: umount.fuse.brickfs DIR [-nlfvr] [-N NAMESPACE] [-t TYPE].
//
// The kernel does not wait for a FUSE server when it unmounts. This does: it returns when the volume has been let go
// and all that was written is committed, or says what is not. It touches nothing of the mount by itself, so that a
// brick that is away cannot hold it: the unmount is another process's, which may have to wait until the kernel has
// written back, and brickfs tells how it goes on over a socket.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fs/mount/status/brickfs_end.h"
#include "fs/mount/status/mount_table.h"
#include "transport/base/bytes.h"
#include "transport/base/journal.h"
#include "transport/base/printable.h"
#include "transport/base/progress_bar.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kFine = 0;
constexpr int kUsage = 1;  // as umount(8)
constexpr int kFailure = 32;

constexpr milliseconds kLook{100};
constexpr seconds kAway{
    4};  // the brick, without a break: it does not come back soon (it takes up to 10 s to be found silent)
constexpr seconds kSilent{10};     // brickfs itself
constexpr seconds kStuck{13};      // nothing gets on
constexpr seconds kElsewhere{3};   // unmounted here, and the kernel has not ended the connection
constexpr seconds kMost{300};      // a brick that answers may be slow
constexpr seconds kWriteBack{15};  // with nobody to tell about the brick
constexpr seconds kForced{5};
constexpr seconds kInUse{45};  // at a shutdown, of the 90 that systemd gives

constexpr std::string_view kWaitsForEnd = "everything is committed: waiting until the brick has let the volume go";

struct Command {
  std::string directory;
  std::vector<std::string> flags;  // for umount(8)
  bool lazy = false;
  bool force = false;
};

// As umount(8) calls it.
Command parse(int argc, char** argv) {
  Command command;
  command.directory = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "-N" || word == "-t") {
      ++i;
    } else if (word.starts_with("-")) {
      command.flags.push_back(word);
      command.lazy = command.lazy || word.find('l') != word.npos;
      command.force = command.force || word.find('f') != word.npos;
    }
  }
  return command;
}

// umount(8) itself, without a helper, in a process of its own.
class Unmounting {
 public:
  Unmounting(const Command& command, std::vector<std::string> flags, bool quiet)
      : command_(command), flags_(std::move(flags)) {
    begin(quiet);
  }

  // Once more, when it has ended.
  void try_again() {
    code_.reset();
    begin(true);
  }

  // Its exit code, once it has ended.
  std::optional<int> ended() {
    if (code_) return code_;
    int status = 0;
    const pid_t found = pid_ < 0 ? pid_ : waitpid(pid_, &status, WNOHANG);
    if (found < 0) code_ = kFailure;
    if (found > 0) code_ = WIFEXITED(status) ? WEXITSTATUS(status) : kFailure;
    return code_;
  }
  std::optional<int> ended_within(milliseconds most) {
    for (const auto until = Clock::now() + most; !ended() && Clock::now() < until;) usleep(10'000);
    return ended();
  }

 private:
  void begin(bool quiet) {
    pid_ = fork();
    if (pid_ != 0) return;
    if (quiet) dup2(open("/dev/null", O_RDWR | O_CLOEXEC), STDERR_FILENO);
    std::vector<std::string> words = {"umount", "-i"};
    words.insert(words.end(), flags_.begin(), flags_.end());
    words.push_back(command_.directory);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(kFailure);
  }

  const Command& command_;
  const std::vector<std::string> flags_;
  pid_t pid_ = -1;
  std::optional<int> code_;
};

bool is_shutting_down() {
  const std::unique_ptr<FILE, int (*)(FILE*)> said(popen("systemctl is-system-running 2>/dev/null", "re"), pclose);
  std::array<char, 32> word{};
  return said && fgets(word.data(), word.size(), said.get()) != nullptr &&
         std::string_view(word.data()) == "stopping\n";
}

class Umount {
 public:
  Umount(Command command, std::string device_number)
      : command_(std::move(command)), device_number_(std::move(device_number)), brickfs_(device_number_) {}

  int run() {
    if (command_.force) return run_forced();
    Unmounting unmounting(command_, command_.flags, false);
    if (command_.lazy) return unmounting.ended_within(kWriteBack).value_or(kFine);
    return wait(unmounting);
  }

 private:
  int run_forced();
  int wait(Unmounting& unmounting);
  bool wait_for_users(Unmounting& unmounting);
  int without_brickfs(Unmounting& unmounting);
  void hear();
  void show_progress(const UmountReport& report);
  void say(const std::string& line);
  std::optional<std::string> why_not_longer();
  int conclude();
  std::string not_committed() const;
  bool is_mounted() const {
    const auto entry = find_mount_at(command_.directory);
    return entry && entry->device == device_number_;
  }

  const Command command_;
  const std::string device_number_;
  BrickfsEnd brickfs_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point heard_ = began_;
  Clock::time_point got_on_ = began_;
  std::optional<Clock::time_point> away_since_;
  std::optional<Clock::time_point> unmounted_;
  std::optional<bool> shutting_down_;
  ProgressBar bar_;
  uint64_t most_bytes_ = 0;  // that were to be committed, so far
  uint64_t most_operations_ = 0;
};

// The kernel cuts the connection off first, and leaves the mount where it is if it is in use; then it goes out of
// sight, dead.
int Umount::run_forced() {
  Unmounting cut(command_, command_.flags, true);
  (void)cut.ended_within(kWriteBack);
  int code = kFine;
  if (is_mounted()) code = Unmounting(command_, {"-l"}, false).ended_within(kWriteBack).value_or(kFine);
  if (code != kFine || is_mounted()) return code != kFine ? code : kFailure;
  brickfs_.tell(kUmountForced);
  while (!brickfs_.gone() && Clock::now() - began_ < kForced && !(brickfs_.last() && brickfs_.last()->ended))
    (void)brickfs_.hear(kLook);
  const auto& last = brickfs_.last();
  if (last && !last->uncommitted.empty()) say("not committed: " + last->uncommitted);
  return kFine;
}

int Umount::wait(Unmounting& unmounting) {
  for (;;) {
    const auto code = unmounting.ended();
    if (code && *code != kFine && !wait_for_users(unmounting)) return *code;
    if (code && *code == kFine && !find_mounts_of(device_number_).empty())
      return *code;  // made read-only instead (-r), or it has another mount
    if (code && *code == kFine && !unmounted_) unmounted_ = Clock::now();
    if (brickfs_.last() && brickfs_.last()->ended) return conclude();
    if (brickfs_.gone()) return without_brickfs(unmounting);
    hear();
    const auto why = why_not_longer();
    if (!why) continue;
    say(*why);
    return kFailure;
  }
}

// At a shutdown those who have it in use are about to end, too, and the brick may end as soon as this returns: what
// they write until then is to be kept.
bool Umount::wait_for_users(Unmounting& unmounting) {
  if (!is_mounted() || Clock::now() - began_ >= kInUse) return false;
  if (!shutting_down_) shutting_down_ = is_shutting_down();
  if (!*shutting_down_) return false;
  got_on_ = Clock::now();
  usleep(kLook / std::chrono::microseconds(1));
  unmounting.try_again();
  return true;
}

// Nobody to ask: there was none from the start, or it has been killed.
int Umount::without_brickfs(Unmounting& unmounting) {
  const auto code = unmounting.ended_within(kWriteBack);
  if (!code) {
    say("the kernel has not written everything back, and no brickfs tells why");
    return kFailure;
  }
  if (*code != kFine || !brickfs_.last()) return *code;
  say("brickfs ended before it had let the volume go" +
      (brickfs_.last()->uncommitted.empty() ? std::string() : "; not committed: " + brickfs_.last()->uncommitted));
  return kFailure;
}

void Umount::say(const std::string& line) {
  bar_.end();
  print_error(fmt::format("umount: {}: {}", command_.directory, printable(line)));
}

void Umount::hear() {
  const auto before = brickfs_.last();
  if (!brickfs_.hear(kLook)) return;
  heard_ = Clock::now();
  if (!before || before->progress != brickfs_.last()->progress) got_on_ = heard_;
  show_progress(*brickfs_.last());
}

// Of what was to be committed at most; then what is still waited for, of a brick that is there.
void Umount::show_progress(const UmountReport& report) {
  most_bytes_ = std::max(most_bytes_, report.uncommitted_bytes);
  most_operations_ = std::max(most_operations_, report.uncommitted_operations);
  if (report.uncommitted_bytes == 0 && report.uncommitted_operations == 0) {
    if (report.link == LinkState::Kind::kConnected) bar_.say(kWaitsForEnd);
  } else if (most_bytes_ >= kMiB) {
    bar_.show("MiB committed", (most_bytes_ - report.uncommitted_bytes) / kMiB, most_bytes_ / kMiB);
  } else {
    bar_.show("operations committed", most_operations_ - report.uncommitted_operations, most_operations_);
  }
}

std::optional<std::string> Umount::why_not_longer() {
  const auto now = Clock::now();
  const auto& last = brickfs_.last();
  if (now - heard_ >= kSilent) return "brickfs does not answer: what it has not committed is not known";
  if (!last) return std::nullopt;
  const bool away = last->link != LinkState::Kind::kConnected && last->link != LinkState::Kind::kFailed;
  if (!away) away_since_.reset();
  if (away && !away_since_) away_since_ = now;
  if (unmounted_ && now - *unmounted_ >= kElsewhere && last->serving) {
    return fmt::format(
        "it is mounted elsewhere, too (in another mount namespace, as containers have them): "
        "brickfs (pid {}) goes on serving it",
        last->pid);
  }
  const bool too_long = away ? now - *away_since_ >= kAway : now - began_ >= kMost;
  if (!too_long && now - got_on_ < kStuck) return std::nullopt;
  return fmt::format("{}{}: brickfs (pid {}) goes on trying for {} s", not_committed(),
                     away ? "; " + last->text : "; the brick is slow, or silent", last->pid, last->linger_seconds);
}

std::string Umount::not_committed() const {
  const std::string& what = brickfs_.last()->uncommitted;
  return what.empty() ? "everything is committed, but the volume has not been let go yet"
                      : "not committed yet: " + what;
}

// A volume that was lost or taken over has nothing to wait for: its operations have failed.
int Umount::conclude() {
  const UmountReport& last = *brickfs_.last();
  if (!last.text.empty()) say(last.text);
  return last.text.empty() || last.link == LinkState::Kind::kFailed ? kFine : kFailure;
}

int run(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: umount.fuse.brickfs DIR [-nlfvr] [-N NAMESPACE] [-t TYPE]\n");
    return kUsage;
  }
  Command command = parse(argc, argv);
  const auto entry = find_mount_at(command.directory);
  return Umount(std::move(command), entry ? entry->device : std::string()).run();
}

}  // namespace
}  // namespace brickfs

int main(int argc, char** argv) { return brickfs::run(argc, argv); }
