// SPDX-License-Identifier: Apache-2.0
#include "tests/posix/diff_machines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace brickfs::posix {
namespace {

bool is_one_of(const Call& call, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (name == call.operation->name) return true;
  }
  return false;
}

// What is neither a file nor a directory is each machine's own: bytes in a FIFO do not travel.
bool is_own(mode_t mode) { return !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode); }
bool is_own(int fd) {
  struct stat stat {};
  return fd >= 0 && fstat(fd, &stat) == 0 && is_own(stat.st_mode);
}
bool leads_to_own(const Call& call, const Side& side) {
  Process::enter(side);
  struct stat stat {};
  return ::stat(call.path.c_str(), &stat) == 0 && is_own(stat.st_mode);
}

int open_again(int fd, int flags) {
  const std::string path = "self/fd/" + std::to_string(fd);
  return openat(Process::get().proc(), path.c_str(), flags | O_NONBLOCK | O_CLOEXEC);
}

void replace(int& slot, int fd) {
  if (slot >= 0) close(slot);
  slot = fd;
}

}  // namespace

Machines::Machines(const std::vector<std::string>& paths) : paths_(paths), sides_(paths.size()) {
  umask(0);
  mkdir(paths_[0].c_str(), 0777);
  umask(022);
  for (size_t i = 0; i < sides_.size(); ++i) {
    sides_[i].files.fill(-1);
    sides_[i].root = open(paths_[i].c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (sides_[i].root >= 0) continue;
    perror(paths_[i].c_str());
    exit(2);
  }
}

Machines::~Machines() {
  Process::get().reset();
  for (const int fd : mapped_) close(fd);
  for (Side& side : sides_) {
    for (int& fd : side.files) replace(fd, -1);
  }
  remove_tree_contents(sides_[0].root);
  for (const Side& side : sides_) close(side.root);
  if (rmdir(paths_[0].c_str()) != 0) perror(paths_[0].c_str());
}

// A process's own locks are those of one machine, an open file's are those of the machine that it got with its slot.
// What cannot be opened on the other one, as it has no name or is each machine's own, is used where it is.
size_t Machines::machine_for(const Call& call) const {
  if (count() == 1 || is_one_of(call, {"lock", "probe_lock", "tmpfile"})) return 0;
  const auto slot = static_cast<size_t>(call.slot);
  const size_t wanted = (is_one_of(call, {"flock", "open_file_lock"}) ? slot : call.turn) % count();
  const bool opens = is_one_of(call, {"open"});
  if (opens && leads_to_own(call, sides_[0])) return 0;
  const unsigned fields = call.operation->fields;
  const bool uses_slot = call.times || ((fields & kSlot) != 0 && !opens && !is_one_of(call, {"reopen"}));
  const bool uses_other_slot = call.times || (fields & kOtherSlot) != 0;
  for (size_t i = 0; i < count(); ++i) {
    const size_t machine = (wanted + i) % count();
    const bool misses =
        (uses_slot && is_missing(machine, call.slot)) || (uses_other_slot && is_missing(machine, call.other_slot));
    if (!misses) return machine;
  }
  return 0;
}

// Another machine has it.
bool Machines::is_missing(size_t machine, int slot) const {
  const auto at = static_cast<size_t>(slot);
  if (sides_[machine].files[at] >= 0) return false;
  return std::any_of(sides_.begin(), sides_.end(), [at](const Side& side) { return side.files[at] >= 0; });
}

// The other machine sees what was stamped; but not a file that it has not, or not yet.
const Side& Machines::watcher_of(const Call& call, size_t machine) const {
  const Side& side = sides_[machine];
  const Side& other = sides_[(machine + 1) % count()];
  for (const int slot : {call.slot, call.other_slot}) {
    const auto at = static_cast<size_t>(slot);
    if ((side.files[at] < 0) != (other.files[at] < 0)) return side;
  }
  return fills_slot(*call.operation) ? side : other;
}

Outcome Machines::make(const Call& call) {
  const size_t machine = machine_for(call);
  Outcome outcome = run(call, machine);
  if (count() == 1) return outcome;
  if (fills_slot(*call.operation)) open_on_others(call, machine, outcome);
  if ((call.operation->fields & kSlot) != 0) move_others(call.slot, machine);
  if ((call.operation->fields & kOtherSlot) != 0) move_others(call.other_slot, machine);
  return outcome;
}

// A mapping shows what the file was when it was opened there, and RWF_APPEND goes where the file ended when this
// machine looked last (docs/shared.md).
Outcome Machines::run(const Call& call, size_t machine) {
  Side& side = sides_[machine];
  const Side& watcher = watcher_of(call, machine);
  int& file = side.files[static_cast<size_t>(call.slot)];
  int fresh = -1;
  struct stat looked {};
  if (count() > 1 && is_one_of(call, {"pwritev2"}) && call.flags == RWF_APPEND) fstat(file, &looked);
  if (count() > 1 && file >= 0 && is_one_of(call, {"map_read", "map_write"})) {
    fresh = open_again(file, fcntl(file, F_GETFL) & (O_ACCMODE | O_PATH));
  }
  if (fresh < 0) return Process::get().run(call, side, watcher);
  mapped_.push_back(fresh);
  std::swap(file, fresh);
  Outcome outcome = Process::get().run(call, side, watcher);
  std::swap(file, fresh);
  return outcome;
}

// Nothing has happened since: each machine finds the same file by the same words.
void Machines::open_on_others(const Call& call, size_t machine, Outcome& outcome) {
  const auto slot = static_cast<size_t>(call.slot);
  const int here = sides_[machine].files[slot];
  const bool by_path = is_one_of(call, {"open"});
  const bool opens = outcome.result == 0 && here >= 0 && !is_one_of(call, {"tmpfile"}) && !is_own(here);
  for (size_t i = 0; i < count(); ++i) {
    if (i == machine) continue;
    Side& side = sides_[i];
    const int flags = call.flags & ~(O_CREAT | O_EXCL | O_TRUNC);
    int fd = -1;
    if (opens && by_path) {
      Process::enter(side);
      fd = open(call.path.c_str(), flags | O_NONBLOCK | O_CLOEXEC);
    } else if (opens && side.files[static_cast<size_t>(call.other_slot)] >= 0) {
      fd = open_again(side.files[static_cast<size_t>(call.other_slot)], flags);
    }
    const int error = errno;
    replace(side.files[slot], fd);
    struct stat mine {};
    struct stat others {};
    if (fd < 0 && opens && by_path) {
      outcome.detail += std::string(" and the other machine cannot open it: ") + strerror(error);
    } else if (fd >= 0 && (fstat(here, &mine) != 0 || fstat(fd, &others) != 0 || mine.st_ino != others.st_ino)) {
      outcome.detail += " and it is another file on the other machine";
    }
  }
}

void Machines::move_others(int slot, size_t machine) {
  const int here = sides_[machine].files[static_cast<size_t>(slot)];
  struct stat stat {};
  if (here < 0 || fstat(here, &stat) != 0 || !S_ISREG(stat.st_mode)) return;
  const off_t at = lseek(here, 0, SEEK_CUR);
  for (size_t i = 0; i < count(); ++i) {
    const int there = sides_[i].files[static_cast<size_t>(slot)];
    if (i != machine && there >= 0 && at >= 0) lseek(there, at, SEEK_SET);
  }
}

}  // namespace brickfs::posix
