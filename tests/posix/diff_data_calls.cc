// SPDX-License-Identifier: Apache-2.0
// Calls about data and locks of open files.
#include <fcntl.h>
#include <linux/falloc.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/posix/diff_call.h"

namespace brickfs::posix {
namespace {

int other_file_of(const Call& call, const Side& side) { return side.files[static_cast<size_t>(call.other_slot)]; }

Outcome with_data(Outcome outcome, const std::vector<char>& data) {
  if (outcome.result > 0) outcome.detail = digest(data.data(), static_cast<size_t>(outcome.result));
  return outcome;
}

// Three parts of one buffer, the middle one of none or few bytes.
struct Parts {
  iovec vectors[3];
  explicit Parts(std::vector<char>& data) {
    const size_t first = data.size() / 3;
    const size_t second = data.size() > 10 ? 7 : 0;
    vectors[0] = {data.data(), first};
    vectors[1] = {data.data() + first, second};
    vectors[2] = {data.data() + first + second, data.size() - first - second};
  }
};

Outcome run_read(const Call& call, Side& side) {
  std::vector<char> data(call.length);
  return with_data(outcome_of(read(file_of(call, side), data.data(), data.size())), data);
}
Outcome run_pread(const Call& call, Side& side) {
  std::vector<char> data(call.length);
  return with_data(outcome_of(pread(file_of(call, side), data.data(), data.size(), call.offset)), data);
}
Outcome run_readv(const Call& call, Side& side) {
  std::vector<char> data(call.length);
  const Parts parts(data);
  return with_data(outcome_of(readv(file_of(call, side), parts.vectors, 3)), data);
}
Outcome run_write(const Call& call, Side& side) {
  const auto data = data_for(call);
  return outcome_of(write(file_of(call, side), data.data(), data.size()));
}
Outcome run_pwrite(const Call& call, Side& side) {
  const auto data = data_for(call);
  return outcome_of(pwrite(file_of(call, side), data.data(), data.size(), call.offset));
}
Outcome run_writev(const Call& call, Side& side) {
  auto data = data_for(call);
  const Parts parts(data);
  return outcome_of(writev(file_of(call, side), parts.vectors, 3));
}
Outcome run_pwritev(const Call& call, Side& side) {
  auto data = data_for(call);
  const Parts parts(data);
  return outcome_of(pwritev2(file_of(call, side), parts.vectors, 3, call.offset, call.flags));
}

// In a directory only the offsets that it has told mean something, and they are each file system's own.
Outcome run_seek(const Call& call, Side& side) {
  struct stat stat {};
  if (fstat(file_of(call, side), &stat) == 0 && S_ISDIR(stat.st_mode)) return {};
  return outcome_of(lseek(file_of(call, side), call.offset, call.flags));
}
Outcome run_truncate(const Call& call, Side&) { return outcome_of(truncate(call.path.c_str(), call.offset)); }
Outcome run_ftruncate(const Call& call, Side& side) { return outcome_of(ftruncate(file_of(call, side), call.offset)); }
// Beyond the limit ext4 clears the set-uid bit and stamps times before it refuses.
Outcome run_fallocate(const Call& call, Side& side) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && static_cast<uint64_t>(call.offset) + call.length > limit.rlim_cur)
    return {};
  return outcome_of(fallocate(file_of(call, side), call.flags, call.offset, static_cast<off_t>(call.length)));
}
Outcome run_sync(const Call& call, Side& side) {
  if (call.flags == 2) return outcome_of(syncfs(file_of(call, side)));
  return outcome_of(call.flags == 0 ? fsync(file_of(call, side)) : fdatasync(file_of(call, side)));
}

Outcome run_copy_file_range(const Call& call, Side& side) {
  off64_t from = call.offset;
  off64_t to = call.other_offset;
  const bool placed = call.flags == 0;
  return outcome_of(copy_file_range(file_of(call, side), placed ? &from : nullptr, other_file_of(call, side),
                                    placed ? &to : nullptr, call.length, 0));
}

Outcome run_sendfile(const Call& call, Side& side) {
  off_t from = call.offset;
  return outcome_of(sendfile(other_file_of(call, side), file_of(call, side), &from, call.length));
}

Outcome run_fstat(const Call& call, Side& side) {
  struct stat stat {};
  Outcome outcome = outcome_of(fstat(file_of(call, side), &stat));
  if (outcome.result != 0) return outcome;
  char text[128];
  snprintf(text, sizeof(text), "mode %o nlink %u uid %u gid %u size %lld", stat.st_mode,
           static_cast<unsigned>(stat.st_nlink), stat.st_uid, stat.st_gid,
           S_ISDIR(stat.st_mode) ? 0LL : static_cast<long long>(stat.st_size));
  outcome.detail = text;
  return outcome;
}

// --- mappings: what is behind the last page of the file is SIGBUS

sigjmp_buf no_page;
void on_bus_error(int) { siglongjmp(no_page, 1); }

class Mapping {
 public:
  Mapping(const Call& call, int fd, int protection) {
    constexpr uint64_t kPage = 4096;
    const uint64_t start = static_cast<uint64_t>(call.offset) / kPage * kPage;
    skip_ = static_cast<uint64_t>(call.offset) - start;
    length_ = call.length + skip_;
    memory_ = static_cast<char*>(mmap(nullptr, length_, protection, MAP_SHARED, fd, static_cast<off_t>(start)));
  }
  ~Mapping() {
    if (ok()) munmap(memory_, length_);
  }
  bool ok() const { return memory_ != MAP_FAILED; }
  char* data() const { return memory_ + skip_; }
  int sync() const { return msync(memory_, length_, MS_SYNC); }

 private:
  char* memory_;
  uint64_t skip_;
  uint64_t length_;
};

// Copies, or answers EFAULT where there is no page.
Outcome copy_guarded(char* to, const char* from, size_t bytes) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = on_bus_error;
  sigaction(SIGBUS, &action, &before);
  Outcome outcome;
  if (sigsetjmp(no_page, 1) == 0) {
    std::memcpy(to, from, bytes);
  } else {
    outcome = {.result = -1, .error = EFAULT, .detail = {}};
  }
  sigaction(SIGBUS, &before, nullptr);
  return outcome;
}

Outcome run_map_read(const Call& call, Side& side) {
  const Mapping mapping(call, file_of(call, side), PROT_READ);
  if (!mapping.ok()) return outcome_of(-1);
  std::vector<char> data(call.length);
  Outcome outcome = copy_guarded(data.data(), mapping.data(), data.size());
  if (outcome.result == 0) outcome.detail = digest(data.data(), data.size());
  return outcome;
}

// With msync: of dirty pages SEEK_DATA and SEEK_HOLE know nothing over FUSE (docs/posix.md).
Outcome run_map_write(const Call& call, Side& side) {
  const Mapping mapping(call, file_of(call, side), PROT_READ | PROT_WRITE);
  if (!mapping.ok()) return outcome_of(-1);
  const auto data = data_for(call);
  Outcome outcome = copy_guarded(mapping.data(), data.data(), data.size());
  const Outcome synced = outcome_of(mapping.sync());
  return outcome.result == 0 ? synced : outcome;
}

// --- locks

Outcome run_flock(const Call& call, Side& side) { return outcome_of(flock(file_of(call, side), call.flags | LOCK_NB)); }

struct flock range_of(const Call& call, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = call.offset;
  lock.l_len = static_cast<off_t>(call.length);
  return lock;
}

Outcome run_lock(const Call& call, Side& side) {
  struct flock lock = range_of(call, static_cast<short>(call.flags));
  return outcome_of(fcntl(file_of(call, side), F_SETLK, &lock));
}
Outcome run_open_file_lock(const Call& call, Side& side) {
  struct flock lock = range_of(call, static_cast<short>(call.flags));
  return outcome_of(fcntl(file_of(call, side), F_OFD_SETLK, &lock));
}

// What another process sees of the locks: it has none of them.
Outcome run_probe_lock(const Call& call, Side& side) {
  int ends[2];
  if (pipe(ends) != 0) return outcome_of(-1);
  const pid_t child = fork();
  if (child == 0) {
    struct flock lock = range_of(call, static_cast<short>(call.flags));
    int64_t answer[4] = {fcntl(file_of(call, side), F_GETLK, &lock), 0, 0, 0};
    answer[1] = answer[0] < 0 ? errno : lock.l_type;
    if (answer[0] == 0 && lock.l_type != F_UNLCK) {
      answer[2] = lock.l_start;
      answer[3] = lock.l_len;
    }
    (void)!write(ends[1], answer, sizeof(answer));
    _exit(0);
  }
  int64_t answer[4] = {};
  (void)!read(ends[0], answer, sizeof(answer));
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  Outcome outcome{.result = answer[0], .error = answer[0] < 0 ? static_cast<int>(answer[1]) : 0, .detail = {}};
  for (int i = 1; i < 4; ++i) outcome.detail += std::to_string(answer[i]) + " ";
  return outcome;
}

std::vector<Operation> transfer_operations() {
  return {
      {"read", 5, kSlot | kLength, {}, {}, "read({f}, buffer, {l})", run_read},
      {"pread", 5, kSlot | kOffset | kLength, {}, {}, "pread({f}, buffer, {l}, {o})", run_pread},
      {"readv", 2, kSlot | kLength, {}, {}, "readv({f}, parts(buffer, {l}), 3)", run_readv},
      {"write", 9, kSlot | kLength | kSeed, {}, {}, "write({f}, data({s}, {l}), {l})", run_write},
      {"pwrite", 9, kSlot | kOffset | kLength | kSeed, {}, {}, "pwrite({f}, data({s}, {l}), {l}, {o})", run_pwrite},
      {"writev", 2, kSlot | kLength | kSeed, {}, {}, "writev({f}, parts(data({s}, {l}), {l}), 3)", run_writev},
      {"pwritev2",
       2,
       kSlot | kOffset | kLength | kSeed,
       {0, RWF_APPEND, RWF_DSYNC},
       {},
       "pwritev2({f}, parts(data({s}, {l}), {l}), 3, {o}, {F})",
       run_pwritev},
      {"lseek", 5, kSlot | kOffset, {SEEK_SET, SEEK_CUR, SEEK_END, 9}, {}, "lseek({f}, {o}, {F})", run_seek},
      {"seek_data", 3, kSlot | kOffset, {SEEK_DATA, SEEK_HOLE}, {}, "lseek({f}, {o}, {F})", run_seek},
  };
}

std::vector<Operation> layout_operations() {
  return {
      {"truncate", 4, kPath | kOffset, {}, {}, "truncate({p}, {o})", run_truncate},
      {"ftruncate", 5, kSlot | kOffset, {}, {}, "ftruncate({f}, {o})", run_ftruncate},
      {"punch",
       5,
       kSlot | kOffset | kLength,
       {FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE},
       {},
       "fallocate({f}, {F}, {o}, {l})",
       run_fallocate},
      {"preallocate",
       4,
       kSlot | kOffset | kLength,
       {0, FALLOC_FL_KEEP_SIZE},
       {},
       "fallocate({f}, {F}, {o}, {l})",
       run_fallocate,
       false,
       true},
      {"zero_range",
       3,
       kSlot | kOffset | kLength,
       {FALLOC_FL_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
        FALLOC_FL_ZERO_RANGE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
       {},
       "fallocate({f}, {F}, {o}, {l})",
       run_fallocate,
       false,
       true},
  };
}

std::vector<Operation> copy_and_map_operations() {
  return {
      {"sync", 2, kSlot, {0, 1, 2}, {}, "{F} == 2 ? syncfs({f}) : {F} == 1 ? fdatasync({f}) : fsync({f})", run_sync},
      {"copy_file_range",
       6,
       kSlot | kOtherSlot | kOffset | kOtherOffset | kLength,
       {0, 0, 1},
       {},
       "copy_file_range({f}, {F} ? 0 : at(0, {o}), {g}, {F} ? 0 : at(1, {O}), {l}, 0)",
       run_copy_file_range,
       false,
       true},
      {"sendfile",
       3,
       kSlot | kOtherSlot | kOffset | kLength,
       {},
       {},
       "sendfile({g}, {f}, at(0, {o}), {l})",
       run_sendfile,
       false,
       true},
      {"fstat", 3, kSlot, {}, {}, "fstat({f}, &st)", run_fstat},
      {"map_read", 3, kSlot | kOffset | kLength, {}, {}, "map_read({f}, {o}, {l})", run_map_read},
      {"map_write",
       4,
       kSlot | kOffset | kLength | kSeed,
       {},
       {},
       "map_write({f}, {o}, {l}, {s})",
       run_map_write,
       false,
       true},  // ext4 gives a folio its blocks, not a page
  };
}

std::vector<Operation> lock_operations() {
  return {
      {"flock", 3, kSlot, {LOCK_SH, LOCK_EX, LOCK_UN}, {}, "flock({f}, {F} | LOCK_NB)", run_flock},
      {"lock",
       2,
       kSlot | kOffset | kLength,
       {F_RDLCK, F_WRLCK, F_UNLCK},
       {},
       "lock({f}, F_SETLK, {F}, {o}, {l})",
       run_lock},
      {"open_file_lock",
       2,
       kSlot | kOffset | kLength,
       {F_RDLCK, F_WRLCK, F_UNLCK},
       {},
       "lock({f}, F_OFD_SETLK, {F}, {o}, {l})",
       run_open_file_lock},
      {"probe_lock",
       2,
       kSlot | kOffset | kLength,
       {F_RDLCK, F_WRLCK},
       {},
       "probe_lock({f}, {F}, {o}, {l})",
       run_probe_lock},
  };
}

}  // namespace

std::span<const Operation> data_operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> joined;
    for (const auto& some :
         {transfer_operations(), layout_operations(), copy_and_map_operations(), lock_operations()}) {
      joined.insert(joined.end(), some.begin(), some.end());
    }
    return joined;
  }();
  return all;
}

}  // namespace brickfs::posix
