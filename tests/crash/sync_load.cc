// SPDX-License-Identifier: Apache-2.0
// A load whose every byte can be accounted for after a crash.
//
//   sync_load run DIR LOGDIR SECONDS SEED [THREADS]   works in DIR, logs in LOGDIR (not on the file system under test);
//                                                     exit 0: time is up; 3: an operation failed (what and why on
//                                                     stderr)
//   sync_load verify DIR LOGDIR crash                 what was synced is there, the rest is old or new and nothing else
//   sync_load verify DIR LOGDIR live                  what was written is there, synced or not
//
// Files consist of 4 KiB records; the bytes of a record follow from the file's generation, the record's number and its
// version. Each thread logs an intent before and the outcome after each call, into a log of its own.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kRecordBytes = 4096;
constexpr size_t kWords = kRecordBytes / sizeof(uint64_t);
constexpr uint64_t kRecordsPerFile = 96;
constexpr int kFilesPerThread = 24;
constexpr int kOperationFailed = 3;
using Record = std::array<uint64_t, kWords>;

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t word(uint64_t generation, uint64_t record, uint64_t version, size_t index) {
  return version == 0 ? 0 : mix(mix(mix(generation) + record) + (version << 16) + index);
}

Record make_record(uint64_t generation, uint64_t record, uint64_t version) {
  Record bytes;
  for (size_t i = 0; i < kWords; ++i) bytes[i] = word(generation, record, version, i);
  return bytes;
}

// ---------------------------------------------------------------------------------------------------------- the load

[[noreturn]] void fail(const std::string& what) {
  std::cerr << "sync_load: " << what << ": " << std::strerror(errno) << std::endl;
  std::_Exit(kOperationFailed);
}

class Worker {
 public:
  Worker(std::string dir, const std::string& log, uint64_t seed, int number)
      : dir_(std::move(dir)), random_(seed * 1000 + number), tag_(mix(seed * 1000 + number)) {
    log_ = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (log_ < 0) fail("cannot write the log " + log);
    if (::mkdir(dir_.c_str(), 0755) != 0 && errno != EEXIST) fail("mkdir " + dir_);
    sync_directory();
  }

  void run(std::chrono::steady_clock::time_point end) {
    while (std::chrono::steady_clock::now() < end) step();
  }

 private:
  struct File {
    uint64_t generation = 0;
    std::map<uint64_t, uint64_t> versions;
    bool exists = false;
  };

  void step() {
    const int number = static_cast<int>(random_() % kFilesPerThread);
    const std::string name = "f" + std::to_string(number);
    File& file = files_[name];
    const uint64_t dice = random_() % 100;
    if (!file.exists || dice < 8) {
      replace(name, file);
    } else if (dice < 12) {
      note("U " + name);
      if (::unlink(path(name).c_str()) != 0) fail("unlink " + name);
      note("u " + name);
      file = File();
      if (dice % 2 == 0) sync_directory();
    } else {
      modify(name, file);
    }
  }

  // The classic: write a temporary, fsync it, rename it into place.
  void replace(const std::string& name, File& file) {
    file = File{.generation = tag_ + ++generations_, .versions = {}, .exists = true};
    note("G " + name + " " + std::to_string(file.generation));
    const std::string temporary = path(name + ".tmp");
    const int fd = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) fail("create " + temporary);
    const uint64_t records = 1 + random_() % 8;
    for (uint64_t r = 0; r < records; ++r) write_record(fd, name, file, r);
    if (::fsync(fd) != 0) fail("fsync " + temporary);
    ::close(fd);
    note("R " + name);
    if (::rename(temporary.c_str(), path(name).c_str()) != 0) fail("rename " + temporary);
    note("r " + name);
    if (random_() % 2 == 0) sync_directory();
  }

  void modify(const std::string& name, File& file) {
    const int direct = random_() % 4 == 0 ? O_DIRECT : 0;
    const int fd = ::open(path(name).c_str(), O_RDWR | direct);
    if (fd < 0) fail("open " + name);
    const uint64_t writes = 1 + random_() % 6;
    for (uint64_t i = 0; i < writes; ++i) write_record(fd, name, file, random_() % kRecordsPerFile);
    if (random_() % 3 != 0) {
      if (::fsync(fd) != 0) fail("fsync " + name);
      note("S " + name);
    }
    if (::close(fd) != 0) fail("close " + name);
  }

  void write_record(int fd, const std::string& name, File& file, uint64_t record) {
    const uint64_t version = ++file.versions[record];
    const std::string what = name + " " + std::to_string(record) + " " + std::to_string(version);
    note("W " + what);
    alignas(4096) static thread_local Record bytes;
    bytes = make_record(file.generation, record, version);
    const ssize_t n = ::pwrite(fd, bytes.data(), kRecordBytes, static_cast<off_t>(record * kRecordBytes));
    if (n != static_cast<ssize_t>(kRecordBytes)) fail("write " + what);
    note("w " + what);
  }

  void sync_directory() {
    const int fd = ::open(dir_.c_str(), O_RDONLY | O_DIRECTORY);
    if (fd < 0 || ::fsync(fd) != 0) fail("fsync " + dir_);
    ::close(fd);
    note("Y");
  }

  void note(const std::string& text) {
    const std::string line = text + "\n";
    if (::write(log_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) fail("write the log");
  }

  std::string path(const std::string& name) const { return dir_ + "/" + name; }

  std::string dir_;
  std::mt19937_64 random_;
  uint64_t tag_;
  uint64_t generations_ = 0;
  int log_ = -1;
  std::map<std::string, File> files_;
};

int run(const std::string& dir, const std::string& logs, double seconds, uint64_t seed, int threads) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      const std::string name = "t" + std::to_string(seed) + "-" + std::to_string(i);
      Worker(dir + "/" + name, logs + "/" + name, seed, i).run(end);
    });
  }
  for (std::thread& worker : workers) worker.join();
  return 0;
}

// ------------------------------------------------------------------------------------------------------ verification

struct Versions {
  uint64_t synced = 0;  // at least this one
  uint64_t completed = 0;
  uint64_t intended = 0;  // at most this one
};

struct Generation {
  uint64_t id = 0;
  std::map<uint64_t, Versions> records;
};

// What may stand under one name: one of the generations, oldest first, or nothing.
struct Name {
  std::deque<Generation> candidates;
  Generation next;  // being written under the temporary name
  bool may_be_absent = true;
  bool renaming = false;
  bool unlinking = false;
};

class Verifier {
 public:
  Verifier(std::string dir, bool live) : dir_(std::move(dir)), live_(live) {}

  void replay(const std::string& log) {
    std::ifstream in(log);
    for (std::string line; std::getline(in, line);) take(line);
  }

  int check() {
    for (auto& [name, state] : names_) check_name(name, state);
    std::cout << dir_ << ": " << names_.size() << " names, " << records_ << " records checked, " << errors_
              << " wrong\n";
    return errors_;
  }

 private:
  void take(const std::string& line) {
    std::istringstream in(line);
    std::string kind, name;
    uint64_t a = 0, b = 0;
    in >> kind >> name >> a >> b;
    if (kind == "Y") return sync_names();
    Name& state = names_[name];
    switch (kind[0]) {
      case 'G':
        state.next = Generation{.id = a, .records = {}};
        writing_ = name;
        break;
      case 'W':
        current(name, state).records[a].intended = b;
        break;
      case 'w':
        current(name, state).records[a].completed = b;
        break;
      case 'S':
        settle(state.candidates.back());
        state.may_be_absent = false;
        keep_last(state);
        break;
      case 'R':
        settle(state.next);
        state.candidates.push_back(state.next);
        state.renaming = true;
        break;
      case 'r':
        state.renaming = false;
        writing_.clear();
        if (live_) {
          keep_last(state);
          state.may_be_absent = false;
        }
        break;
      case 'U':
        state.may_be_absent = true;
        state.unlinking = true;
        break;
      case 'u':
        state.unlinking = false;
        if (live_)
          state.candidates.clear();
        else
          unlinked(state);
        break;
      default:
        break;
    }
  }

  Generation& current(const std::string& name, Name& state) {
    return writing_ == name ? state.next : state.candidates.back();
  }
  static void settle(Generation& generation) {
    for (auto& [number, versions] : generation.records) versions.synced = versions.completed;
  }
  static void keep_last(Name& state) {
    while (state.candidates.size() > 1) state.candidates.pop_front();
  }
  // Not synced yet: nothing or any older generation; a later sync of the directory ends those.
  static void unlinked(Name& state) { state.candidates.push_back(Generation{}); }
  // The directory was synced: of each name only the newest state is left.
  void sync_names() {
    for (auto& [name, state] : names_) {
      if (state.candidates.empty()) continue;
      keep_last(state);
      state.may_be_absent = state.candidates.back().id == 0;
      if (state.may_be_absent) state.candidates.clear();
    }
  }

  void check_name(const std::string& name, Name& state) {
    const std::string path = dir_ + "/" + name;
    const int fd = ::open(path.c_str(), O_RDONLY);
    if (fd < 0) {
      if (errno != ENOENT) return wrong(path + ": " + std::strerror(errno));
      const bool allowed = state.may_be_absent || state.candidates.empty() || absent_candidate(state);
      if (!allowed) wrong(path + " is missing");
      return;
    }
    std::vector<uint64_t> content;
    read_all(fd, content);
    ::close(fd);
    std::string reason = "should not exist";
    for (auto candidate = state.candidates.rbegin(); candidate != state.candidates.rend(); ++candidate) {
      if (candidate->id == 0) continue;
      std::string why = compare(*candidate, content);
      if (why.empty()) return;
      if (candidate == state.candidates.rbegin()) reason = why;
    }
    wrong(path + ": " + reason);
  }

  static bool absent_candidate(const Name& state) {
    for (const Generation& candidate : state.candidates) {
      if (candidate.id == 0) return true;
    }
    return false;
  }

  void read_all(int fd, std::vector<uint64_t>& content) {
    struct stat info;
    if (::fstat(fd, &info) != 0) return;
    if (info.st_size % kRecordBytes != 0) wrong("a size of " + std::to_string(info.st_size));
    content.resize(info.st_size / sizeof(uint64_t));
    for (size_t done = 0; done < static_cast<size_t>(info.st_size);) {
      const ssize_t n =
          ::pread(fd, reinterpret_cast<char*>(content.data()) + done, info.st_size - done, static_cast<off_t>(done));
      if (n <= 0) return wrong(std::string("read: ") + std::strerror(errno));
      done += static_cast<size_t>(n);
    }
  }

  // Empty if the content can be this generation; else what speaks against it.
  std::string compare(const Generation& generation, const std::vector<uint64_t>& content) {
    const uint64_t records = content.size() / kWords;
    for (const auto& [number, versions] : generation.records) {
      const uint64_t least = live_ ? versions.completed : versions.synced;
      if (number >= records) {
        if (least > 0) return "record " + std::to_string(number) + " is behind the end";
        continue;
      }
      ++records_;
      for (size_t i = 0; i < kWords; ++i) {
        bool known = false;
        for (uint64_t v = least; v <= versions.intended && !known; ++v)
          known = content[number * kWords + i] == word(generation.id, number, v, i);
        if (!known)
          return "record " + std::to_string(number) + " word " + std::to_string(i) + " is of no version from " +
                 std::to_string(least) + " to " + std::to_string(versions.intended);
      }
    }
    for (uint64_t r = 0; r < records; ++r) {
      if (generation.records.contains(r)) continue;
      for (size_t i = 0; i < kWords; ++i) {
        if (content[r * kWords + i] != 0) return "record " + std::to_string(r) + " was never written and is not zero";
      }
    }
    return {};
  }

  void wrong(const std::string& what) {
    ++errors_;
    std::cerr << "sync_load: WRONG: " << what << std::endl;
  }

  std::string dir_;
  bool live_;
  std::string writing_;  // the name whose temporary is being written
  std::map<std::string, Name> names_;
  uint64_t records_ = 0;
  int errors_ = 0;
};

int verify(const std::string& dir, const std::string& logs, bool live) {
  DIR* listing = ::opendir(logs.c_str());
  if (listing == nullptr) fail("open " + logs);
  int errors = 0;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (name[0] == '.') continue;
    Verifier verifier(dir + "/" + name, live);
    verifier.replay(logs + "/" + name);
    errors += verifier.check();
  }
  ::closedir(listing);
  return errors == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() >= 5 && args[0] == "run") {
    return run(args[1], args[2], std::stod(args[3]), std::stoull(args[4]), args.size() > 5 ? std::stoi(args[5]) : 4);
  }
  if (args.size() == 4 && args[0] == "verify" && (args[3] == "crash" || args[3] == "live")) {
    return verify(args[1], args[2], args[3] == "live");
  }
  std::cerr << "usage: sync_load run DIR LOGDIR SECONDS SEED [THREADS] | sync_load verify DIR LOGDIR crash|live\n";
  return 2;
}
