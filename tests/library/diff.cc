// SPDX-License-Identifier: Apache-2.0
// The same random calls through libbrickfs and, as system calls, on a directory of another file system: the same
// answers, the same trees.
//
//   library_diff SOURCE DIRECTORY SEED CALLS      exit 1: a difference, told on standard error
//
// As root, whom system calls refuse nothing either.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "fs/library/brickfs.h"

namespace {

constexpr int kSlots = 5;
constexpr uint64_t kMostOffset = 200'000;

struct Files {
  std::array<brickfs_file*, kSlots> ours{};
  std::array<int, kSlots> theirs{-1, -1, -1, -1, -1};
};

int64_t answer(int64_t result) { return result < 0 ? -errno : result; }

class Difference {
 public:
  Difference(brickfs_fs* fs, std::string root, unsigned seed) : fs_(fs), root_(std::move(root)), random_(seed) {}
  bool step(unsigned number);
  bool same_trees();
  void close_all() {
    for (int slot = 0; slot < kSlots; ++slot) close(slot);
  }

 private:
  uint64_t pick(uint64_t below) { return random_() % below; }
  std::string path();
  std::string there(const std::string& path) const { return root_ + "/" + path; }
  bool same(const char* what, int64_t ours, int64_t theirs);
  bool close(int slot);
  bool open_file();
  bool transfer();
  bool resize();
  bool name();
  bool move();
  bool attribute();
  bool extended();
  bool look();
  bool seek();
  bool copy();
  bool list();
  bool same_tree(const std::string& path);

  brickfs_fs* const fs_;
  const std::string root_;
  std::minstd_rand random_;
  Files files_;
  std::string said_;
};

bool Difference::same(const char* what, int64_t ours, int64_t theirs) {
  if (ours == theirs) return true;
  std::fprintf(stderr, "%s %s: %lld here, %lld there\n", what, said_.c_str(), static_cast<long long>(ours),
               static_cast<long long>(theirs));
  return false;
}

// Few names, so that they meet.
std::string Difference::path() {
  static const std::array<const char*, 12> names = {"a",   "b",    "c", "d",  "e",   "dir",
                                                    "sub", "link", ".", "..", "x y", "f"};
  std::string path;
  const uint64_t parts = 1 + pick(3);
  for (uint64_t i = 0; i < parts; ++i) {
    if (i > 0) path += pick(20) == 0 ? "//" : "/";
    const bool last = i + 1 == parts;
    path += names[!last && pick(3) != 0 ? 5 + pick(2) : pick(names.size())];
  }
  // Out of the other's root there is more than here.
  int depth = 0;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (part == "..") {
      if (--depth < 0) return "a";
    } else if (!part.empty() && part != ".") {
      ++depth;
    }
    at = end + 1;
  }
  if (pick(25) == 0) path += "/";
  return path;
}

bool Difference::close(int slot) {
  if (files_.ours[slot] == nullptr) return true;
  const int ours = brickfs_close(files_.ours[slot]);
  ::close(files_.theirs[slot]);
  files_.ours[slot] = nullptr;
  files_.theirs[slot] = -1;
  return same("close", ours, 0);
}

bool Difference::open_file() {
  const int slot = static_cast<int>(pick(kSlots));
  if (!close(slot)) return false;
  static const std::array<int, 3> accesses = {O_RDONLY, O_WRONLY, O_RDWR};
  int flags = accesses[pick(3)];
  for (const int flag : {O_CREAT, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_NOFOLLOW, O_DIRECTORY}) {
    if (pick(flag == O_CREAT ? 2 : 6) == 0) flags |= flag;
  }
  if ((flags & O_CREAT) != 0) flags &= ~O_DIRECTORY;  // kernels differ
  if ((flags & O_CREAT) == 0) flags &= ~O_EXCL;
  if ((flags & O_ACCMODE) == O_RDONLY) flags &= ~O_TRUNC;
  const std::string name = path();
  said_ = name + " flags " + std::to_string(flags);
  struct stat kind {};
  if (stat(there(name).c_str(), &kind) == 0 && S_ISFIFO(kind.st_mode)) return true;  // the system call would wait
  const int ours = brickfs_open(fs_, name.c_str(), flags, 0644, &files_.ours[slot]);
  if (ours != 0) files_.ours[slot] = nullptr;
  files_.theirs[slot] = open(there(name).c_str(), flags | O_CLOEXEC, 0644);
  return same("open", ours, files_.theirs[slot] < 0 ? -errno : 0);
}

bool Difference::transfer() {
  const auto slot = pick(kSlots);
  if (files_.ours[slot] == nullptr) return true;
  const uint64_t offset = pick(kMostOffset);
  std::string bytes(pick(8) == 0 ? pick(100'000) : pick(6000), '\0');
  const bool reads = pick(2) == 0;
  said_ = std::to_string(offset) + " + " + std::to_string(bytes.size());
  if (!reads) {
    for (char& byte : bytes) byte = static_cast<char>(random_());
    const int64_t theirs = answer(pwrite(files_.theirs[slot], bytes.data(), bytes.size(), static_cast<off_t>(offset)));
    return same("write", brickfs_pwrite(files_.ours[slot], bytes.data(), bytes.size(), offset), theirs);
  }
  std::string other = bytes;
  const int64_t theirs = answer(pread(files_.theirs[slot], other.data(), other.size(), static_cast<off_t>(offset)));
  if (!same("read", brickfs_pread(files_.ours[slot], bytes.data(), bytes.size(), offset), theirs)) return false;
  return same("bytes read", theirs <= 0 || bytes == other, 1);
}

bool Difference::resize() {
  const uint64_t size = pick(kMostOffset);
  if (pick(2) == 0) {
    const std::string name = path();
    said_ = name;
    return same("truncate", brickfs_truncate(fs_, name.c_str(), size),
                answer(truncate(there(name).c_str(), static_cast<off_t>(size))));
  }
  const auto slot = pick(kSlots);
  if (files_.ours[slot] == nullptr) return true;
  said_ = std::to_string(size);
  if (pick(2) == 0) {
    return same("ftruncate", brickfs_ftruncate(files_.ours[slot], size),
                answer(ftruncate(files_.theirs[slot], static_cast<off_t>(size))));
  }
  static const std::array<int, 6> modes = {0,
                                           FALLOC_FL_KEEP_SIZE,
                                           FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                           FALLOC_FL_PUNCH_HOLE,
                                           FALLOC_FL_ZERO_RANGE,
                                           FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
  const int mode = modes[pick(modes.size())];
  const uint64_t length = pick(50'000);
  said_ = std::to_string(mode) + " " + std::to_string(size) + " + " + std::to_string(length);
  struct stat kind {};
  if (fstat(files_.theirs[slot], &kind) == 0 && S_ISDIR(kind.st_mode)) return true;
  return same("fallocate", brickfs_fallocate(files_.ours[slot], mode, size, length),
              answer(fallocate(files_.theirs[slot], mode, static_cast<off_t>(size), static_cast<off_t>(length))));
}

bool Difference::name() {
  const std::string at = path();
  said_ = at;
  const char* const text = at.c_str();
  switch (pick(6)) {
    case 0:
      return same("mkdir", brickfs_mkdir(fs_, text, 0755), answer(mkdir(there(at).c_str(), 0755)));
    case 1:
      return same("rmdir", brickfs_rmdir(fs_, text), answer(rmdir(there(at).c_str())));
    case 2:
      return same("unlink", brickfs_unlink(fs_, text), answer(unlink(there(at).c_str())));
    case 3:
      return same("mknod", brickfs_mknod(fs_, text, S_IFIFO | 0600, 0),
                  answer(mknod(there(at).c_str(), S_IFIFO | 0600, 0)));
    case 4: {
      static const std::array<const char*, 5> targets = {"a", "dir", "sub/b", "dir/", "link"};
      const char* const target = targets[pick(targets.size())];
      return same("symlink", brickfs_symlink(fs_, target, text), answer(symlink(target, there(at).c_str())));
    }
    default: {
      char ours[100] = {};
      char theirs[100] = {};
      const int64_t length = answer(readlink(there(at).c_str(), theirs, 99));
      return same("readlink", brickfs_readlink(fs_, text, ours, 99), length) &&
             same("target", std::strcmp(ours, length < 0 ? "" : theirs), 0);
    }
  }
}

bool Difference::move() {
  const std::string from = path();
  const std::string to = path();
  said_ = from + " -> " + to;
  if (pick(3) == 0)
    return same("link", brickfs_link(fs_, from.c_str(), to.c_str()),
                answer(link(there(from).c_str(), there(to).c_str())));
  const auto flags = static_cast<unsigned>(pick(3));
  said_ += " flags " + std::to_string(flags);
  return same("rename", brickfs_rename(fs_, from.c_str(), to.c_str(), flags),
              answer(renameat2(AT_FDCWD, there(from).c_str(), AT_FDCWD, there(to).c_str(), flags)));
}

bool Difference::attribute() {
  const std::string at = path();
  said_ = at;
  const int follow = pick(2) == 0 ? BRICKFS_NOFOLLOW : 0;
  const int their_flags = follow != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  if (pick(3) == 0) {
    const auto mode = static_cast<mode_t>(pick(010000) & ~uint64_t{S_ISVTX});  // which guards against others
    return same("chmod", brickfs_chmod(fs_, at.c_str(), mode), answer(chmod(there(at).c_str(), mode)));
  }
  if (pick(2) == 0) {
    const uid_t uid = pick(3) == 0 ? static_cast<uid_t>(-1) : static_cast<uid_t>(pick(5));
    const gid_t gid = pick(3) == 0 ? static_cast<gid_t>(-1) : static_cast<gid_t>(pick(5));
    return same("chown", brickfs_chown(fs_, at.c_str(), uid, gid, follow),
                answer(fchownat(AT_FDCWD, there(at).c_str(), uid, gid, their_flags)));
  }
  const timespec times[2] = {{static_cast<time_t>(pick(1000)), static_cast<long>(pick(1'000'000'001))},
                             {0, pick(2) == 0 ? UTIME_OMIT : 17}};
  return same("utimens", brickfs_utimens(fs_, at.c_str(), times, follow),
              answer(utimensat(AT_FDCWD, there(at).c_str(), times, their_flags)));
}

bool Difference::extended() {
  const std::string at = path();
  const std::string key = "user.k" + std::to_string(pick(3));
  said_ = at + " " + key;
  const bool follows = pick(2) == 0;
  const int flag = follows ? 0 : BRICKFS_NOFOLLOW;
  const std::string other = there(at);
  switch (pick(3)) {
    case 0: {
      const std::string value(pick(50), 'v');
      const int how = static_cast<int>(pick(3));
      return same(
          "setxattr", brickfs_setxattr(fs_, at.c_str(), key.c_str(), value.data(), value.size(), how | flag),
          answer((follows ? setxattr : lsetxattr)(other.c_str(), key.c_str(), value.data(), value.size(), how)));
    }
    case 1: {
      char value[20];
      const size_t size = pick(2) * 20;
      return same("getxattr", brickfs_getxattr(fs_, at.c_str(), key.c_str(), value, size, flag),
                  answer((follows ? getxattr : lgetxattr)(other.c_str(), key.c_str(), value, size)));
    }
    default:
      return same("removexattr", brickfs_removexattr(fs_, at.c_str(), key.c_str(), flag),
                  answer((follows ? removexattr : lremovexattr)(other.c_str(), key.c_str())));
  }
}

// What both have to say the same of.
std::string text_of(const struct stat& stat) {
  const bool directory = S_ISDIR(stat.st_mode);
  return std::to_string(stat.st_mode) + " links " + std::to_string(stat.st_nlink) + " owner " +
         std::to_string(stat.st_uid) + ":" + std::to_string(stat.st_gid) + " size " +
         std::to_string(directory ? 0 : stat.st_size);
}

bool Difference::look() {
  const std::string at = path();
  said_ = at;
  const bool follows = pick(2) == 0;
  struct stat ours {};
  struct stat theirs {};
  const int64_t code = answer(fstatat(AT_FDCWD, there(at).c_str(), &theirs, follows ? 0 : AT_SYMLINK_NOFOLLOW));
  if (!same("stat", brickfs_stat(fs_, at.c_str(), follows ? 0 : BRICKFS_NOFOLLOW, &ours), code)) return false;
  if (code != 0) return true;
  said_ += ": " + text_of(ours) + " here, " + text_of(theirs) + " there,";
  return same("attributes", text_of(ours) == text_of(theirs), 1);
}

bool Difference::seek() {
  const auto slot = pick(kSlots);
  if (files_.ours[slot] == nullptr) return true;
  struct stat stat {};
  fstat(files_.theirs[slot], &stat);
  if (!S_ISREG(stat.st_mode)) return true;
  const uint64_t offset = pick(kMostOffset);
  said_ = std::to_string(offset);
  // File systems differ in where a hole begins, but not in where there is nothing at all.
  const int64_t theirs = answer(lseek(files_.theirs[slot], static_cast<off_t>(offset), SEEK_HOLE));
  const int64_t ours = brickfs_seek(files_.ours[slot], offset, SEEK_HOLE);
  return same("seek", ours < 0 ? ours : 0, theirs < 0 ? theirs : 0);
}

bool Difference::copy() {
  const auto from = pick(kSlots);
  const auto to = pick(kSlots);
  if (files_.ours[from] == nullptr || files_.ours[to] == nullptr) return true;
  struct stat a {};
  struct stat b {};
  fstat(files_.theirs[from], &a);
  fstat(files_.theirs[to], &b);
  if (!S_ISREG(a.st_mode) || !S_ISREG(b.st_mode)) return true;
  off_t from_offset = static_cast<off_t>(pick(kMostOffset));
  off_t to_offset = static_cast<off_t>(pick(kMostOffset));
  const uint64_t length = pick(60'000);
  said_ = std::to_string(from_offset) + " -> " + std::to_string(to_offset) + " + " + std::to_string(length);
  const int64_t ours = brickfs_copy_range(files_.ours[from], static_cast<uint64_t>(from_offset), files_.ours[to],
                                          static_cast<uint64_t>(to_offset), length);
  return same("copy", ours,
              answer(copy_file_range(files_.theirs[from], &from_offset, files_.theirs[to], &to_offset, length, 0)));
}

std::map<std::string, int> names_there(const std::string& path) {
  std::map<std::string, int> names;
  if (DIR* const dir = opendir(path.c_str())) {
    while (const dirent* const entry = readdir(dir)) names[entry->d_name] = entry->d_type;
    closedir(dir);
  }
  names.erase("lost+found");
  return names;
}

bool Difference::list() {
  const std::string at = path();
  said_ = at;
  return same_tree(at);
}

// Whatever the path means: names and types below it, contents, attributes.
bool Difference::same_tree(const std::string& path) {
  said_ = path;
  brickfs_dir* dir = nullptr;
  const int ours = brickfs_opendir(fs_, path.c_str(), &dir);
  DIR* const other = opendir(there(path).c_str());
  if (!same("opendir", ours, other == nullptr ? -errno : 0)) return false;
  if (other == nullptr) return true;
  closedir(other);
  std::map<std::string, int> names;
  brickfs_dirent entry{};
  while (brickfs_readdir(dir, &entry, nullptr) == 1) names[entry.name] = static_cast<int>(entry.type);
  brickfs_closedir(dir);
  return same("names", names == names_there(there(path)), 1);
}

std::string contents(const std::function<int64_t(char*, size_t, uint64_t)>& read) {
  std::string bytes(1 << 20, '\0');
  const int64_t length = read(bytes.data(), bytes.size(), 0);
  bytes.resize(length < 0 ? 0 : static_cast<size_t>(length));
  return bytes;
}

bool Difference::same_trees() {
  std::vector<std::string> left = {"."};
  while (!left.empty()) {
    const std::string path = left.back();
    left.pop_back();
    if (!same_tree(path)) return false;
    for (const auto& [name, type] : names_there(there(path))) {
      const std::string below = path + "/" + name;
      if (name == "." || name == "..") continue;
      if (type == DT_DIR) left.push_back(below);
      struct stat ours {};
      struct stat theirs {};
      said_ = below;
      if (!same("lstat", brickfs_stat(fs_, below.c_str(), BRICKFS_NOFOLLOW, &ours),
                answer(lstat(there(below).c_str(), &theirs))))
        return false;
      said_ += ": " + text_of(ours) + " here, " + text_of(theirs) + " there,";
      if (!same("attributes", text_of(ours) == text_of(theirs), 1)) return false;
      if (type != DT_REG) continue;
      brickfs_file* file = nullptr;
      if (!same("open", brickfs_open(fs_, below.c_str(), O_RDONLY, 0, &file), 0)) return false;
      const int fd = open(there(below).c_str(), O_RDONLY | O_CLOEXEC);
      const std::string here =
          contents([&](char* data, size_t size, uint64_t offset) { return brickfs_pread(file, data, size, offset); });
      const std::string other = contents(
          [&](char* data, size_t size, uint64_t offset) { return pread(fd, data, size, static_cast<off_t>(offset)); });
      ::close(fd);
      brickfs_close(file);
      if (!same("contents", here == other, 1)) return false;
    }
  }
  return true;
}

bool Difference::step(unsigned number) {
  bool good = true;
  switch (pick(16)) {
    case 0:
    case 1:
      good = open_file();
      break;
    case 2:
    case 3:
    case 4:
      good = transfer();
      break;
    case 5:
      good = resize();
      break;
    case 6:
    case 7:
      good = name();
      break;
    case 8:
    case 9:
      good = move();
      break;
    case 10:
      good = attribute();
      break;
    case 11:
      good = extended();
      break;
    case 12:
      good = look();
      break;
    case 13:
      good = seek();
      break;
    case 14:
      good = copy();
      break;
    default:
      good = list();
  }
  if (!good) std::fprintf(stderr, "at call %u\n", number);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  umask(022);
  brickfs_fs* fs = nullptr;
  if (brickfs_fs_open(argv[1], nullptr, &fs) != 0) {
    std::fprintf(stderr, "%s\n", brickfs_error());
    return 2;
  }
  const auto calls = static_cast<unsigned>(std::atoi(argv[4]));
  Difference difference(fs, argv[2], static_cast<unsigned>(std::atoi(argv[3])));
  bool good = true;
  for (unsigned i = 0; good && i < calls; ++i) {
    good = difference.step(i);
    if (good && i % 500 == 499) good = difference.same_trees();
  }
  good = good && difference.same_trees();
  difference.close_all();
  const int closed = brickfs_fs_close(fs);
  if (closed != 0) std::fprintf(stderr, "close: %s\n", std::strerror(-closed));
  return good && closed == 0 ? 0 : 1;
}
