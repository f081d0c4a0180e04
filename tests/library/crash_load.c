/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses libbrickfs and is killed: what it said was synced has to be there.
 *
 *   library_crash_load run SOURCE      writes files, one after the other; says the number of each once it was synced
 *   library_crash_load verify SOURCE LAST    all up to LAST are there, whole, and nothing else but the one being made
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/library/brickfs.h"

#define MOST 300000

static brickfs_fs* fs;

static int64_t must(int64_t code, const char* what) {
  if (code >= 0) return code;
  fprintf(stderr, "%s: %s %s\n", what, strerror((int)-code), brickfs_error());
  exit(1);
}

static size_t make_content(unsigned number, char* bytes) {
  const size_t size = 1 + number * 7919u % MOST;
  for (size_t i = 0; i < size; ++i) bytes[i] = (char)(number * 31 + i * 7 + i / 4096);
  return size;
}

static void run(void) {
  static char bytes[MOST];
  char name[40], temporary[40];
  for (unsigned number = 1;; ++number) {
    brickfs_file* file;
    const size_t size = make_content(number, bytes);
    snprintf(name, sizeof(name), "file%u", number);
    snprintf(temporary, sizeof(temporary), "new%u", number);
    must(brickfs_open(fs, temporary, O_WRONLY | O_CREAT | O_EXCL, 0644, &file), temporary);
    must(brickfs_pwrite(file, bytes, size, 0), "pwrite");
    must(brickfs_fsync(file), "fsync");
    must(brickfs_close(file), "close");
    must(brickfs_rename(fs, temporary, name, 0), "rename");
    must(brickfs_fs_sync(fs), "sync");
    printf("%u\n", number);
    fflush(stdout);
  }
}

static void verify(unsigned last) {
  static char bytes[MOST], found[MOST + 1];
  char name[40];
  unsigned number;
  brickfs_dir* dir;
  brickfs_dirent entry;
  for (number = 1; number <= last; ++number) {
    brickfs_file* file;
    const int64_t size = (int64_t)make_content(number, bytes);
    snprintf(name, sizeof(name), "file%u", number);
    must(brickfs_open(fs, name, O_RDONLY, 0, &file), name);
    if (must(brickfs_pread(file, found, sizeof(found), 0), "pread") != size ||
        memcmp(found, bytes, (size_t)size) != 0) {
      fprintf(stderr, "%s is not as it was synced\n", name);
      exit(1);
    }
    must(brickfs_close(file), "close");
  }
  must(brickfs_opendir(fs, "/", &dir), "opendir");
  while (must(brickfs_readdir(dir, &entry, NULL), "readdir") == 1) {
    if (entry.name[0] == '.') continue;
    if (sscanf(entry.name, "file%u", &number) != 1 && sscanf(entry.name, "new%u", &number) != 1) number = 0;
    if (number == 0 || number > last + 1) {
      fprintf(stderr, "%s should not be there\n", entry.name);
      exit(1);
    }
    must(brickfs_unlink(fs, entry.name), entry.name);
  }
  must(brickfs_closedir(dir), "closedir");
  must(brickfs_fs_close(fs), "close");
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  must(brickfs_fs_open(argv[2], NULL, &fs), argv[2]);
  if (strcmp(argv[1], "run") == 0) run();
  verify(argc > 3 ? (unsigned)atoi(argv[3]) : 0);
  return 0;
}
