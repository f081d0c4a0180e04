/* SPDX-License-Identifier: Apache-2.0 */
/* What libbrickfs gives, for docs/library.md. One figure a line.
 *
 *   library blocks|files SOURCE read|write DEPTH JOBS SECONDS    transfers of 4 KiB: median latency (depth 1), rate
 *   library creates SOURCE JOBS COUNT                            files of 1 KB: made, written and closed
 *   library stats SOURCE JOBS COUNT                              of files that are there
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "brickfs.h"

#define SIZE 4096u
#define PAGES 4096u /* of one job */
#define SAMPLES 4000000u

static brickfs_volume* volume;
static brickfs_fs* fs;
static unsigned depth, jobs;
static uint32_t operation;
static double seconds;
static unsigned count;

typedef struct job {
  pthread_t thread;
  unsigned number;
  unsigned long done;
  uint32_t* ns;
  unsigned samples;
  void (*run)(struct job*);
} job;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int64_t must(int64_t code, const char* what) {
  if (code >= 0) return code;
  fprintf(stderr, "%s: %s %s\n", what, strerror((int)-code), brickfs_error());
  exit(1);
}

static int by_size(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return (x > y) - (x < y);
}

static void transfers(job* self) {
  brickfs_buffer* buffer;
  brickfs_file* file = NULL;
  const size_t bytes = (size_t)depth * SIZE;
  const uint64_t start = volume != NULL ? (uint64_t)self->number * PAGES * SIZE : 0;
  uint64_t page = 0;
  char name[32];
  must(volume ? brickfs_volume_buffer(volume, NULL, bytes, &buffer) : brickfs_fs_buffer(fs, NULL, bytes, &buffer),
       "buffer");
  char* data = brickfs_buffer_data(buffer);
  memset(data, 'x', bytes);
  snprintf(name, sizeof(name), "bench%u", self->number);
  if (fs != NULL) must(brickfs_open(fs, name, O_RDWR | O_CREAT, 0644, &file), name);
  for (uint64_t i = 0; i < PAGES; ++i) {
    if (fs != NULL) must(brickfs_pwrite(file, data, SIZE, i * SIZE), "pwrite");
    if (volume != NULL) must(brickfs_volume_write(volume, data, SIZE, start + i * SIZE, buffer), "write");
  }
  if (fs != NULL) must(brickfs_fsync(file), "fsync");
  const brickfs_vector vector = {data, SIZE, buffer};
  double last = now();
  const double end = last + seconds;
  if (depth == 1) {
    while (last < end) {
      const uint64_t offset = start + page * SIZE;
      page = (page + 1) % PAGES;
      if (volume != NULL && operation == BRICKFS_READ)
        must(brickfs_volume_read(volume, data, SIZE, offset, buffer), "read");
      if (volume != NULL && operation == BRICKFS_WRITE)
        must(brickfs_volume_write(volume, data, SIZE, offset, buffer), "write");
      if (fs != NULL && operation == BRICKFS_READ) must(brickfs_preadv(file, &vector, 1, offset), "read");
      if (fs != NULL && operation == BRICKFS_WRITE) must(brickfs_pwritev(file, &vector, 1, offset), "write");
      const double time = now();
      if (self->samples < SAMPLES) self->ns[self->samples++] = (uint32_t)((time - last) * 1e9);
      last = time;
      ++self->done;
    }
  } else {
    brickfs_queue* queue;
    brickfs_request* requests = calloc(depth, sizeof(*requests));
    brickfs_completion* completions = calloc(depth, sizeof(*completions));
    must(volume ? brickfs_volume_queue(volume, depth, 0, &queue) : brickfs_fs_queue(fs, depth, 0, &queue), "queue");
    unsigned ready = depth;
    for (unsigned i = 0; i < depth; ++i) completions[i].user_data = i;
    while (ready > 0) {
      unsigned out = 0;
      if (now() < end) {
        for (; out < ready; ++out) {
          const uint64_t slot = completions[out].user_data;
          requests[out] = (brickfs_request){.operation = operation,
                                            .file = file,
                                            .offset = start + page * SIZE,
                                            .data = data + slot * SIZE,
                                            .length = SIZE,
                                            .buffer = buffer,
                                            .user_data = slot};
          page = (page + 1) % PAGES;
        }
      }
      if (must(brickfs_submit(queue, requests, out), "submit") != (int)out) must(-EAGAIN, "submit");
      ready = (unsigned)must(brickfs_poll(queue, completions, depth, 1, -1), "poll");
      for (unsigned i = 0; i < ready; ++i) must(completions[i].result == SIZE ? 0 : completions[i].result, "transfer");
      self->done += ready;
    }
    brickfs_queue_free(queue);
    free(requests);
    free(completions);
  }
  if (file != NULL) brickfs_close(file);
  brickfs_buffer_free(buffer);
}

static void creates(job* self) {
  char name[48], text[1000];
  memset(text, 'x', sizeof(text));
  snprintf(name, sizeof(name), "dir%u", self->number);
  must(brickfs_mkdir(fs, name, 0755), name);
  for (unsigned i = 0; i < count; ++i) {
    brickfs_file* file;
    snprintf(name, sizeof(name), "dir%u/file%u", self->number, i);
    must(brickfs_open(fs, name, O_WRONLY | O_CREAT | O_EXCL, 0644, &file), name);
    must(brickfs_pwrite(file, text, sizeof(text), 0), name);
    brickfs_close(file);
    ++self->done;
  }
}

static void stats(job* self) {
  char name[48];
  for (unsigned i = 0; i < count; ++i) {
    struct stat stat;
    snprintf(name, sizeof(name), "dir0/file%u", i % 1000);
    must(brickfs_stat(fs, name, 0, &stat), name);
    ++self->done;
  }
}

static void* run(void* self) {
  ((job*)self)->run(self);
  return NULL;
}

static void run_jobs(const char* what, void (*function)(job*)) {
  job all[64];
  double took = now();
  unsigned long done = 0;
  for (unsigned i = 0; i < jobs; ++i) {
    all[i] = (job){.number = i, .ns = malloc(SAMPLES * sizeof(uint32_t)), .run = function};
    pthread_create(&all[i].thread, NULL, run, &all[i]);
  }
  for (unsigned i = 0; i < jobs; ++i) {
    pthread_join(all[i].thread, NULL);
    done += all[i].done;
  }
  took = now() - took;
  if (seconds > 0) took = seconds;
  if (what != NULL) {
    printf("%s: %.0f/s", what, (double)done / took);
    if (all[0].samples > 0) {
      qsort(all[0].ns, all[0].samples, sizeof(uint32_t), by_size);
      printf(", median %.2f us", all[0].ns[all[0].samples / 2] / 1e3);
    }
    printf("\n");
  }
  for (unsigned i = 0; i < jobs; ++i) free(all[i].ns);
}

int main(int argc, char** argv) {
  if (argc == 7 && (!strcmp(argv[1], "blocks") || !strcmp(argv[1], "files"))) {
    operation = strcmp(argv[3], "read") ? BRICKFS_WRITE : BRICKFS_READ;
    depth = (unsigned)atoi(argv[4]);
    jobs = (unsigned)atoi(argv[5]);
    seconds = atof(argv[6]);
    if (!strcmp(argv[1], "blocks")) {
      must(brickfs_volume_open(argv[2], NULL, &volume), argv[2]);
      const uint64_t blocks = (uint64_t)jobs * PAGES * SIZE / BRICKFS_BLOCK_BYTES;
      must(brickfs_volume_alloc(volume, 0, blocks), "alloc");
      must(brickfs_volume_map(volume, 0, blocks, 1), "map");
      run_jobs(argv[1], transfers);
      must(brickfs_volume_free(volume, 0, blocks), "free");
      must(brickfs_volume_close(volume), "close");
    } else {
      must(brickfs_fs_open(argv[2], NULL, &fs), argv[2]);
      run_jobs(argv[1], transfers);
      must(brickfs_fs_close(fs), "close");
    }
    return 0;
  }
  if (argc == 5) {
    jobs = (unsigned)atoi(argv[3]);
    count = (unsigned)atoi(argv[4]);
    must(brickfs_fs_open(argv[2], NULL, &fs), argv[2]);
    if (!strcmp(argv[1], "creates")) {
      run_jobs("creates", creates);
    } else {
      const unsigned wanted = count, with = jobs;
      count = 1000;
      jobs = 1;
      run_jobs(NULL, creates);
      count = wanted;
      jobs = with;
      run_jobs("stats", stats);
    }
    must(brickfs_fs_close(fs), "close");
    return 0;
  }
  fprintf(stderr, "see the head of tools/bench/library.c\n");
  return 2;
}
