/* SPDX-License-Identifier: Apache-2.0 */
/* Messages by way of remote memory, between two processes that both reach the brick, on any machines:
 *   notify SOURCE read COUNT &  notify SOURCE write WORD...
 * Who writes waits until the reader has taken a message before it writes the next over it. */
#include <brickfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITTEN = 1, TAKEN = 2 }; /* tags */

static int fail(const char* what, int64_t code) {
  fprintf(stderr, "%s: %s %s\n", what, strerror((int)-code), brickfs_error());
  return 1;
}

static int write_words(brickfs_volume* volume, int count, char** words) {
  brickfs_notice taken = {TAKEN, 0, 0, 0, 0};
  int64_t code = brickfs_volume_alloc(volume, 0, 1); /* a block, unless it is there */
  if (code < 0 && code != -17) return fail("alloc", code);
  if ((code = brickfs_volume_map(volume, 0, 1, 1)) < 0) return fail("map", code);
  if ((code = brickfs_volume_wait(volume, &taken, 1, 0)) < 0) return fail("wait", code); /* what was before */
  for (int i = 0; i < count; ++i) {
    const size_t length = strlen(words[i]);
    if ((code = brickfs_volume_write(volume, words[i], length, 0, NULL)) < 0) return fail("write", code);
    if ((code = brickfs_volume_notify(volume, WRITTEN, length)) < 0) return fail("notify", code);
    if ((code = brickfs_volume_wait(volume, &taken, 1, -1)) < 0) return fail("wait", code);
  }
  return 0;
}

static int read_words(brickfs_volume* volume, int count) {
  brickfs_notice written = {WRITTEN, 0, 0, 0, 0};
  for (int i = 0; i < count; ++i) {
    char word[4096];
    int64_t code = brickfs_volume_wait(volume, &written, 1, -1);
    if (code < 0) return fail("wait", code);
    if (i == 0 && (code = brickfs_volume_map(volume, 0, 1, 0)) < 0) return fail("map", code);
    const size_t length = written.value < sizeof(word) ? written.value : sizeof(word);
    if ((code = brickfs_volume_read(volume, word, length, 0, NULL)) < 0) return fail("read", code);
    printf("%.*s\n", (int)length, word);
    fflush(stdout);
    if ((code = brickfs_volume_notify(volume, TAKEN, written.count)) < 0) return fail("notify", code);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int reads = strcmp(argv[2], "read") == 0;
  brickfs_volume* volume;
  const int code = brickfs_volume_open(argv[1], reads ? "follow" : NULL, &volume);
  if (code < 0) return fail(argv[1], code);
  const int failed = reads ? read_words(volume, atoi(argv[3])) : write_words(volume, argc - 3, argv + 3);
  return brickfs_volume_close(volume) < 0 || failed;
}
