/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for notifications of a tag, as one who must not be held up:  notify_wait SOURCE TAG WAITS TIMEOUT_MS
 * A line for each wait: what it answered, the value, the news (-1: unknown), and how many ms it took. A session that is
 * lost is opened again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fs/library/brickfs.h"

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int reopen(brickfs_volume* volume) {
  int code = -ENOTCONN;
  for (int i = 0; i < 300 && code < 0; ++i) {
    code = brickfs_volume_reopen(volume);
    if (code < 0) usleep(100000);
  }
  return code;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  brickfs_volume* volume;
  if (brickfs_volume_open(argv[1], "follow", &volume) < 0) {
    fprintf(stderr, "%s\n", brickfs_error());
    return 1;
  }
  brickfs_notice notice = {strtoull(argv[2], NULL, 10), 0, 0, 0, 0};
  printf("ready\n");
  for (int i = atoi(argv[3]); i > 0; --i) {
    fflush(stdout);
    const long before = now_ms();
    const int code = brickfs_volume_wait(volume, &notice, 1, atoi(argv[4]));
    printf("%d %llu %lld %ld\n", code, (unsigned long long)notice.value, (long long)notice.news, now_ms() - before);
    if (code == -ENOTCONN) printf("reopened %d\n", reopen(volume));
  }
  return brickfs_volume_close(volume) < 0;
}
