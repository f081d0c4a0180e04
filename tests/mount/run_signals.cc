// SPDX-License-Identifier: Apache-2.0
// A program that gets signals while it reads and writes a file, to be run by brickfs-run.
//   run_signals wait FILE CALL PLACE SIGNAL  CALL (read, write, pread, pwrite) at PLACE * 64 KiB, over and over; prints
//                                            "begun", and calls once more when it has read a line: prints "did BYTES
//                                            BYTE", with the byte that is there then; or "EINTR", and exits with 43.
//                                            SIGNAL's handler prints "handled", and but for SIGINT writes 'h' there. 0:
//                                            it handles none
//   run_signals limit FILE                   writes beyond RLIMIT_FSIZE: SIGXFSZ comes once for each
//   run_signals jump FILE                    leaves calls by siglongjmp(3) from a handler; then its thread is cancelled
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

constexpr size_t kBytes = 4096;
constexpr int kEnough = 100;  // calls that bring a ring
constexpr int kJumps = 500;
alignas(4096) char buffer[kBytes];
int file = -1;
off_t place = 0;

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  if (sigaction(signal, &action, nullptr) != 0) fail("sigaction");
}

void say_handled(int signal) {
  alignas(4096) static char ours[kBytes];
  memset(ours, 'h', sizeof(ours));
  (void)!write(STDOUT_FILENO, "handled\n", 8);
  if (signal != SIGINT && pwrite(file, ours, sizeof(ours), place) != static_cast<ssize_t>(sizeof(ours))) _exit(2);
}

ssize_t call(const std::string& name) {
  if (name == "pread") return pread(file, buffer, kBytes, place);
  if (name == "pwrite") return pwrite(file, buffer, kBytes, place);
  if (lseek(file, place, SEEK_SET) != place) fail("lseek");
  return name == "read" ? read(file, buffer, kBytes) : write(file, buffer, kBytes);
}

int wait(const std::string& name, int signal) {
  memset(buffer, 'p', kBytes);
  for (int i = 0; i < kEnough; ++i) {
    if (call(name) != static_cast<ssize_t>(kBytes)) fail("a call");
  }
  if (signal != 0) handle(signal, say_handled);
  (void)!write(STDOUT_FILENO, "begun\n", 6);
  char line = 0;
  while (read(STDIN_FILENO, &line, 1) < 0) continue;
  const ssize_t moved = call(name);
  if (moved < 0 && errno == EINTR) {
    dprintf(STDOUT_FILENO, "EINTR\n");
    return 43;
  }
  if (moved < 0) fail("the call");
  if (pread(file, buffer, kBytes, place) != static_cast<ssize_t>(kBytes)) fail("a read");
  dprintf(STDOUT_FILENO, "did %zd %c\n", moved, buffer[0]);
  return 0;
}

volatile sig_atomic_t told_of_limit = 0;

void limit_files(rlim_t bytes) {
  const rlimit limit{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) fail("setrlimit");
}

int write_beyond_limit() {
  constexpr off_t kLimit = 1 << 20;
  handle(SIGXFSZ, [](int) { told_of_limit = told_of_limit + 1; });
  limit_files(kBytes);  // less than the memory of a ring
  for (int i = 0; i < kEnough; ++i) {
    if (pwrite(file, buffer, kBytes, 0) != static_cast<ssize_t>(kBytes)) fail("a write");
  }
  if (told_of_limit != 0) fail("SIGXFSZ without a write beyond the limit");
  limit_files(kLimit);
  for (int i = 0; i < 10 * kEnough; ++i) {
    if (pwrite(file, buffer, kBytes, 0) != static_cast<ssize_t>(kBytes)) fail("a write");
    if (pwrite(file, buffer, kBytes, kLimit) >= 0 || errno != EFBIG) fail("a write beyond the limit");
    if (told_of_limit == i + 1) continue;
    fprintf(stderr, "SIGXFSZ has come %d times, of %d writes\n", static_cast<int>(told_of_limit), i + 1);
    return 1;
  }
  return 0;
}

sigjmp_buf before_call;
volatile sig_atomic_t jumps = 0;
volatile bool may_jump = false;

void jump(int /*signal*/) {
  if (!may_jump) return;
  may_jump = false;
  jumps = jumps + 1;
  siglongjmp(before_call, 1);
}

void let_alarms(int how) {
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(how, &alarm, nullptr);
}

// By a ring: of what leaves a call of the kernel's the C library believes that it is still in it.
void bring_ring() {
  for (int i = 0; i < kEnough; ++i) {
    if (call("pwrite") != static_cast<ssize_t>(kBytes) || call("pread") != static_cast<ssize_t>(kBytes)) fail("a call");
  }
}

void* leave_calls(void* /*none*/) {
  bring_ring();
  let_alarms(SIG_UNBLOCK);
  static volatile unsigned round;
  while (jumps < kJumps) {
    if (sigsetjmp(before_call, 1) == 0) {
      may_jump = true;
      while (may_jump) {
        memset(buffer, 'a', kBytes);
        if (call("pwrite") != static_cast<ssize_t>(kBytes) || call("pread") != static_cast<ssize_t>(kBytes))
          fail("a call that is left");
      }
    }
    round = round + 1;
    memset(buffer, static_cast<int>('b' + round % 16), kBytes);
    if (call("pwrite") != static_cast<ssize_t>(kBytes)) fail("the write after it");
    memset(buffer, 0, kBytes);
    if (call("pread") != static_cast<ssize_t>(kBytes)) fail("the read after it");
    if (buffer[0] == static_cast<char>('b' + round % 16)) continue;
    fprintf(stderr, "a write that was left has come later\n");
    exit(1);
  }
  for (;;) (void)call("pread");
}

int leave_and_cancel() {
  handle(SIGALRM, jump);
  let_alarms(SIG_BLOCK);
  const itimerval often{.it_interval = {0, 300}, .it_value = {0, 300}};
  pthread_t thread;
  if (pthread_create(&thread, nullptr, leave_calls, nullptr) != 0 || setitimer(ITIMER_REAL, &often, nullptr) != 0)
    fail("a thread");
  while (jumps < kJumps) usleep(1'000);
  if (pthread_cancel(thread) != 0) fail("pthread_cancel");
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 5;
  void* result = nullptr;
  if ((errno = pthread_timedjoin_np(thread, &result, &until)) != 0) fail("a thread is not cancelled");
  if (result == PTHREAD_CANCELED) return 0;
  fprintf(stderr, "the thread returns %p\n", result);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  file = open(argv[2], O_RDWR | O_DIRECT | O_CLOEXEC);
  if (file < 0) fail(argv[2]);
  if (std::string(argv[1]) == "limit") return write_beyond_limit();
  if (std::string(argv[1]) == "jump") return leave_and_cancel();
  if (argc < 6) return 2;
  place = atoi(argv[4]) * off_t{65'536};
  return wait(argv[3], atoi(argv[5]));
}
