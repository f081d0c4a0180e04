/* SPDX-License-Identifier: Apache-2.0 */
/* An external engine of fio on libbrickfs: blocks or files of a volume, without a mount, or files of a mount by a ring.
 * tools/bench/fio_engine builds it.
 *
 *   fio --ioengine=external:brickfs_fio.so --source=tcp://HOST/VOLUME --way=blocks|files [--brickfs_options=LIST] ...
 *   fio --ioengine=external:brickfs_fio.so --source=DIRECTORY --way=ring ...
 *
 * Each job has addresses, or a file, of --offset and --size bytes, all of which are there before it begins. With
 * --iodepth=1 it waits for each transfer; else what fio submits together travels together. Buffers are registered. A
 * sync is a commit of the range, or an fsync. All jobs are threads of one process, which holds the volume, or has a
 * ring for each. */
#include <brickfs.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "fio.h"
#include "optgroup.h"

enum way { BLOCKS = 1, FILES = 2, RING = 3 };

struct options {
  void* pad; /* fio wants none at offset 0 */
  char* source;
  char* open_options;
  unsigned way;
};

static struct fio_option option_list[] = {
    {
        .name = "source",
        .lname = "source of the volume",
        .type = FIO_OPT_STR_STORE,
        .off1 = offsetof(struct options, source),
        .help = "as of brickfs_volume_open(); with a ring: a directory on a mount",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {
        .name = "brickfs_options",
        .lname = "options of the open",
        .type = FIO_OPT_STR_STORE,
        .off1 = offsetof(struct options, open_options),
        .help = "as of brickfs_volume_open()",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {
        .name = "way",
        .lname = "blocks, files or a ring",
        .type = FIO_OPT_STR,
        .off1 = offsetof(struct options, way),
        .help = "What of the volume is read and written",
        .def = "blocks",
        .posval = {{.ival = "blocks", .oval = BLOCKS, .help = "addresses of the volume"},
                   {.ival = "files", .oval = FILES, .help = "a file for each job"},
                   {.ival = "ring", .oval = RING, .help = "the same on a mount, by a ring"}},
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {.name = NULL},
};

/* Of all jobs: the first opens it, the last closes it. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static brickfs_volume* volume;
static brickfs_fs* fs;
static unsigned users;

struct job {
  enum way way;
  brickfs_file* file;
  brickfs_ring* ring;
  int descriptor; /* of the ring's file; below 0: none */
  uint64_t base;  /* address of the first block */
  uint64_t size;
  brickfs_buffer* buffer;
  brickfs_queue* queue; /* null: one transfer at a time */
  brickfs_request* pending;
  brickfs_completion* done;
};

static int fail(const char* what, int64_t code) {
  log_err("brickfs: %s: %s %s\n", what, strerror((int)-code), brickfs_error());
  return 1;
}

static int open_shared(const struct options* options) {
  int code = 0;
  if (options->way == RING) return 0;
  pthread_mutex_lock(&opening);
  if (users == 0) {
    code = options->way == FILES ? brickfs_fs_open(options->source, options->open_options, &fs)
                                 : brickfs_volume_open(options->source, options->open_options, &volume);
  } else if ((options->way == FILES) != (fs != NULL)) {
    code = -EINVAL; /* one volume, one way */
  }
  if (code == 0) ++users;
  pthread_mutex_unlock(&opening);
  return code;
}

static void close_shared(const struct job* job) {
  int code = 0;
  if (job->way == RING) return;
  pthread_mutex_lock(&opening);
  if (--users == 0) {
    code = fs != NULL ? brickfs_fs_close(fs) : brickfs_volume_close(volume);
    fs = NULL;
    volume = NULL;
  }
  pthread_mutex_unlock(&opening);
  if (code != 0) fail("close", code);
}

static int setup(struct thread_data* td) {
  struct options* options = td->eo;
  if (options->source == NULL) return fail("--source is needed", -EINVAL);
  if (td->o.nr_files > 1 || td->o.size == 0) return fail("one file for each job, of a --size", -EINVAL);
  struct job* job = calloc(1, sizeof(*job));
  if (job == NULL) return fail("a job", -ENOMEM);
  const int code = open_shared(options);
  if (code != 0) {
    free(job);
    return fail(options->source, code);
  }
  job->way = options->way;
  job->descriptor = -1;
  td->o.use_thread = 1;
  if (td->o.iodepth == 1) td->flags |= (unsigned long long)FIO_SYNCIO << TD_ENG_FLAG_SHIFT; /* when latency begins */
  job->size = td->o.start_offset + td->o.size;
  const uint64_t blocks = (job->size + BRICKFS_BLOCK_BYTES - 1) / BRICKFS_BLOCK_BYTES;
  job->base = (td->thread_number - 1) * blocks * BRICKFS_BLOCK_BYTES;
  td->io_ops_data = job;
  if (!td->files_index) {
    add_file(td, td->o.filename ? td->o.filename : "brickfs", 0, 0);
    td->o.nr_files = 1;
    td->o.open_files++;
  }
  td->files[0]->real_file_size = job->size;
  return 0;
}

/* Blocks that are there already keep their bytes; new ones are zero. */
static int64_t map_blocks(const struct job* job) {
  const uint64_t end = job->base + job->size;
  for (uint64_t at = job->base; at < end; at += BRICKFS_BLOCK_BYTES) {
    int code = brickfs_volume_alloc(volume, at, 1);
    if (code != 0 && code != -EEXIST) return code;
    if ((code = brickfs_volume_map(volume, at, 1, 1)) != 0) return code;
  }
  return 0;
}

/* So that a file is read from units that it has. */
static int64_t fill_file(const struct job* job) {
  static char piece[1 << 20];
  struct stat stat;
  int64_t code = job->way == RING ? fstat(job->descriptor, &stat) : brickfs_fstat(job->file, &stat);
  for (uint64_t at = code < 0 ? job->size : (uint64_t)stat.st_size; at < job->size; at += (uint64_t)code) {
    const uint64_t left = job->size - at;
    const uint64_t part = left < sizeof(piece) ? left : sizeof(piece);
    code =
        job->way == RING ? pwrite(job->descriptor, piece, part, (off_t)at) : brickfs_pwrite(job->file, piece, part, at);
    if (code < 0) return job->way == RING ? -errno : code;
  }
  return code;
}

/* Past the kernel's cache, as the ring is. */
static int64_t open_on_mount(struct job* job, const char* directory, const char* name) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%s", directory, name);
  job->descriptor = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0644);
  return job->descriptor < 0 ? -errno : fill_file(job);
}

static int init(struct thread_data* td) {
  struct job* job = td->io_ops_data;
  const unsigned depth = td->o.iodepth;
  int64_t code = 0;
  if (job->way == RING) {
    code = open_on_mount(job, ((struct options*)td->eo)->source, td->files[0]->file_name);
  } else if (job->way == FILES) {
    code = brickfs_open(fs, td->files[0]->file_name, O_RDWR | O_CREAT, 0644, &job->file);
    if (code == 0) code = fill_file(job);
  } else {
    code = map_blocks(job);
  }
  if (code >= 0 && depth > 1) {
    job->pending = calloc(depth, sizeof(*job->pending));
    job->done = calloc(depth, sizeof(*job->done));
    if (job->pending == NULL || job->done == NULL) return fail("a queue", -ENOMEM);
    if (job->way == FILES) code = brickfs_fs_queue(fs, depth, 0, &job->queue);
    if (job->way == BLOCKS) code = brickfs_volume_queue(volume, depth, 0, &job->queue);
  }
  return code < 0 ? fail("preparing a job", code) : 0;
}

static void cleanup(struct thread_data* td) {
  struct job* job = td->io_ops_data;
  if (job == NULL) return;
  td->io_ops_data = NULL;
  if (job->queue != NULL) brickfs_queue_free(job->queue);
  if (job->buffer != NULL) brickfs_buffer_free(job->buffer);
  if (job->file != NULL) brickfs_close(job->file);
  if (job->ring != NULL) brickfs_ring_close(job->ring);
  if (job->descriptor >= 0) close(job->descriptor);
  free(job->pending);
  free(job->done);
  close_shared(job);
  free(job);
}

/* The buffers are the ring's. */
static int open_ring(struct thread_data* td, struct job* job, size_t bytes) {
  int code = brickfs_ring_open(job->descriptor, bytes, &job->ring);
  if (code == 0) code = brickfs_ring_add(job->ring, job->descriptor);
  if (code == 0 && td->o.iodepth > 1) code = brickfs_ring_queue(job->ring, td->o.iodepth, 0, &job->queue);
  if (code != 0) return fail("a ring", code);
  td->orig_buffer = brickfs_ring_buffer(job->ring);
  return 0;
}

static int alloc_memory(struct thread_data* td, size_t bytes) {
  struct job* job = td->io_ops_data;
  if (job->way == RING) return open_ring(td, job, bytes);
  const int code = fs != NULL ? brickfs_fs_buffer(fs, NULL, bytes, &job->buffer)
                              : brickfs_volume_buffer(volume, NULL, bytes, &job->buffer);
  if (code != 0) return fail("a buffer", code);
  td->orig_buffer = brickfs_buffer_data(job->buffer);
  return 0;
}

static void free_memory(struct thread_data* td) {
  struct job* job = td->io_ops_data;
  if (job == NULL || job->buffer == NULL) return;
  brickfs_buffer_free(job->buffer);
  job->buffer = NULL;
}

static void tell(struct io_u* io_u, int64_t result) {
  io_u->error = result < 0 ? (int)-result : 0;
  io_u->resid = result < 0 ? 0 : io_u->xfer_buflen - (uint64_t)result;
}

static int64_t transfer(const struct job* job, const struct io_u* io_u) {
  const int reads = io_u->ddir == DDIR_READ;
  const brickfs_vector vector = {io_u->xfer_buf, io_u->xfer_buflen, job->buffer};
  if (job->ring != NULL) {
    return reads ? brickfs_ring_pread(job->ring, job->descriptor, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset)
                 : brickfs_ring_pwrite(job->ring, job->descriptor, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset);
  }
  if (job->file != NULL) {
    return reads ? brickfs_preadv(job->file, &vector, 1, io_u->offset)
                 : brickfs_pwritev(job->file, &vector, 1, io_u->offset);
  }
  return reads ? brickfs_volume_read(volume, io_u->xfer_buf, io_u->xfer_buflen, job->base + io_u->offset, job->buffer)
               : brickfs_volume_write(volume, io_u->xfer_buf, io_u->xfer_buflen, job->base + io_u->offset, job->buffer);
}

static int make_durable(const struct job* job) {
  const brickfs_range all = {job->base, job->size};
  if (job->ring != NULL) return brickfs_ring_fsync(job->ring, job->descriptor);
  return job->file != NULL ? brickfs_fsync(job->file) : brickfs_volume_commit(volume, &all, 1);
}

static enum fio_q_status queue(struct thread_data* td, struct io_u* io_u) {
  struct job* job = td->io_ops_data;
  fio_ro_check(td, io_u);
  if (ddir_sync(io_u->ddir)) {
    io_u->error = -make_durable(job);
    return FIO_Q_COMPLETED;
  }
  if (io_u->ddir != DDIR_READ && io_u->ddir != DDIR_WRITE) {
    io_u->error = EOPNOTSUPP;
    return FIO_Q_COMPLETED;
  }
  if (job->queue == NULL) {
    tell(io_u, transfer(job, io_u));
    return FIO_Q_COMPLETED;
  }
  if (td->io_u_queued >= td->o.iodepth) return FIO_Q_BUSY;
  brickfs_request* request = &job->pending[td->io_u_queued];
  memset(request, 0, sizeof(*request));
  request->operation = io_u->ddir == DDIR_READ ? BRICKFS_READ : BRICKFS_WRITE;
  request->file = job->file;
  request->descriptor = job->ring != NULL ? job->descriptor : 0;
  request->offset = job->way == BLOCKS ? job->base + io_u->offset : io_u->offset;
  request->data = io_u->xfer_buf;
  request->length = io_u->xfer_buflen;
  request->buffer = job->buffer;
  request->user_data = (uint64_t)(uintptr_t)io_u;
  return FIO_Q_QUEUED;
}

static int commit(struct thread_data* td) {
  struct job* job = td->io_ops_data;
  if (job->queue == NULL || td->io_u_queued == 0) return 0;
  const int taken = brickfs_submit(job->queue, job->pending, td->io_u_queued);
  if (taken != (int)td->io_u_queued) return taken < 0 ? -taken : EAGAIN; /* the queue is as deep as fio's */
  io_u_mark_submit(td, td->io_u_queued);
  td->io_u_queued = 0;
  return 0;
}

static int getevents(struct thread_data* td, unsigned least, unsigned most, const struct timespec* timeout) {
  struct job* job = td->io_ops_data;
  (void)timeout; /* the thread that polls moves the bytes */
  return brickfs_poll(job->queue, job->done, most, least, -1);
}

static struct io_u* event(struct thread_data* td, int number) {
  const struct job* job = td->io_ops_data;
  struct io_u* io_u = (struct io_u*)(uintptr_t)job->done[number].user_data;
  tell(io_u, job->done[number].result);
  return io_u;
}

static int nothing(struct thread_data* td, struct fio_file* file) {
  (void)td;
  (void)file;
  return 0;
}

static struct ioengine_ops engine = {
    .name = "brickfs",
    .version = FIO_IOOPS_VERSION,
    .flags = FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL,
    .setup = setup,
    .init = init,
    .queue = queue,
    .commit = commit,
    .getevents = getevents,
    .event = event,
    .cleanup = cleanup,
    .open_file = nothing,
    .close_file = nothing,
    .invalidate = nothing,
    .iomem_alloc = alloc_memory,
    .iomem_free = free_memory,
    .options = option_list,
    .option_struct_size = sizeof(struct options),
};

__attribute__((visibility("default"))) void get_ioengine(struct ioengine_ops** found) { *found = &engine; }
