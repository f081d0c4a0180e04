// SPDX-License-Identifier: Apache-2.0
// Calls as a C program: run it in an empty directory on each file system, and compare what it prints.
#include <cctype>
#include <cstdio>

#include "tests/posix/diff_call.h"

namespace brickfs::posix {
namespace {

constexpr const char* kPrologue = R"C(#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <signal.h>
#include <unistd.h>

static int file[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
static char buffer[1 << 20], bytes[1 << 20];
static struct stat st;
static struct statx stx;
static const size_t rooms[] = {0, 1, 20, 70000};
static int put(int* slot, int fd) { if (*slot >= 0) close(*slot); *slot = fd; return fd < 0 ? -1 : 0; }
static int shut(int* slot) { int fd = *slot; *slot = -1; return close(fd); }
static int reopen(int fd, int flags) { char path[64]; sprintf(path, "/proc/self/fd/%d", fd); return open(path, flags); }
static char* data(unsigned seed, size_t length) { unsigned state = seed | 1; for (size_t i = 0; i < length; ++i) { state = state * 1664525 + 1013904223; bytes[i] = state >> 24; } return bytes; }
static size_t value_bytes(unsigned seed) { static const size_t sizes[] = {0, 1, 16, 300}; return seed % 64 == 0 ? 65537 : sizes[seed % 4]; }
static off_t* at(int which, off_t offset) { static off_t offsets[2]; offsets[which] = offset; return &offsets[which]; }
static struct iovec* parts(char* from, size_t length) { static struct iovec v[3]; size_t first = length / 3, second = length > 10 ? 7 : 0;
  v[0] = (struct iovec){from, first}; v[1] = (struct iovec){from + first, second}; v[2] = (struct iovec){from + first + second, length - first - second}; return v; }
static struct timespec* times(unsigned mode, unsigned seed) { static struct timespec t[2]; t[0] = (struct timespec){1000000000 + seed % 1000, 123456789}; t[1] = (struct timespec){1100000000 + seed % 1000, 987654321};
  if (mode & 1) t[0].tv_nsec = UTIME_NOW; if (mode & 2) t[1].tv_nsec = UTIME_NOW; if (mode & 4) t[0].tv_nsec = UTIME_OMIT; if (mode & 8) t[1].tv_nsec = UTIME_OMIT; if ((mode & 0700) == 0100) t[0].tv_sec = -5; return t; }
static int lock(int fd, int command, int type, off_t start, off_t length) { struct flock l = {.l_type = type, .l_start = start, .l_len = length}; return fcntl(fd, command, &l); }
static int probe_lock(int fd, int type, off_t start, off_t length) { return lock(fd, F_GETLK, type, start, length); }
static int map_read(int fd, off_t offset, size_t length) { off_t start = offset / 4096 * 4096; char* m = mmap(0, length + (offset - start), PROT_READ, MAP_SHARED, fd, start); if (m == MAP_FAILED) return -1; memcpy(buffer, m + (offset - start), length); return munmap(m, length + (offset - start)); }
static int map_write(int fd, off_t offset, size_t length, unsigned seed) { off_t start = offset / 4096 * 4096; char* m = mmap(0, length + (offset - start), PROT_READ | PROT_WRITE, MAP_SHARED, fd, start); if (m == MAP_FAILED) return -1; memcpy(m + (offset - start), data(seed, length), length); msync(m, length + (offset - start), MS_SYNC); return munmap(m, length + (offset - start)); }
static int list(const char* path) { DIR* d = opendir(path); if (!d) return -1; int n = 0; while (readdir(d)) ++n; closedir(d); return n; }
static int set_capability(const char* path) { unsigned v[5] = {0x02000001, 1 << 13, 0, 0, 0}; return setxattr(path, "security.capability", v, sizeof(v), 0); }
static struct entry { unsigned short tag, permissions; unsigned id; } acl[8];
static unsigned state; static int some(void) { state = state * 1664525 + 1013904223; return state >> 29; }
static int set_acl(const char* path, int is_default, unsigned seed) { int n = 0; state = seed; acl[n++] = (struct entry){1, some(), -1}; unsigned kind = state / 7 % 8;
  if (kind == 1) acl[n++] = (struct entry){2, some(), 1000}; else if (kind != 0 && kind != 2) { int p = some(); unsigned id = state % 2 ? 1000 : 1001; acl[n++] = (struct entry){2, p, id}; }
  int named = n > 1; acl[n++] = (struct entry){4, some(), -1}; if (named && state % 3 == 0) acl[n++] = (struct entry){8, some(), 2000};
  if (named && state / 7 % 8 != 1) acl[n++] = (struct entry){0x10, some(), -1}; acl[n++] = (struct entry){0x20, some(), -1}; if (kind == 2) n = 0;
  *(unsigned*)buffer = 2; memcpy(buffer + 4, acl, n * 8); return setxattr(path, is_default ? "system.posix_acl_default" : "system.posix_acl_access", buffer, 4 + n * 8, 0); }
static int become(int user) { static const unsigned u[] = {0, 1000, 1000, 1001, 1001, 0}, g[] = {0, 1000, 1000, 1001, 2000, 2000}, groups[6][2] = {{0}, {1000}, {1000, 2000}, {1001, 2000}, {1001}, {1000}}; static const int n[] = {0, 1, 2, 2, 1, 1};
  setresuid(-1, 0, -1); setgroups(n[user], groups[user]); setresgid(-1, g[user], -1); return setresuid(-1, u[user], -1); }
static int limit(unsigned long most) { struct rlimit l = {most ? most : RLIM_INFINITY, RLIM_INFINITY}; return setrlimit(RLIMIT_FSIZE, &l); }
#define SHOW(call) do { errno = 0; long r = (long)(call); printf("%ld %s\t%s\n", r, r < 0 ? strerror(errno) : "", #call); } while (0)

int main(void) {
  signal(SIGXFSZ, SIG_IGN); chmod(".", 0777);
  if (chroot(".") != 0) perror("chroot: absolute symbolic links lead elsewhere");
)C";

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string hexadecimal(int value) {
  char text[24];
  snprintf(text, sizeof(text), value == 0 ? "%d" : "0x%x", static_cast<unsigned>(value));
  return text;
}

std::string octal(uint32_t value) {
  char text[24];
  snprintf(text, sizeof(text), "0%o", value);
  return text;
}

// {f} of a slot that a call fills is its address.
std::string value_of(char key, const Call& call, bool fills) {
  const auto file = [fills](int slot, bool filled) {
    return (fills && filled ? "&file[" : "file[") + std::to_string(slot) + "]";
  };
  switch (key) {
    case 'p':
      return quoted(call.path);
    case 'q':
      return quoted(call.other_path);
    case 'x':
      return quoted(call.name);
    case 'f':
      return file(call.slot, true);
    case 'g':
      return file(call.other_slot, false);
    case 'o':
      return std::to_string(call.offset);
    case 'O':
      return std::to_string(call.other_offset);
    case 'l':
      return std::to_string(call.length);
    case 'F':
      return hexadecimal(call.flags);
    case 'm':
      return octal(call.mode);
    case 'u':
      return std::to_string(static_cast<int>(call.uid));
    case 'G':
      return std::to_string(static_cast<int>(call.gid));
    case 's':
      return std::to_string(call.seed) + "u";
    default:
      return "?";
  }
}

std::string line_of(const Call& call) {
  const std::string text = call.operation->c_text;
  const bool fills = fills_slot(*call.operation);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_key = text[i] == '{' && i + 2 < text.size() && text[i + 2] == '}';
    out += is_key ? value_of(text[i + 1], call, fills) : std::string(1, text[i]);
    if (is_key) i += 2;
  }
  return "  SHOW(" + out + ");" + (call.turn != 0 ? "  // by the other machine" : "") +
         (call.times ? "  // and what it does to mtime and ctime" : "") + "\n";
}

}  // namespace

bool fills_slot(const Operation& operation) {
  const std::string_view text = operation.c_text;
  return text.starts_with("put(") || text.starts_with("shut(");
}

std::string program_of(std::span<const Call> calls) {
  std::string program = kPrologue;
  for (const Call& call : calls) program += line_of(call);
  return program + "}\n";
}

}  // namespace brickfs::posix
