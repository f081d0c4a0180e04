/* SPDX-License-Identifier: Apache-2.0 */
/* Remote memory as a table of 64-bit counters, many under way at a time:  blocks SOURCE */
#include <brickfs.h>
#include <stdio.h>
#include <string.h>

#define COUNTERS 64u

static int fail(const char* what, int64_t code) {
  fprintf(stderr, "%s: %s %s\n", what, strerror((int)-code), brickfs_error());
  return 1;
}

/* All of them in one go, each with a request of its own. */
static int64_t move(brickfs_queue* queue, uint32_t operation, uint64_t* counters, const brickfs_buffer* buffer) {
  brickfs_request requests[COUNTERS];
  brickfs_completion done[COUNTERS];
  memset(requests, 0, sizeof(requests));
  for (unsigned i = 0; i < COUNTERS; ++i) {
    requests[i].operation = operation;
    requests[i].offset = i * 4096u; /* a page for each */
    requests[i].data = &counters[i];
    requests[i].length = sizeof(counters[i]);
    requests[i].buffer = buffer;
    requests[i].user_data = i;
  }
  int64_t code = brickfs_submit(queue, requests, COUNTERS);
  if (code == (int64_t)COUNTERS) code = brickfs_poll(queue, done, COUNTERS, COUNTERS, -1);
  for (int64_t i = 0; i < code; ++i) {
    if (done[i].result < 0) return done[i].result;
  }
  return code;
}

int main(int argc, char** argv) {
  brickfs_volume* volume;
  brickfs_buffer* buffer;
  brickfs_queue* queue;
  if (argc != 2) return 2;
  int64_t code = brickfs_volume_open(argv[1], NULL, &volume);
  if (code < 0) return fail(argv[1], code);
  code = brickfs_volume_alloc(volume, 0, 1); /* a block of zeros, unless it is there */
  if (code < 0 && code != -17) return fail("alloc", code);
  if ((code = brickfs_volume_map(volume, 0, 1, 1)) < 0) return fail("map", code);
  if ((code = brickfs_volume_buffer(volume, NULL, COUNTERS * sizeof(uint64_t), &buffer)) < 0)
    return fail("buffer", code);
  if ((code = brickfs_volume_queue(volume, COUNTERS, 0, &queue)) < 0) return fail("queue", code);
  uint64_t* counters = brickfs_buffer_data(buffer);
  if ((code = move(queue, BRICKFS_READ, counters, buffer)) < 0) return fail("read", code);
  for (unsigned i = 0; i < COUNTERS; ++i) counters[i] += i;
  if ((code = move(queue, BRICKFS_WRITE, counters, buffer)) < 0) return fail("write", code);
  const brickfs_range all = {0, COUNTERS * 4096u};
  if ((code = brickfs_volume_commit(volume, &all, 1)) < 0) return fail("commit", code);
  printf("the last counter is %llu\n", (unsigned long long)counters[COUNTERS - 1]);
  brickfs_queue_free(queue);
  brickfs_buffer_free(buffer);
  return brickfs_volume_close(volume) < 0;
}
