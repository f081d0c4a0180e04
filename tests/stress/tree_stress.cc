// SPDX-License-Identifier: Apache-2.0
// tree_stress: many processes make, rename, link, remove and list the same names at once. Calls may fail, as others are
// quicker, but only with the errors that such a race explains. What has to hold meanwhile: a listing has no name twice;
// every record of a file that is appended to is whole, whatever name it is read by. And at the end: of the tokens,
// which are moved but never removed, each is there once; link counts are the number of names; ".." is where one came
// from. Exit 0: all held; 1: something did not; 2: it could not run.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr unsigned kTokens = 40;  // of each process
constexpr unsigned kRenameNoReplace = 1;
constexpr unsigned kRenameExchange = 2;

struct Settings {
  std::string directory;
  uint64_t seed = 1;
  unsigned processes = 8;
  unsigned seconds = 20;
};

[[noreturn]] void fail(const std::string& what) {
  printf("tree_stress: %s\n", what.c_str());
  fflush(stdout);
  _exit(1);
}

// A record names its file by number, and tells whether it is whole.
struct Record {
  uint64_t file;
  uint64_t writer;
  uint64_t filling[5];
  uint64_t sum;

  static uint64_t sum_of(const Record& record) {
    uint64_t sum = record.file * 0x9e3779b97f4a7c15 + record.writer;
    for (const uint64_t word : record.filling) sum = (sum ^ word) * 0x100000001b3;
    return sum;
  }
};
static_assert(sizeof(Record) == 64);

class Worker {
 public:
  Worker(const Settings& settings, unsigned number) : number_(number), random_(settings.seed * 1000 + number) {
    if (chdir(settings.directory.c_str()) != 0) fail("chdir");
    for (unsigned i = 0; i < kTokens; ++i) {
      const std::string name = "t" + std::to_string(number) + "." + std::to_string(i);
      const int fd = open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644);
      if (fd < 0) fail("a token cannot be made: " + std::string(strerror(errno)));
      close(fd);
    }
  }

  void run_until(time_t end) {
    while (time(nullptr) < end) {
      for (int i = 0; i < 50; ++i) step();
    }
    printf("   process %u: %llu calls, %llu of them in vain\n", number_, static_cast<unsigned long long>(calls_),
           static_cast<unsigned long long>(in_vain_));
    fflush(stdout);
  }

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }
  // Of three levels below the top, with few names each: meeting is likely.
  std::string directory() {
    std::string path = ".";
    for (uint64_t depth = below(4); depth > 0; --depth) path += "/d" + std::to_string(below(3));
    return path;
  }
  std::string subdirectory() { return directory() + "/d" + std::to_string(below(4)); }
  // Where that directory may be moved: not deeper than it is, or all of the tree would sink out of reach; or into
  // itself, which must fail.
  std::string target_for(const std::string& moved, bool as_deep) {
    const auto depth_of = [](const std::string& path) { return std::count(path.begin(), path.end(), '/'); };
    for (;;) {
      std::string to = subdirectory();
      const auto higher = depth_of(moved) - depth_of(to);
      if (as_deep ? higher == 0 : higher >= 0) return to;
    }
  }
  std::string file() { return directory() + "/f" + std::to_string(below(12)); }

  // True: done. Anything but the errors allowed ends it all.
  bool did(int result, const char* call, const std::string& path, std::initializer_list<int> allowed) {
    ++calls_;
    if (result >= 0) return true;
    ++in_vain_;
    const int error = errno;
    for (const int code : allowed) {
      if (error == code) return false;
    }
    fail(std::string(call) + " " + path + ": " + strerrorname_np(error));
  }

  void append() {
    const std::string path = file();
    const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_APPEND, 0644);
    if (!did(fd, "open", path, {ENOENT})) return;
    struct stat stat {};
    if (fstat(fd, &stat) != 0) fail("fstat " + path);
    std::vector<Record> records(1 + below(90));
    for (Record& record : records) {
      record = {.file = stat.st_ino, .writer = number_, .filling = {}, .sum = 0};
      for (uint64_t& word : record.filling) word = random_();
      record.sum = Record::sum_of(record);
    }
    const size_t bytes = records.size() * sizeof(Record);
    if (stat.st_size < 300'000 && write(fd, records.data(), bytes) != static_cast<ssize_t>(bytes))
      fail("write " + path + ": " + strerror(errno));
    close(fd);
  }

  void read_records() {
    const std::string path = file();
    const bool direct = below(8) == 0;
    const int fd = open(path.c_str(), O_RDONLY | (direct ? O_DIRECT : 0));
    if (!did(fd, "open", path, {ENOENT})) return;
    struct stat stat {};
    if (fstat(fd, &stat) != 0) fail("fstat " + path);
    alignas(4096) static Record records[8192];
    const ssize_t least = std::min<ssize_t>(stat.st_size, static_cast<ssize_t>(sizeof(records)));
    ssize_t got = pread(fd, records, sizeof(records), 0);
    // Over FUSE stat(2) tells of a write that is still under way, and read(2) only when it has returned: docs/posix.md
    for (int tries = 0; got >= 0 && got < least && tries < 500; ++tries) {
      usleep(20'000);
      got = pread(fd, records, sizeof(records), 0);
    }
    if (got < 0) fail("read " + path + ": " + strerror(errno));
    if (got < least)
      fail(path + ": of " + std::to_string(stat.st_size) + " bytes " + std::to_string(got) + " are read" +
           (direct ? ", directly" : ""));
    for (size_t i = 0; i < static_cast<size_t>(got) / sizeof(Record); ++i) {
      if (records[i].file == stat.st_ino && records[i].sum == Record::sum_of(records[i])) continue;
      fail("record " + std::to_string(i) + " of " + path + " is not whole, or another file's");
    }
    close(fd);
  }

  void list() {
    const std::string path = directory();
    DIR* stream = opendir(path.c_str());
    if (!did(stream == nullptr ? -1 : 0, "opendir", path, {ENOENT})) return;
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(stream)) names.emplace_back(entry->d_name);
    if (errno != 0 && errno != ENOENT) fail("readdir " + path + ": " + strerror(errno));
    closedir(stream);
    check_once(path, names);
    move_token(path, names);
  }

  // A name that was removed and made again may come twice: tokens are not made again, but moved away and back.
  void check_once(const std::string& path, const std::vector<std::string>& names) {
    std::set<std::string> seen;
    for (const std::string& name : names) {
      if (name.starts_with('.') && !seen.insert(name).second) fail(name + " twice in " + path);
    }
    if (!names.empty() && seen.size() != 2) fail("no . or .. in " + path);
  }

  void move_token(const std::string& path, const std::vector<std::string>& names) {
    std::vector<std::string> tokens;
    for (const std::string& name : names) {
      if (name.starts_with('t')) tokens.push_back(name);
    }
    if (tokens.empty()) return;
    const std::string& name = tokens[below(tokens.size())];
    const std::string to = directory() + "/" + name;
    did(renameat2(AT_FDCWD, (path + "/" + name).c_str(), AT_FDCWD, to.c_str(), kRenameNoReplace), "rename", to,
        {ENOENT, EEXIST});
  }

  void step() {
    const std::string one = file();
    const std::string other = file();
    const std::string from = subdirectory();
    switch (below(16)) {
      case 0:
      case 1:
        return append();
      case 2:
      case 3:
        return read_records();
      case 4:
      case 5:
        return list();
      case 6:
        did(rename(one.c_str(), other.c_str()), "rename", one, {ENOENT});
        return;
      case 7:
        did(link(one.c_str(), other.c_str()), "link", one, {ENOENT, EEXIST});
        return;
      case 8:
      case 9:
        did(unlink(one.c_str()), "unlink", one, {ENOENT});
        return;
      case 10:
      case 11:
        did(mkdir(from.c_str(), 0755), "mkdir", from, {ENOENT, EEXIST});
        return;
      case 12:
        did(rmdir(from.c_str()), "rmdir", from, {ENOENT, ENOTEMPTY});
        return;
      case 13:
        did(rename(from.c_str(), target_for(from, false).c_str()), "rename", from, {ENOENT, ENOTEMPTY, EINVAL});
        return;
      case 14:
        did(renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, target_for(from, true).c_str(), kRenameExchange), "exchange",
            from, {ENOENT, EINVAL});
        return;
      default:
        return touch_attributes(one);
    }
  }

  void touch_attributes(const std::string& path) {
    struct stat stat {};
    if (!did(lstat(path.c_str(), &stat), "lstat", path, {ENOENT})) return;
    if (stat.st_nlink > 500) fail(path + " has " + std::to_string(stat.st_nlink) + " links");
    did(chmod(path.c_str(), below(2) == 0 ? 0644 : 0664), "chmod", path, {ENOENT});
    did(utimensat(AT_FDCWD, path.c_str(), nullptr, 0), "utimensat", path, {ENOENT});
  }

  const unsigned number_;
  std::mt19937_64 random_;
  uint64_t calls_ = 0;
  uint64_t in_vain_ = 0;
};

// The tree when nobody changes it any more. It goes down step by step, and up again by "..", so that no depth is too
// much.
class FinalLook {
 public:
  void walk(const std::string& top) {
    if (chdir(top.c_str()) != 0) fail("chdir " + top);
    std::vector<Level> levels;
    levels.push_back(look_at_here(top, 0));
    while (!levels.empty()) {
      Level& level = levels.back();
      if (level.directories.empty()) {
        levels.pop_back();
        if (!levels.empty() && chdir("..") != 0) fail("chdir .. of " + std::to_string(levels.size()) + " levels");
        continue;
      }
      const std::string name = level.directories.back();
      level.directories.pop_back();
      if (chdir(name.c_str()) != 0) fail("chdir " + name + ": " + strerror(errno));
      levels.push_back(look_at_here(name, level.ino));
    }
  }

  void check_all(unsigned processes) const {
    for (const auto& [ino, links] : files_) {
      check(links.first == links.second, "inode " + std::to_string(ino) + " has " + std::to_string(links.second) +
                                             " names and a link count of " + std::to_string(links.first));
    }
    check(tokens_.size() == processes * kTokens, std::to_string(tokens_.size()) + " tokens are left");
    for (const auto& [name, times] : tokens_) check(times == 1, name + " is there more than once");
  }
  size_t files() const { return files_.size(); }
  size_t directories() const { return directories_.size(); }

 private:
  struct Level {
    ino_t ino = 0;
    std::vector<std::string> directories;  // still to be looked at
  };

  static void check(bool holds, const std::string& what) {
    if (!holds) fail(what);
  }

  Level look_at_here(const std::string& called, ino_t parent) {
    DIR* stream = opendir(".");
    if (stream == nullptr) fail("opendir " + called + " at the end: " + strerror(errno));
    struct stat here {};
    if (fstat(dirfd(stream), &here) != 0) fail("fstat " + called);
    if (!directories_.insert(here.st_ino).second) fail(called + " is in the tree twice");
    Level level{.ino = here.st_ino, .directories = {}};
    std::set<std::string> names;
    while (const dirent* entry = readdir(stream)) {
      const std::string name = entry->d_name;
      if (!names.insert(name).second) fail(called + "/" + name + " is listed twice");
      struct stat stat {};
      if (fstatat(dirfd(stream), name.c_str(), &stat, AT_SYMLINK_NOFOLLOW) != 0) fail("lstat " + called + "/" + name);
      if (name == "..") check(parent == 0 || stat.st_ino == parent, called + " is not where it came from");
      if (name == "." || name == "..") continue;
      check(stat.st_ino == entry->d_ino, called + "/" + name + " is listed with another inode number");
      if (S_ISDIR(stat.st_mode)) {
        level.directories.push_back(name);
        continue;
      }
      auto& [links, found] = files_[stat.st_ino];
      links = stat.st_nlink;
      ++found;
      if (name.starts_with('t')) ++tokens_[name];
    }
    check(here.st_nlink == 2 + level.directories.size(), "inode " + std::to_string(here.st_ino) + " has " +
                                                             std::to_string(here.st_nlink) + " links and " +
                                                             std::to_string(level.directories.size()) + " directories");
    closedir(stream);
    return level;
  }

  std::map<ino_t, std::pair<nlink_t, nlink_t>> files_;  // link count, names
  std::map<std::string, unsigned> tokens_;
  std::set<ino_t> directories_;
};

int run(const Settings& settings) {
  const time_t end = time(nullptr) + settings.seconds;
  std::vector<pid_t> children;
  for (unsigned number = 0; number < settings.processes; ++number) {
    const pid_t child = fork();
    if (child == 0) {
      Worker(settings, number).run_until(end);
      _exit(0);
    }
    children.push_back(child);
  }
  int result = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) result = 1;
  }
  if (result != 0) return result;
  FinalLook look;
  look.walk(settings.directory);
  look.check_all(settings.processes);
  printf("tree_stress: %zu files and %zu directories as they should be, seed %llu\n", look.files(), look.directories(),
         static_cast<unsigned long long>(settings.seed));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("many processes change and look at the same names at once");
  app.add_option("directory", settings.directory, "an empty one")->required();
  app.add_option("--seed", settings.seed);
  app.add_option("--processes", settings.processes);
  app.add_option("--seconds", settings.seconds);
  CLI11_PARSE(app, argc, argv);
  return run(settings);
}
