// SPDX-License-Identifier: Apache-2.0
// Runs a call as some user with one of the trees as root directory, and watches what it does to times.
#include <fcntl.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "tests/posix/diff_call.h"

namespace brickfs::posix {
namespace {

constexpr timespec kTwoTicks{0, 12'000'000};  // of the clock that files are stamped with

void must(bool done, const char* what) {
  if (done) return;
  perror(what);
  exit(2);
}

void be_root() { must(setresuid(-1, 0, -1) == 0 && setresgid(-1, 0, -1) == 0, "back to root"); }

void be(const User& user) {
  must(setgroups(user.groups.size(), user.groups.data()) == 0, "setgroups");
  must(setresgid(-1, user.gid, -1) == 0 && setresuid(-1, user.uid, -1) == 0, "another user");
}

std::string parent_of(const std::string& path) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const size_t slash = trimmed.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : trimmed.substr(0, slash);
}

// mtime and ctime of everything that the call may touch, but of FIFOs: writing into one stamps it, though not over
// FUSE.
class Stamps {
 public:
  Stamps(const Call& call, const Side& side) {
    if (!call.path.empty()) look_both(call.path);
    if (!call.other_path.empty()) look_both(call.other_path);
    look_at(side.files[static_cast<size_t>(call.slot)], "");
    look_at(side.files[static_cast<size_t>(call.other_slot)], "");
  }
  std::string changes_to(const Stamps& after) const {
    std::string text = " stamps";
    for (size_t i = 0; i < seen_.size() && i < after.seen_.size(); ++i) {
      if (!seen_[i] || !after.seen_[i] || seen_[i]->st_ino != after.seen_[i]->st_ino) {
        text += " -";
        continue;
      }
      text += differ(seen_[i]->st_mtim, after.seen_[i]->st_mtim) ? " m" : " .";
      text += differ(seen_[i]->st_ctim, after.seen_[i]->st_ctim) ? "c" : ".";
    }
    return text;
  }

 private:
  static bool differ(const timespec& a, const timespec& b) { return a.tv_sec != b.tv_sec || a.tv_nsec != b.tv_nsec; }
  void look_both(const std::string& path) {
    look_at(AT_FDCWD, path);
    look_at(AT_FDCWD, parent_of(path));
  }
  void look_at(int fd, const std::string& path) {
    struct stat stat {};
    const int flags = path.empty() ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW;
    const bool there =
        (fd >= 0 || !path.empty()) && fstatat(fd, path.c_str(), &stat, flags) == 0 && !S_ISFIFO(stat.st_mode);
    seen_.push_back(there ? std::optional(stat) : std::nullopt);
  }
  std::vector<std::optional<struct stat>> seen_;
};

}  // namespace

std::span<const User> users() {
  static const std::vector<User> all = {
      {0, 0, {}},           {1000, 1000, {1000}}, {1000, 1000, {1000, 2000}}, {1001, 1001, {1001, 2000}},
      {1001, 2000, {1001}}, {0, 2000, {1000}},
  };
  return all;
}

Process& Process::get() {
  static Process process;
  return process;
}

Process::Process()
    : root_(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)), proc_(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  must(root_ >= 0 && proc_ >= 0, "/proc");
}

void Process::reset() {
  be_root();
  user_ = 0;
  must(setgroups(0, nullptr) == 0, "setgroups");
  umask(022);
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  must(setrlimit(RLIMIT_FSIZE, &unlimited) == 0, "setrlimit");
  leave_tree();
}

void Process::let_clock_tick() { nanosleep(&kTwoTicks, nullptr); }

void Process::leave_tree() { must(fchdir(root_) == 0 && chroot(".") == 0, "the real root directory"); }

void Process::enter(const Side& side) { must(fchdir(side.root) == 0 && chroot(".") == 0, "chroot"); }

Outcome Process::run(const Call& call, Side& side, const Side& after) {
  enter(side);
  std::optional<Stamps> before;
  if (call.times) before.emplace(call, side);
  be(users()[user_]);
  Outcome outcome = call.operation->run(call, side);
  be_root();
  if (before && outcome.result >= 0) {
    enter(after);
    outcome.detail += before->changes_to(Stamps(call, after));
  }
  return outcome;
}

Outcome outcome_of(int64_t result) { return {.result = result, .error = result < 0 ? errno : 0, .detail = {}}; }

std::string digest(const void* bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto* data = static_cast<const unsigned char*>(bytes);
  for (size_t i = 0; i < size; ++i) hash = (hash ^ data[i]) * 0x100000001b3;
  char text[48];
  snprintf(text, sizeof(text), "%zu:%016llx", size, static_cast<unsigned long long>(hash));
  return text;
}

std::vector<char> data_for(const Call& call) {
  std::vector<char> data(call.length);
  uint32_t state = call.seed | 1;
  for (char& byte : data) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return data;
}

}  // namespace brickfs::posix
