/* SPDX-License-Identifier: Apache-2.0 */
/* A file of a volume, written and read without a mount:  files SOURCE */
#include <brickfs.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int fail(const char* what, int64_t code) {
  fprintf(stderr, "%s: %s %s\n", what, strerror((int)-code), brickfs_error());
  return 1;
}

int main(int argc, char** argv) {
  brickfs_fs* fs;
  brickfs_file* file;
  char text[32] = "";
  if (argc != 2) return 2;
  int64_t code = brickfs_fs_open(argv[1], NULL, &fs);
  if (code < 0) return fail(argv[1], code);
  code = brickfs_open(fs, "greeting", O_RDWR | O_CREAT | O_TRUNC, 0644, &file);
  if (code < 0) return fail("greeting", code);
  code = brickfs_pwrite(file, "hello, brick", 12, 0);
  if (code == 12) code = brickfs_fsync(file); /* from here on it survives this process */
  if (code == 0) code = brickfs_pread(file, text, sizeof(text) - 1, 0);
  if (code < 0) return fail("greeting", code);
  printf("%s\n", text);
  brickfs_close(file);
  code = brickfs_fs_close(fs);
  return code < 0 ? fail("close", code) : 0;
}
