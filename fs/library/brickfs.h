/* SPDX-License-Identifier: Apache-2.0 */
/* libbrickfs: blocks and files of a brickfs volume without a mount, or past the kernel of one. docs/library.md says
 * which way is for whom.
 *
 * Three ways in, each with handles of its own:
 *   brickfs_volume  the blocks of a volume: allocate, map, read and write bytes of remote memory, commit.
 *   brickfs_fs      the files of a volume. This process holds its lease, as a mount would.
 *   brickfs_ring    open files of a mount on this machine: they are read and written past the kernel.
 *
 * Errors. Calls return 0 or a positive number, or an errno below zero (-ENOENT). They do not touch errno. Common to
 * all: -EINVAL     an argument is against what is said here. A null pointer where one is needed is -EFAULT. -ENOMEM
 * this process has no memory left. -EIO        the brick has lost data, its store fails, or (option soft) it was away
 * for too long. -ESTALE     another has taken the volume over: nothing more can be done with it, but to close it.
 *   -ENOTCONN   blocks only: the session is lost; see brickfs_volume_reopen(). Files wait for the brick instead.
 *   -EROFS      a change, on what was opened with `ro`, or on a damaged file system.
 * What else a call answers is said with it. For opens brickfs_error() has one line for people.
 *
 * Threads. Every call may be made from any thread at once, also on the same handle, but for these: a queue and a
 * directory are used by one thread at a time; a handle is closed by one thread, when no other uses it any more.
 *
 * Ownership. A call that gives a handle gives it to the caller, who closes it. A volume or file system is closed last:
 * while files, directories, buffers or queues of it are open, closing it is refused with -EBUSY. Strings and arrays
 * that are passed in are needed during the call only; memory that a queue moves bytes to or from, until the completion.
 *
 * fork(2). A child has no use of these handles: it must not call anything here with them, not even to close them, and
 * may exec or exit. (Its exit leaves the parent's volume alone.) What the child opens itself is its own, if it has not
 * opened anything before the fork. Descriptors are closed on exec.
 *
 * A process that ends without closing is, to the volume, like a mount that was killed: what brickfs_fsync() had
 * answered for is there (docs/recovery.md). The library prints nothing, installs no signal handlers, and its threads
 * have all signals blocked; it calls abort(3) for bugs of its own only.
 *
 * Sizes are bytes, times are milliseconds, unless said otherwise. 64-bit machines only. */
#ifndef BRICKFS_H
#define BRICKFS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRICKFS_API __attribute__((visibility("default")))

struct timespec; /* in strict C99 <time.h> has none */
typedef struct brickfs_volume brickfs_volume;
typedef struct brickfs_fs brickfs_fs;
typedef struct brickfs_file brickfs_file;
typedef struct brickfs_dir brickfs_dir;
typedef struct brickfs_buffer brickfs_buffer;
typedef struct brickfs_queue brickfs_queue;
typedef struct brickfs_ring brickfs_ring;
typedef struct brickfs_patience brickfs_patience;

/* ---- the library ------------------------------------------------------------------------------------------------ */

/* Of this header. A number grows: two digits for each of the second and the third part. */
#define BRICKFS_LIBRARY_VERSION "0.1.0"
#define BRICKFS_LIBRARY_VERSION_NUMBER 100

/* Of the library that runs: "0.1.0". Static. */
BRICKFS_API const char* brickfs_version(void);

/* Why the calling thread's last open of a volume or file system failed, or what its last close of a file system left
 * behind: one line, without a newline; "" if there is nothing to say. Stays until that thread's next open or close. */
BRICKFS_API const char* brickfs_error(void);

enum { BRICKFS_LOG_DEBUG = 0, BRICKFS_LOG_INFO = 1, BRICKFS_LOG_WARNING = 2, BRICKFS_LOG_ERROR = 3 };
typedef void (*brickfs_log_fn)(void* context, int level, const char* line);

/* Where lines of the log go, of `level` and above: nowhere until this is called; null: nowhere again. Of the whole
 * process. `function` is called from any thread, several at once, with a line without a newline that is valid during
 * the call; it must not call the library, block, or unwind. It may still be under way when a later call of this
 * returns. */
BRICKFS_API int brickfs_set_log(brickfs_log_fn function, void* context, int level);

/* Both opens take SOURCE as brickfs(8) does: rdma://HOST[:PORT]/VOLUME, fabric://..., tcp://HOST[:PORT]/VOLUME,
 * memory:SIZE, file:PATH[,SIZE]; for files also sets, tcp://A+B/VOLUME and etcd://HOST[:PORT]/VOLUME (docs/sets.md);
 * and options as its -o: a list with commas between, null or "" for none; a value with commas stands in double quotes.
 *
 * - ro, rw: the lease of one of many readers, or (the default) the only one.
 * - follow: blocks: no lease. Reads beside whoever writes, and takes part in notifications.
 * - shared (or share): files: other machines, and processes, have the volume, too, each with this option, mounts and
 *   programs alike: the first coordinates, the others are members (docs/shared.md). With ro: a member that changes
 *   nothing. wait= counts for nothing then: a coordinator that begins or ends is waited for up to 20 s.
 * - listen=ADDRESS[:PORT]: with shared: where others reach this one if it is the first.
 * - steal: cut off whoever holds the volume.
 * - durable: refuse a brick whose memory does not survive it (-ENOTSUP).
 * - secret=PATH: the file that has the volume's secret, its first line. It is read again when a brick refuses that.
 * - tls=off|on|require: TLS 1.3 by that secret over tcp://, and between machines of a shared volume (off): with those
 *   that do it, or with nobody else (-ENOPROTOOPT; -EPROTONOSUPPORT of rdma:// and fabric://, which do not encrypt).
 * - etcd_ca=PATH: files, of etcd://: who has signed etcd's certificates. Asks for TLS.
 * - etcd_cert=PATH, etcd_key=PATH: the same: what this client shows to etcd, and its key.
 * - etcd_user=NAME, etcd_password=PATH: the same: a user of etcd, and the file that has the password.
 * - wait=SECONDS: how long to wait for a volume that another holds (4); one whose holder was killed is free at once.
 * - hard, soft, timeo=SECONDS: files: wait for a brick that is away for ever (the default), or for `timeo` (60).
 * - over-files: blocks: write to a volume that has files, which that may destroy.
 * - linger=SECONDS: files: how long closing waits for a brick that is away (15).
 * - noatime: files: reading leaves the times of reading alone.
 * - uid=, gid=: files: whose new files are (this process's effective ids).
 * - umask=: files: the mode bits, in octal, that new files do not get (022).
 * - workers=COUNT: files: threads for what a queue cannot do together, 1 to 64 (8).
 *
 * Errors: -EINVAL (source, options), -EBUSY (held by another), -EACCES (the secret), -EKEYREJECTED (what answers does
 * not know the secret), -ENOENT (no such volume, or secret file), -ENOTEMPTY (blocks: the volume has files),
 * -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT, -EPROTO (no brickd there), -ENODEV (no RDMA device here), -ENOTSUP. */

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

/* Memory that is registered with the devices by which the brick is reached, so that bytes move to and from it without
 * being copied. Over TCP and for embedded bricks it is like any other. `memory`: the caller's, of `length` bytes, which
 * stays until the buffer is freed and after that the caller's; null: it is allocated, zero, page-aligned and of huge
 * pages where there are any. Registering takes 0.1 ms and more: do it once. -EPERM: the limit of locked memory. */
BRICKFS_API int brickfs_volume_buffer(brickfs_volume* volume, void* memory, size_t length, brickfs_buffer** buffer);
BRICKFS_API int brickfs_fs_buffer(brickfs_fs* fs, void* memory, size_t length, brickfs_buffer** buffer);
BRICKFS_API void* brickfs_buffer_data(const brickfs_buffer* buffer); /* null for null */
BRICKFS_API size_t brickfs_buffer_length(const brickfs_buffer* buffer);
/* Nothing may be moving to or from it. Null is passed over. -EBUSY: a request of a queue names it, which is under way.
 */
BRICKFS_API int brickfs_buffer_free(brickfs_buffer* buffer);

/* Bytes of this process's memory. `buffer`: the registered one in which they lie (-EINVAL if they do not); null: any
 * memory. */
typedef struct brickfs_vector {
  void* data; /* only read from where bytes are written to the volume */
  size_t length;
  const brickfs_buffer* buffer;
} brickfs_vector;

#define BRICKFS_VECTORS_MAX 1024u /* of one call; with at most 1 TiB in all */

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* A volume is a space of 64-bit addresses in which blocks of BRICKFS_BLOCK_BYTES exist that were allocated. Who opens
 * it so sees no files: one that has some is opened with ro or follow, or not at all (-ENOTEMPTY; see over-files). */
#define BRICKFS_BLOCK_BYTES 2097152u
#define BRICKFS_TRANSFER_MAX 4194304u /* bytes of one read or write of blocks */

typedef struct brickfs_volume_stat_t {
  uint64_t capacity_blocks;    /* of the volume */
  uint64_t used_blocks;        /* allocated */
  uint64_t mapped_blocks;      /* by this client */
  uint64_t allocatable_blocks; /* now, bounded by quota and brick */
  uint64_t memory_blocks;      /* the brick may have so many in memory */
  uint64_t epoch;              /* of the lease */
  uint64_t boot_id;            /* of the brick: another after each start */
  uint32_t durable;            /* 1: what was committed survives the brick */
  uint32_t read_only;          /* 1: opened with ro or follow */
  char transport[64];          /* "embedded", "tcp", "tcp (TLS 1.3)", "rdma (...)", "fabric (...)" */
} brickfs_volume_stat_t;

typedef struct brickfs_range {
  uint64_t address; /* of the first block, or byte of a commit */
  uint64_t count;   /* of blocks, or bytes of a commit */
} brickfs_range;

BRICKFS_API int brickfs_volume_open(const char* source, const char* options, brickfs_volume** volume);
/* Gives the lease up. Commits nothing. Frees the handle whatever it answers but -EBUSY and -EFAULT. */
BRICKFS_API int brickfs_volume_close(brickfs_volume* volume);
/* As if the connection were lost: calls and transfers under way, of any thread, end with -ENOTCONN, and the session
 * with them. So a call is cut short that a brick holds up. Not beside close and reopen. */
BRICKFS_API int brickfs_volume_abandon(brickfs_volume* volume);
/* After -ENOTCONN: a new session under the same lease. No block is mapped in it. 1: the brick was restarted meanwhile,
 * so what was written and not committed is lost (all, on a brick that is not durable). 0: it was not. -ESTALE: another
 * has the volume. -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT: not there yet, try again. Transfers under way end with
 * -ENOTCONN before it returns. Not from two threads at once. */
BRICKFS_API int brickfs_volume_reopen(brickfs_volume* volume);
BRICKFS_API int brickfs_volume_stat(brickfs_volume* volume, brickfs_volume_stat_t* stat);

/* Addresses are multiples of BRICKFS_BLOCK_BYTES, counts are of blocks, 1 to 4096; each call is done on all or on none.
 * alloc: they read as zeros. -EEXIST, -ENOSPC (the brick is full), -EDQUOT (the volume is).
 * free: unmaps them first, from those who read beside it, too. -ENOENT.
 * map: so that they can be read (and written, if `writable` is not 0); mapped ones are mapped anew. -ENOENT; -ENOBUFS:
 * all of the brick's memory is mapped, unmap some. unmap: no transfer reaches them any more once it has returned; those
 * under way end with an error. Blocks that are not mapped are passed over. -ENOENT. */
BRICKFS_API int brickfs_volume_alloc(brickfs_volume* volume, uint64_t address, uint64_t count);
BRICKFS_API int brickfs_volume_free(brickfs_volume* volume, uint64_t address, uint64_t count);
BRICKFS_API int brickfs_volume_map(brickfs_volume* volume, uint64_t address, uint64_t count, int writable);
BRICKFS_API int brickfs_volume_unmap(brickfs_volume* volume, uint64_t address, uint64_t count);
/* Allocated blocks from *cursor (0 to begin) on, ascending, in runs: their number, at most `most`; 0: there are no
 * more. *cursor moves on. */
BRICKFS_API int brickfs_volume_list(brickfs_volume* volume, uint64_t* cursor, brickfs_range* ranges, size_t most);
/* The bytes named, as writes that had completed left them, and every alloc and free before, survive the brick's crash
 * when it has returned. At most 8192 ranges of bytes, in no order; none: allocs and frees only. -ENOENT (not
 * allocated), -ENOSPC (the brick's disk is full). On a brick that is not durable: that writes before are to be seen by
 * others. */
BRICKFS_API int brickfs_volume_commit(brickfs_volume* volume, const brickfs_range* ranges, size_t count);

/* All of `length` bytes (at most BRICKFS_TRANSFER_MAX) at an address, within blocks that are mapped together or beside
 * each other: returns `length`. `buffer` as of brickfs_vector. -ENXIO: not mapped, or not for writing. After an error
 * of a write the bytes are old, new, or a mixture. No order holds between transfers that are under way at the same
 * time. */
BRICKFS_API int64_t brickfs_volume_read(brickfs_volume* volume, void* data, size_t length, uint64_t address,
                                        const brickfs_buffer* buffer);
BRICKFS_API int64_t brickfs_volume_write(brickfs_volume* volume, const void* data, size_t length, uint64_t address,
                                         const brickfs_buffer* buffer);

/* ---- blocks: notifications -------------------------------------------------------------------------------------- */

/* Who has written tells who waits: a tag, which says what it is about, and 64 bits. Both are the programs' own. For all
 * of one volume, with a lease, or with `follow` beside the writer: readers may answer.
 *
 * The brick keeps, for each tag, the last value and how many there were. So nobody is held up by who does not wait, and
 * who comes late, or is slow, gets the last value and learns how many he passed over. It keeps 1024 tags of a volume,
 * and forgets the one notified longest ago; all of them when it stops: notifications are not durable. Who waits for
 * what was forgotten learns that. */
typedef struct brickfs_notice {
  uint64_t tag;    /* set by the caller */
  uint64_t value;  /* of the last notification of that tag */
  uint64_t news;   /* notifications that this notice has not shown before: 0: none; above 1: all but the last were
                      passed over; BRICKFS_NEWS_UNKNOWN: they were forgotten, and those since are counted anew */
  uint64_t count;  /* how many that counting has seen; 0: none, and `value` says nothing */
  uint64_t origin; /* which counting that is */
} brickfs_notice;

#define BRICKFS_NEWS_UNKNOWN UINT64_MAX
#define BRICKFS_NOTICES_MAX 64u /* of one wait */

/* Reads and writes of this volume that were complete before the call are seen by who reads after he has seen the
 * notification: to write, then to notify, is enough, over every transport. It makes nothing durable. After an error it
 * may have happened. -EOPNOTSUPP: the brick is older than notifications. */
BRICKFS_API int brickfs_volume_notify(brickfs_volume* volume, uint64_t tag, uint64_t value);
/* Until one of `count` (1 to BRICKFS_NOTICES_MAX) notices has news: how many have, all of them being brought up to
 * date. 0: none has within `timeout_ms` (below 0: for ever; 0: looks, and does not wait). Notices begin as zeros but
 * for the tag, are kept by the caller from wait to wait, and may be of a former session of this volume: after
 * brickfs_volume_reopen() go on with them. Each thread that waits has a connection to the brick; other calls go on
 * beside it. A brick that does not answer ends the wait at most a second after its time. -ENOTCONN, -EOPNOTSUPP as
 * above. -EUSERS: 8 threads wait on this volume handle already. */
BRICKFS_API int brickfs_volume_wait(brickfs_volume* volume, brickfs_notice* notices, unsigned count, int timeout_ms);

/* ---- files: the file system ------------------------------------------------------------------------------------- */

/* The first open of a volume without blocks makes the file system. -EUCLEAN: what is there is none, or is beyond
 * reading; -ENOTSUP: of a newer format. With `ro`: as it is now; the one who writes it must not have it open.
 *
 * Permission bits, owners and access lists are kept and not enforced: who has the volume's secret may do everything,
 * like root. Paths begin at the file system's root, with or without a slash; symbolic links are followed within it.
 * Their errors are those of path_resolution(7), all calls with a path have them: -ENOENT, -ENOTDIR, -ELOOP,
 * -ENAMETOOLONG. Paths and names are bytes, ended by a zero byte. */
BRICKFS_API int brickfs_fs_open(const char* source, const char* options, brickfs_fs** fs);
/* Everything durable, the lease given up. An error but -EBUSY and -EFAULT: not everything has reached the brick; the
 * handle is gone all the same, as after a crash, and brickfs_error() says how much is not committed. -ETIMEDOUT: the
 * brick has been away for as long as `linger` says, or commits nothing for so long. */
BRICKFS_API int brickfs_fs_close(brickfs_fs* fs);
/* Gives the file system up, as if this process had been killed: nothing more goes to the brick. Calls that wait, of any
 * thread, end with an error, and all others but those that close something are answered with -ECANCELED; closing it
 * waits for nothing then. */
BRICKFS_API int brickfs_fs_abandon(brickfs_fs* fs);
/* Everything done before is durable (on a brick that is not: on the brick). */
BRICKFS_API int brickfs_fs_sync(brickfs_fs* fs);
BRICKFS_API int brickfs_fs_statvfs(brickfs_fs* fs, struct statvfs* stat);
/* 1: changes are answered with -EROFS. */
BRICKFS_API int brickfs_fs_is_read_only(brickfs_fs* fs);

/* ---- files: data ------------------------------------------------------------------------------------------------ */

/* Flags of open(2): O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW, O_SYNC,
 * O_DSYNC, O_NOATIME, O_TMPFILE, O_PATH is not known (-EINVAL); the others are passed over. `mode` matters to O_CREAT
 * and O_TMPFILE. -EEXIST, -EISDIR, -ELOOP (O_NOFOLLOW), -ENOSPC, -ENXIO (a FIFO, socket or device). */
BRICKFS_API int brickfs_open(brickfs_fs* fs, const char* path, int flags, mode_t mode, brickfs_file** file);
/* Releases its locks. Makes nothing durable, and cannot fail but with -EBUSY: a queue has something under way on it. */
BRICKFS_API int brickfs_close(brickfs_file* file);

/* As pread(2) and pwrite(2): bytes moved; a read is short only at the end of the file. A file of O_APPEND is
 * written at its end, whatever the offset. -EBADF (not open for that), -EISDIR, -EFBIG, -ENOSPC. Each 4 MiB of a call
 * are done as a whole, before or after every other call on the same bytes; after an error behind the first of them the
 * count of bytes before it is returned. */
BRICKFS_API int64_t brickfs_pread(brickfs_file* file, void* data, size_t length, uint64_t offset);
BRICKFS_API int64_t brickfs_pwrite(brickfs_file* file, const void* data, size_t length, uint64_t offset);
BRICKFS_API int64_t brickfs_preadv(brickfs_file* file, const brickfs_vector* vectors, unsigned count, uint64_t offset);
BRICKFS_API int64_t brickfs_pwritev(brickfs_file* file, const brickfs_vector* vectors, unsigned count, uint64_t offset);
/* Everything done before, to this file and to all others, is durable. */
BRICKFS_API int brickfs_fsync(brickfs_file* file);
/* -EISDIR, -EFBIG; file: -EINVAL (not open for writing). */
BRICKFS_API int brickfs_truncate(brickfs_fs* fs, const char* path, uint64_t size);
BRICKFS_API int brickfs_ftruncate(brickfs_file* file, uint64_t size);
/* As fallocate(2), modes 0, FALLOC_FL_KEEP_SIZE, _PUNCH_HOLE, _ZERO_RANGE. -EOPNOTSUPP, -EBADF, -EFBIG, -ENOSPC. */
BRICKFS_API int brickfs_fallocate(brickfs_file* file, int mode, uint64_t offset, uint64_t length);
/* Where data or a hole begins at or behind `offset`: SEEK_DATA or SEEK_HOLE. -ENXIO. */
BRICKFS_API int64_t brickfs_seek(brickfs_file* file, uint64_t offset, int whence);
/* As copy_file_range(2), between files of one file system (-EXDEV): bytes copied; less than asked for at the end. Holes
 * stay holes. */
BRICKFS_API int64_t brickfs_copy_range(brickfs_file* from, uint64_t from_offset, brickfs_file* to, uint64_t to_offset,
                                       uint64_t length);

/* ---- files: attributes ------------------------------------------------------------------------------------------ */

/* Of a symbolic link itself, in calls with `flags`. */
#define BRICKFS_NOFOLLOW 0x100

BRICKFS_API int brickfs_stat(brickfs_fs* fs, const char* path, int flags, struct stat* stat);
BRICKFS_API int brickfs_fstat(brickfs_file* file, struct stat* stat);
BRICKFS_API int brickfs_chmod(brickfs_fs* fs, const char* path, mode_t mode);
/* (uid_t)-1, (gid_t)-1: that one stays. */
BRICKFS_API int brickfs_chown(brickfs_fs* fs, const char* path, uid_t uid, gid_t gid, int flags);
/* As utimensat(2): two times, of reading, of writing; UTIME_NOW and UTIME_OMIT; null: both are now. */
BRICKFS_API int brickfs_utimens(brickfs_fs* fs, const char* path, const struct timespec* times, int flags);

/* As setxattr(2) and the like. `flags`: XATTR_CREATE or XATTR_REPLACE, and BRICKFS_NOFOLLOW. get and list return how
 * long the value is; with `size` 0 only that. list: names, each ended by a zero byte. -ENODATA, -EEXIST, -ERANGE (does
 * not fit), -EOPNOTSUPP (no such namespace), -EPERM (user.* of what is no file or directory), -E2BIG, -ENOSPC. */
BRICKFS_API int brickfs_setxattr(brickfs_fs* fs, const char* path, const char* name, const void* value, size_t size,
                                 int flags);
BRICKFS_API int64_t brickfs_getxattr(brickfs_fs* fs, const char* path, const char* name, void* value, size_t size,
                                     int flags);
BRICKFS_API int64_t brickfs_listxattr(brickfs_fs* fs, const char* path, char* names, size_t size, int flags);
BRICKFS_API int brickfs_removexattr(brickfs_fs* fs, const char* path, const char* name, int flags);

/* ---- files: names ----------------------------------------------------------------------------------------------- */

/* Each with the errno of the system call of its name. A change of names is atomic, and durable with the next sync. */
BRICKFS_API int brickfs_mkdir(brickfs_fs* fs, const char* path, mode_t mode);
BRICKFS_API int brickfs_rmdir(brickfs_fs* fs, const char* path);
BRICKFS_API int brickfs_unlink(brickfs_fs* fs, const char* path);
/* `flags` as of renameat2(2): 0, RENAME_NOREPLACE (1), RENAME_EXCHANGE (2). */
BRICKFS_API int brickfs_rename(brickfs_fs* fs, const char* from, const char* to, unsigned flags);
/* A symbolic link at `path` is not followed. */
BRICKFS_API int brickfs_link(brickfs_fs* fs, const char* path, const char* new_path);
BRICKFS_API int brickfs_symlink(brickfs_fs* fs, const char* target, const char* path);
/* Length of the target, of which at most `size` bytes are given, without a zero byte. -EINVAL: no symbolic link. */
BRICKFS_API int64_t brickfs_readlink(brickfs_fs* fs, const char* path, char* target, size_t size);
/* A FIFO, socket, device or empty file: as mknod(2). */
BRICKFS_API int brickfs_mknod(brickfs_fs* fs, const char* path, mode_t mode, dev_t device);

typedef struct brickfs_dirent {
  uint64_t ino;
  uint64_t next;   /* where to go on behind this entry: brickfs_seekdir() */
  uint32_t type;   /* DT_* of readdir(3) */
  uint32_t length; /* of the name */
  char name[256];  /* ended by a zero byte */
} brickfs_dirent;

BRICKFS_API int brickfs_opendir(brickfs_fs* fs, const char* path, brickfs_dir** dir);
BRICKFS_API int brickfs_closedir(brickfs_dir* dir);
/* 1: an entry; "." and ".." come first. 0: there are no more. `stat`: its attributes, if not null. Names that are made
 * or removed meanwhile are there or not. */
BRICKFS_API int brickfs_readdir(brickfs_dir* dir, brickfs_dirent* entry, struct stat* stat);
/* 0: the start. */
BRICKFS_API int brickfs_seekdir(brickfs_dir* dir, uint64_t where);

/* ---- files: locks ----------------------------------------------------------------------------------------------- */

/* Advisory, among the open files of this file system handle (other clients cannot have the volume meanwhile, but for
 * reading). They belong to the brickfs_file and go with it, as F_OFD_SETLK's; several of one file do not conflict.
 * `type`: F_RDLCK, F_WRLCK, F_UNLCK. `length` 0: to the end, wherever that is. `wait` 0: -EAGAIN where another has one.
 * A wait ends only when the lock is had: there is no search for deadlocks. -EBADF: not open for that. `within`: a wait
 * ends after `timeout_ms` with -ETIMEDOUT (below 0: never; 0: as `wait` 0). */
BRICKFS_API int brickfs_lock(brickfs_file* file, int type, uint64_t offset, uint64_t length, int wait);
BRICKFS_API int brickfs_lock_within(brickfs_file* file, int type, uint64_t offset, uint64_t length, int timeout_ms);
/* 1: another's lock is in the way of such a one; 0: none. */
BRICKFS_API int brickfs_test_lock(brickfs_file* file, int type, uint64_t offset, uint64_t length);
/* As flock(2), of whole files and apart from the above: LOCK_SH, LOCK_EX, LOCK_UN, each with LOCK_NB (-EWOULDBLOCK). */
BRICKFS_API int brickfs_flock(brickfs_file* file, int operation);
BRICKFS_API int brickfs_flock_within(brickfs_file* file, int operation, int timeout_ms);

/* ---- deadlines, and calls that are cancelled ----------------------------------------------------------------------
 */

/* How long the calls of one thread on files wait. Between begin and end, calls of the thread that began that have to
 * wait, for a brick that is away, for a lock, for room, end with -ETIMEDOUT once `timeout_ms` have passed since
 * (below 0: never), or with -ECANCELED soon after any thread has cancelled. Calls that need not wait are done as ever.
 * What was interrupted may have been done, as with EINTR of a mount; a sync promises nothing then. Not for opening and
 * closing a file system, which have the options `wait` and `linger`; of a queue without BRICKFS_QUEUE_BACKGROUND, for
 * what is done or waited for in a poll: what another thread does goes on, and completes later. */
BRICKFS_API int brickfs_patience_new(brickfs_patience** patience);
/* -EBUSY: it has begun. Null is passed over. */
BRICKFS_API int brickfs_patience_free(brickfs_patience* patience);
/* -EBUSY: it has begun, or the calling thread has begun another. */
BRICKFS_API int brickfs_patience_begin(brickfs_patience* patience, int timeout_ms);
/* By the thread that began (-EINVAL). It can begin again, also of another thread. */
BRICKFS_API int brickfs_patience_end(brickfs_patience* patience);
/* From any thread. Holds until the end, also if it has not begun yet. */
BRICKFS_API int brickfs_patience_cancel(brickfs_patience* patience);

/* ---- rings: open files of a mount, past the kernel --------------------------------------------------------------- */

/* For any program on the machine of a mount with `-o ring=on`. It opens files there as ever, and shows the descriptors
 * to the mount's process, with which it shares a buffer: bytes move between the brick and that, without a system call
 * and without a copy. Who may do what the kernel has decided when the file was opened.
 *
 * All others see what is read and written so as if pread(2), pwrite(2) and fsync(2) had been called, whose results and
 * errors these calls have. What the kernel alone can do is left to it, by a system call on the descriptor: a write that
 * makes a file longer or takes set-uid bits away, O_APPEND, what RLIMIT_FSIZE forbids, all writes of mounts with a
 * write-back cache, before Linux 6.16 bytes that the kernel has in its cache; so these take as long as through the
 * mount. What others have put into mapped memory is written back first. (A store to mapped memory that is made while
 * bytes in the same 4096 are being written so may undo that, as with O_DIRECT.) The kernel keeps no cache of what is
 * read so: programs that read the same bytes again and again through its cache are better off with pread(2).
 *
 * -ENOTCONN: the mount has ended, or its end of the ring: nothing more can be done with the ring, but to close it.
 * -EBADF: the descriptor was not added, or not opened for that. */

/* Of the mount on which `descriptor` (a file, directory or anything else there) is; it may be closed then. `length` of
 * the buffer: 1 to 67108864, rounded up to pages. -EOPNOTSUPP: that is no mount with rings. -EUSERS: it has as many as
 * it can (of a user but root: 256, with 512 MiB). -ENOMEM: also where this process may not have so much memory. -EFBIG:
 * with what belongs to it (24 KiB) it is beyond RLIMIT_FSIZE. */
BRICKFS_API int brickfs_ring_open(int descriptor, size_t length, brickfs_ring** ring);
/* -EBUSY: it has a queue. */
BRICKFS_API int brickfs_ring_close(brickfs_ring* ring);
/* Memory of the ring, zero at first, which programs that are none of ours cannot see. Null, 0: for null. */
BRICKFS_API void* brickfs_ring_buffer(const brickfs_ring* ring);
BRICKFS_API size_t brickfs_ring_buffer_length(const brickfs_ring* ring);
/* A regular file of that mount, opened for what is to be done. Its descriptor stays open until it is removed; flags
 * that fcntl(2) changes later count after it was removed and added again. -EEXIST: it was added. -EXDEV: of another
 * file system. -EINVAL: no regular file. -EMFILE: the ring has 1024. */
BRICKFS_API int brickfs_ring_add(brickfs_ring* ring, int descriptor);
/* Nothing of it may be under way. -EBADF. */
BRICKFS_API int brickfs_ring_remove(brickfs_ring* ring, int descriptor);

/* Bytes moved to or from the ring's buffer, in which `data` lies (-EINVAL: not). Each 4 MiB are done as a whole. Of
 * O_APPEND files as pwrite(2): at their end. */
BRICKFS_API int64_t brickfs_ring_pread(brickfs_ring* ring, int descriptor, void* data, size_t length, uint64_t offset);
BRICKFS_API int64_t brickfs_ring_pwrite(brickfs_ring* ring, int descriptor, const void* data, size_t length,
                                        uint64_t offset);
BRICKFS_API int brickfs_ring_fsync(brickfs_ring* ring, int descriptor);

/* ---- queues: many transfers under way in one thread ------------------------------------------------------------- */

/* Requests are submitted, and their completions polled for. No order holds among those under way at the same time.
 *
 * What is submitted with one call travels together. The thread that polls moves the bytes itself, which takes the
 * fewest switches between threads: requests of files up to 64 KiB that were submitted by then travel together. (Larger
 * ones, and what has to wait for something else than the brick's answers, such as a write that makes a file longer, or
 * a sync, begin at once on threads of the file system.) So something may begin only with the poll that waits for it,
 * and a poll with `least` above 0 takes as long as the brick takes to answer. With BRICKFS_QUEUE_BACKGROUND all begins
 * when it is submitted, on other threads; polls keep their timeout, and there is a descriptor for event loops. Each
 * costs a switch of threads. */
#define BRICKFS_QUEUE_BACKGROUND 1u

enum { BRICKFS_READ = 1, BRICKFS_WRITE = 2, BRICKFS_FSYNC = 3 };

typedef struct brickfs_request {
  uint32_t operation; /* BRICKFS_READ, BRICKFS_WRITE; files only: BRICKFS_FSYNC */
  uint32_t count;     /* of vectors; 0: `data`, `length` and `buffer` are meant */
  brickfs_file* file; /* null with blocks and rings */
  uint64_t offset;    /* in the file; with blocks: the address */
  void* data;
  size_t length;
  const brickfs_buffer* buffer;
  const brickfs_vector* vectors; /* with blocks at most 30; not with rings */
  uint64_t user_data;            /* comes back with the completion */
  int64_t descriptor;            /* with rings: the file's; else 0 */
  uint64_t reserved;             /* 0 */
} brickfs_request;

typedef struct brickfs_completion {
  uint64_t user_data;
  int64_t result; /* as of the call that does the same: bytes, 0, or an errno below zero */
} brickfs_completion;

/* At most `depth` (1 to 4096) requests are in it: submitted, and not polled. */
BRICKFS_API int brickfs_volume_queue(brickfs_volume* volume, unsigned depth, unsigned flags, brickfs_queue** queue);
BRICKFS_API int brickfs_fs_queue(brickfs_fs* fs, unsigned depth, unsigned flags, brickfs_queue** queue);
/* `depth` at most 256. All begins when it is submitted, in the mount's process; what the kernel has to do is done by
 * the thread that polls, or, with BRICKFS_QUEUE_BACKGROUND, by one of the queue's. Polls keep their timeout. Requests
 * name a `descriptor`, `data` in the ring's buffer, and at most 4 MiB. */
BRICKFS_API int brickfs_ring_queue(brickfs_ring* ring, unsigned depth, unsigned flags, brickfs_queue** queue);
/* Waits for what is under way; completions that nobody polled for are lost. */
BRICKFS_API int brickfs_queue_free(brickfs_queue* queue);
/* How many of the requests, from the first on, were taken: fewer than `count` only if it is full, then. A request with
 * wrong arguments is taken, and completes with the error. `requests` and their vectors are copied. */
BRICKFS_API int brickfs_submit(brickfs_queue* queue, const brickfs_request* requests, unsigned count);
/* Completions, at most `most`: their number. Waits until there are `least` (bounded by what is under way; 0: collects
 * what is there and does not wait; what was submitted goes on meanwhile), or for `timeout_ms` (below 0: for ever; not
 * looked at without BRICKFS_QUEUE_BACKGROUND, but of a ring). */
BRICKFS_API int brickfs_poll(brickfs_queue* queue, brickfs_completion* completions, unsigned most, unsigned least,
                             int timeout_ms);
/* Of a queue with BRICKFS_QUEUE_BACKGROUND: a descriptor that is readable while there are completions. The queue's own:
 * to be watched, not read or closed. -EINVAL: of another. */
BRICKFS_API int brickfs_queue_descriptor(brickfs_queue* queue);

#ifdef __cplusplus
}
#endif

#endif
