// SPDX-License-Identifier: Apache-2.0
// The C library's functions that a program calls through this library when it is preloaded. Each asks for a queue first
// where one may help, and does what it always did otherwise.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <type_traits>

#include "fs/run/transfer.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

using brickfs::run::Call;
using brickfs::run::note_confined;
using brickfs::run::note_copied;
using brickfs::run::note_opened;
using brickfs::run::note_passed;
using brickfs::run::note_shared;
using brickfs::run::try_queue;
using brickfs::run::Way;

// The next library's function of that name. Found once; also before our constructors have run.
template <typename Function>
Function* find_next(Function*& known, const char* name) {
  if (known == nullptr) known = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  return known;
}
#define NEXT(type, name)                             \
  ([]() {                                            \
    static std::add_pointer_t<type> known = nullptr; \
    return find_next(known, #name);                  \
  }())

using Read = ssize_t(int, void*, size_t);
using Write = ssize_t(int, const void*, size_t);
using ReadAt = ssize_t(int, void*, size_t, off_t);
using WriteAt = ssize_t(int, const void*, size_t, off_t);
using Vector = ssize_t(int, const iovec*, int);
using VectorAt = ssize_t(int, const iovec*, int, off_t);
using VectorWith = ssize_t(int, const iovec*, int, off_t, int);
using Sync = int(int);
using Open = int(const char*, int, mode_t);
using OpenAt = int(int, const char*, int, mode_t);

template <typename Next>
ssize_t move(const Call& call, Next next) {
  if (const auto moved = try_queue(call)) {
    pthread_testcancel();  // as the system call; what was done is not lost
    if (*moved >= 0) return *moved;
    errno = static_cast<int>(-*moved);
    return -1;
  }
  return next();
}

template <typename Next>
ssize_t move(Way way, int descriptor, const void* data, size_t length, off_t offset, bool at_position, Next next) {
  const iovec part{const_cast<void*>(data), length};
  return move(Call{way, descriptor, &part, 1, true, offset, at_position}, next);
}

int opened(int descriptor) {
  if (descriptor >= 0) note_opened(descriptor);
  return descriptor;
}

int copied(int from, int descriptor) {
  if (descriptor >= 0) note_copied(from, descriptor);
  return descriptor;
}

bool has_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

mode_t mode_from(int flags, va_list& more) { return has_mode(flags) ? va_arg(more, mode_t) : 0; }

bool carries_descriptors(const msghdr* message) { return message != nullptr && message->msg_controllen > 0; }

void note_passed_by(const mmsghdr* messages, unsigned count) {
  for (unsigned i = 0; messages != nullptr && i < count; ++i) {
    if (carries_descriptors(&messages[i].msg_hdr)) note_passed();
  }
}

}  // namespace

// ---- reading and writing

EXPORTED ssize_t read(int descriptor, void* data, size_t length) {
  return move(Way::kReading, descriptor, data, length, 0, true,
              [=] { return NEXT(Read, read)(descriptor, data, length); });
}

EXPORTED ssize_t write(int descriptor, const void* data, size_t length) {
  return move(Way::kWriting, descriptor, data, length, 0, true,
              [=] { return NEXT(Write, write)(descriptor, data, length); });
}

EXPORTED ssize_t pread64(int descriptor, void* data, size_t length, off_t offset) {
  return move(Way::kReading, descriptor, data, length, offset, false,
              [=] { return NEXT(ReadAt, pread64)(descriptor, data, length, offset); });
}

EXPORTED ssize_t pread(int descriptor, void* data, size_t length, off_t offset) {
  return pread64(descriptor, data, length, offset);
}

EXPORTED ssize_t pwrite64(int descriptor, const void* data, size_t length, off_t offset) {
  return move(Way::kWriting, descriptor, data, length, offset, false,
              [=] { return NEXT(WriteAt, pwrite64)(descriptor, data, length, offset); });
}

EXPORTED ssize_t pwrite(int descriptor, const void* data, size_t length, off_t offset) {
  return pwrite64(descriptor, data, length, offset);
}

EXPORTED ssize_t readv(int descriptor, const iovec* parts, int count) {
  return move({Way::kReading, descriptor, parts, count, false, 0, true},
              [=] { return NEXT(Vector, readv)(descriptor, parts, count); });
}

EXPORTED ssize_t writev(int descriptor, const iovec* parts, int count) {
  return move({Way::kWriting, descriptor, parts, count, false, 0, true},
              [=] { return NEXT(Vector, writev)(descriptor, parts, count); });
}

EXPORTED ssize_t preadv64(int descriptor, const iovec* parts, int count, off_t offset) {
  return move({Way::kReading, descriptor, parts, count, false, offset, false},
              [=] { return NEXT(VectorAt, preadv64)(descriptor, parts, count, offset); });
}

EXPORTED ssize_t preadv(int descriptor, const iovec* parts, int count, off_t offset) {
  return preadv64(descriptor, parts, count, offset);
}

EXPORTED ssize_t pwritev64(int descriptor, const iovec* parts, int count, off_t offset) {
  return move({Way::kWriting, descriptor, parts, count, false, offset, false},
              [=] { return NEXT(VectorAt, pwritev64)(descriptor, parts, count, offset); });
}

EXPORTED ssize_t pwritev(int descriptor, const iovec* parts, int count, off_t offset) {
  return pwritev64(descriptor, parts, count, offset);
}

EXPORTED ssize_t preadv64v2(int descriptor, const iovec* parts, int count, off_t offset, int flags) {
  const auto next = [=] { return NEXT(VectorWith, preadv64v2)(descriptor, parts, count, offset, flags); };
  if (flags != 0) return next();
  return move({Way::kReading, descriptor, parts, count, false, offset, offset == -1}, next);
}

EXPORTED ssize_t preadv2(int descriptor, const iovec* parts, int count, off_t offset, int flags) {
  return preadv64v2(descriptor, parts, count, offset, flags);
}

EXPORTED ssize_t pwritev64v2(int descriptor, const iovec* parts, int count, off_t offset, int flags) {
  const auto next = [=] { return NEXT(VectorWith, pwritev64v2)(descriptor, parts, count, offset, flags); };
  if (flags != 0) return next();
  return move({Way::kWriting, descriptor, parts, count, false, offset, offset == -1}, next);
}

EXPORTED ssize_t pwritev2(int descriptor, const iovec* parts, int count, off_t offset, int flags) {
  return pwritev64v2(descriptor, parts, count, offset, flags);
}

EXPORTED int fsync(int descriptor) {
  return static_cast<int>(move({Way::kSyncing, descriptor, nullptr, 0, true, 0, false},
                               [=] { return ssize_t{NEXT(Sync, fsync)(descriptor)}; }));
}

EXPORTED int fdatasync(int descriptor) {
  return static_cast<int>(move({Way::kSyncing, descriptor, nullptr, 0, true, 0, false},
                               [=] { return ssize_t{NEXT(Sync, fdatasync)(descriptor)}; }));
}

// What programs call that were compiled with _FORTIFY_SOURCE.
EXPORTED ssize_t __read_chk(int descriptor, void* data, size_t length, size_t room) {
  if (length > room) abort();
  return read(descriptor, data, length);
}

EXPORTED ssize_t __pread_chk(int descriptor, void* data, size_t length, off_t offset, size_t room) {
  if (length > room) abort();
  return pread64(descriptor, data, length, offset);
}

EXPORTED ssize_t __pread64_chk(int descriptor, void* data, size_t length, off_t offset, size_t room) {
  return __pread_chk(descriptor, data, length, offset, room);
}

// ---- opening: nobody else has such a descriptor

EXPORTED int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_from(flags, more);
  va_end(more);
  return opened(NEXT(Open, open64)(path, flags, mode));
}

EXPORTED int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_from(flags, more);
  va_end(more);
  return opened(NEXT(Open, open)(path, flags, mode));
}

EXPORTED int openat64(int directory, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_from(flags, more);
  va_end(more);
  return opened(NEXT(OpenAt, openat64)(directory, path, flags, mode));
}

EXPORTED int openat(int directory, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_from(flags, more);
  va_end(more);
  return opened(NEXT(OpenAt, openat)(directory, path, flags, mode));
}

EXPORTED int creat64(const char* path, mode_t mode) { return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
EXPORTED int creat(const char* path, mode_t mode) { return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
EXPORTED int __open_2(const char* path, int flags) {
  if (has_mode(flags)) abort();
  return open64(path, flags);
}
EXPORTED int __open64_2(const char* path, int flags) { return __open_2(path, flags); }
EXPORTED int __openat_2(int directory, const char* path, int flags) {
  if (has_mode(flags)) abort();
  return openat64(directory, path, flags);
}
EXPORTED int __openat64_2(int directory, const char* path, int flags) { return __openat_2(directory, path, flags); }

// ---- copying: whoever had part in the one has it in the other

EXPORTED int dup(int descriptor) { return copied(descriptor, NEXT(int(int), dup)(descriptor)); }

EXPORTED int dup2(int descriptor, int to) { return copied(descriptor, NEXT(int(int, int), dup2)(descriptor, to)); }

EXPORTED int dup3(int descriptor, int to, int flags) {
  return copied(descriptor, NEXT(int(int, int, int), dup3)(descriptor, to, flags));
}

EXPORTED int fcntl64(int descriptor, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  const int answer = NEXT(int(int, int, void*), fcntl64)(descriptor, command, argument);
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(descriptor, answer) : answer;
}

EXPORTED int fcntl(int descriptor, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  return fcntl64(descriptor, command, argument);
}

// ---- descriptors that another process has from now on, too: where the C library calls no handlers of
// pthread_atfork(3)

EXPORTED pid_t _Fork() {
  note_shared();
  return NEXT(pid_t(), _Fork)();
}

// A child that has its parent's memory would change what is known of the parent's descriptors.
EXPORTED pid_t vfork() { return fork(); }

using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*,
                  char* const*);

EXPORTED int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                         const posix_spawnattr_t* attributes, char* const* words, char* const* environment) {
  note_shared();
  return NEXT(Spawn, posix_spawn)(pid, path, actions, attributes, words, environment);
}

EXPORTED int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                          const posix_spawnattr_t* attributes, char* const* words, char* const* environment) {
  note_shared();
  return NEXT(Spawn, posix_spawnp)(pid, file, actions, attributes, words, environment);
}

// Of glibc 2.39, with a descriptor in place of a process number.
EXPORTED int pidfd_spawn(int* pidfd, const char* path, const posix_spawn_file_actions_t* actions,
                         const posix_spawnattr_t* attributes, char* const* words, char* const* environment) {
  note_shared();
  auto* const next = NEXT(Spawn, pidfd_spawn);
  return next != nullptr ? next(pidfd, path, actions, attributes, words, environment) : ENOSYS;
}

EXPORTED int pidfd_spawnp(int* pidfd, const char* file, const posix_spawn_file_actions_t* actions,
                          const posix_spawnattr_t* attributes, char* const* words, char* const* environment) {
  note_shared();
  auto* const next = NEXT(Spawn, pidfd_spawnp);
  return next != nullptr ? next(pidfd, file, actions, attributes, words, environment) : ENOSYS;
}

EXPORTED int system(const char* command) {
  note_shared();
  return NEXT(int(const char*), system)(command);
}

EXPORTED FILE* popen(const char* command, const char* type) {
  note_shared();
  return NEXT(FILE * (const char*, const char*), popen)(command, type);
}

EXPORTED int clone(int (*function)(void*), void* stack, int flags, void* argument, ...) {
  va_list more;
  va_start(more, argument);
  auto* const parent_thread = va_arg(more, pid_t*);
  void* const local = va_arg(more, void*);
  auto* const child_thread = va_arg(more, pid_t*);
  va_end(more);
  note_shared();
  using Clone = int(int (*)(void*), void*, int, void*, pid_t*, void*, pid_t*);
  return NEXT(Clone, clone)(function, stack, flags, argument, parent_thread, local, child_thread);
}

EXPORTED ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  if (carries_descriptors(message)) note_passed();
  return NEXT(ssize_t(int, const msghdr*, int), sendmsg)(socket, message, flags);
}

EXPORTED int sendmmsg(int socket, mmsghdr* messages, unsigned count, int flags) {
  note_passed_by(messages, count);
  return NEXT(int(int, mmsghdr*, unsigned, int), sendmmsg)(socket, messages, count, flags);
}

EXPORTED ssize_t recvmsg(int socket, msghdr* message, int flags) {
  if (carries_descriptors(message)) note_passed();
  return NEXT(ssize_t(int, msghdr*, int), recvmsg)(socket, message, flags);
}

EXPORTED int recvmmsg(int socket, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  note_passed_by(messages, count);
  return NEXT(int(int, mmsghdr*, unsigned, int, timespec*), recvmmsg)(socket, messages, count, flags, timeout);
}

// ---- seccomp(2): what we ask the kernel for may end the process from then on

EXPORTED int prctl(int option, ...) {
  va_list more;
  va_start(more, option);
  std::array<unsigned long, 4> arguments;
  for (unsigned long& argument : arguments) argument = va_arg(more, unsigned long);
  va_end(more);
  if (option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS) note_confined();
  using Prctl = int(int, unsigned long, unsigned long, unsigned long, unsigned long);
  return NEXT(Prctl, prctl)(option, arguments[0], arguments[1], arguments[2], arguments[3]);
}
