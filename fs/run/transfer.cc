// SPDX-License-Identifier: Apache-2.0
#include "fs/run/transfer.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cerrno>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include "fs/run/process.h"
#include "fs/run/program_memory.h"
#include "fs/run/signals.h"

namespace brickfs::run {
namespace {

using shm_queue::Client;
using shm_queue::Operation;

constexpr size_t kMostBytes = 128 * 1024;  // of a call: the kernel moves more at once, and copies nothing twice
constexpr size_t kMostParts = 64;
constexpr unsigned kCallsBeforeFile = 8;  // of a file
constexpr size_t kFiles = 64;             // that a thread remembers
constexpr uint64_t kPage = 4096;
constexpr uint64_t kRegion = 256 * 1024;  // that the kernel drops together (fs/inode/cached_regions.h)
constexpr size_t kMostDescriptors = 65'536;

// --- descriptors, by number: only what may be wrong without harm, or cannot be
struct Descriptor {
  std::atomic<bool> is_other;       // no file of a mount with queues, when it was looked at
  std::atomic<uint32_t> opened_in;  // by this process, when it had that number of shares; 0: not that we know
};
constinit std::array<Descriptor, kMostDescriptors> descriptors{};
constinit std::atomic<uint32_t> shares{1};
constinit std::atomic<bool> is_confined{false};

Descriptor* find_descriptor(int number) {
  return number >= 0 && static_cast<size_t>(number) < kMostDescriptors ? &descriptors[static_cast<size_t>(number)]
                                                                       : nullptr;
}

// --- files, as a thread remembers them
struct RememberedFile {
  ino_t ino;
  dev_t device;
  int flags;  // of open(2), as it was shown to the queue
  unsigned calls;
  uint32_t number;              // of the queue
  uint64_t shown_in;            // which queue that is (thread_queue_number()); 0: it was shown to none
  std::bitset<32'768> touched;  // pages that were read, more or less
  unsigned touched_count;
};

struct Thread {
  bool is_inside;                     // in a call already: this is of what it calls, or of the handler of a fault in it
  dev_t device;                       // known to have queues
  RememberedFile* files;              // kFiles; null: no memory for them
  std::array<off_t, kFiles> read_to;  // where the last read ended: of the file at that place, more or less
};
constinit thread_local Thread thread{};

class ErrnoStays {
 public:
  ErrnoStays() : errno_(errno) {}
  ~ErrnoStays() { errno = errno_; }
  ErrnoStays(const ErrnoStays&) = delete;
  ErrnoStays& operator=(const ErrnoStays&) = delete;

 private:
  const int errno_;
};

class Inside {
 public:
  Inside() {
    thread.is_inside = true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  }
  ~Inside() {
    pthread_setcancelstate(cancel_state_, nullptr);
    thread.is_inside = false;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  int cancel_state_ = 0;
};

struct Target {
  ino_t ino;
  dev_t device;
  int flags;
  off_t size;
  bool has_set_id_bits;
};

// Asks nobody but the kernel: neither who serves the file system, nor what it knows already.
std::optional<Target> look_at(int number, Descriptor& descriptor) {
  struct statx attributes {};
  constexpr unsigned kWanted = STATX_TYPE | STATX_MODE | STATX_INO | STATX_SIZE;
  if (::statx(number, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, kWanted, &attributes) != 0) return std::nullopt;
  const dev_t device = makedev(attributes.stx_dev_major, attributes.stx_dev_minor);
  if (!S_ISREG(attributes.stx_mode) || (device != thread.device && !has_queues(device))) {
    descriptor.is_other = true;
    return std::nullopt;
  }
  thread.device = device;
  const int flags = ::fcntl(number, F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0) return std::nullopt;
  return Target{.ino = attributes.stx_ino,
                .device = device,
                .flags = flags,
                .size = static_cast<off_t>(attributes.stx_size),
                .has_set_id_bits = (attributes.stx_mode & (S_ISUID | S_ISGID)) != 0};
}

// What a queue is shown of a file's flags.
int shown_flags(int flags) { return flags & (O_ACCMODE | O_APPEND | O_SYNC | O_DSYNC | O_NOATIME); }

bool begin_files() {
  if (thread.files != nullptr) return true;
  if (!note_thread()) return false;
  void* const memory =
      mmap(nullptr, kFiles * sizeof(RememberedFile), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  thread.files = static_cast<RememberedFile*>(memory);
  return true;
}

bool is_shown(const RememberedFile& file) {
  return file.shown_in != 0 && file.shown_in == thread_queue_number(file.device);
}

// Among what a thread remembers of files.
size_t place_of(const Target& target) {
  const auto flags = static_cast<uint64_t>(shown_flags(target.flags));
  static_assert(kFiles == 1u << (64 - 58));
  return ((target.ino * 31 + target.device * 7 + flags) * 0x9E3779B97F4A7C15u) >> 58;
}

bool is_of(const RememberedFile& file, const Target& target) {
  return file.ino == target.ino && file.device == target.device && file.flags == shown_flags(target.flags);
}

RememberedFile& remember(const Target& target) {
  RememberedFile& file = thread.files[place_of(target)];
  if (is_of(file, target)) return file;
  if (is_shown(file)) thread_queue(file.device)->forget_file(file.number);
  new (&file) RememberedFile{};
  file.ino = target.ino;
  file.device = target.device;
  file.flags = shown_flags(target.flags);
  return file;
}

// Linux 6.5; where there is none all is cached, as far as we know.
bool is_cached(int descriptor, off_t offset, size_t length) {
  constexpr long kCachestat = 451;
  struct {
    uint64_t offset, length;
  } range{static_cast<uint64_t>(offset), length};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } pages{};
  if (::syscall(kCachestat, descriptor, &range, &pages, 0) != 0) return true;
  return pages.cached > 0 || pages.dirty > 0 || pages.writeback > 0;
}

// Of a page: whether it was read before.
bool touch(RememberedFile& file, off_t offset) {
  const uint64_t page = static_cast<uint64_t>(offset) / kPage;
  const size_t bit = (page * 0x9E3779B97F4A7C15u) >> 49;
  if (file.touched_count > file.touched.size() / 2) {
    file.touched.reset();
    file.touched_count = 0;
  }
  if (file.touched.test(bit)) return true;
  file.touched.set(bit);
  ++file.touched_count;
  return false;
}

bool goes_on(const Target& target, off_t offset, size_t length) {
  return std::exchange(thread.read_to[place_of(target)], offset + static_cast<off_t>(length)) == offset;
}

bool is_for_read(const Target& target, int descriptor, off_t offset, size_t length) {
  const bool is_in_order = goes_on(target, offset, length);
  if (offset >= target.size || (target.flags & O_ACCMODE) == O_WRONLY) return false;
  return (target.flags & O_DIRECT) != 0 || (!is_in_order && !is_cached(descriptor, offset, length));
}

bool is_for_write(const Target& target, int descriptor, off_t offset, size_t length) {
  if ((target.flags & O_ACCMODE) == O_RDONLY || (target.flags & O_APPEND) != 0 || target.has_set_id_bits) return false;
  if (offset > target.size || static_cast<off_t>(length) > target.size - offset) return false;
  if ((target.flags & O_DIRECT) != 0) return true;
  const off_t from = offset - offset % static_cast<off_t>(kRegion);
  return !is_cached(descriptor, from, static_cast<size_t>(offset - from) + length + kRegion - 1);
}

// Where a call's bytes are in the program's memory.
class Parts {
 public:
  // As they are now; none, if they are not there, or too many.
  explicit Parts(const Call& call) {
    if (call.count <= 0 || static_cast<size_t>(call.count) > parts_.size()) return;
    const std::span wanted = std::span(parts_).first(static_cast<size_t>(call.count));
    const iovec array{const_cast<iovec*>(call.parts), wanted.size_bytes()};
    if (call.parts_are_ours) {
      std::copy_n(call.parts, wanted.size(), wanted.begin());
    } else if (!copy_from_program({&array, 1}, std::as_writable_bytes(wanted).data(), array.iov_len)) {
      return;
    }
    count_ = wanted.size();
  }
  std::span<const iovec> get() const { return std::span(parts_).first(count_); }
  // All together, if they are not too many.
  std::optional<size_t> bytes() const {
    size_t bytes = 0;
    for (const iovec& part : get()) {
      if (part.iov_len > kMostBytes - bytes) return std::nullopt;
      bytes += part.iov_len;
    }
    return bytes;
  }

 private:
  std::array<iovec, kMostParts> parts_;
  size_t count_ = 0;
};

// The queue, once it is worth it; with the file shown to it.
Client* queue_for(RememberedFile& file, const Target& target, int descriptor) {
  if (++file.calls < kCallsBeforeFile) return nullptr;
  Client* const queue = want_thread_queue(descriptor, target.device);
  if (queue == nullptr || is_shown(file)) return queue;
  const auto number = queue->add_file(descriptor);
  if (!number.ok()) {
    if (queue->has_ended()) drop_thread_queue(target.device);
    file.calls = 0;
    return nullptr;
  }
  file.number = *number;
  file.shown_in = thread_queue_number(file.device);
  return queue;
}

// Of the queue, or what the mount has of it: the kernel may do better. All else it would say again, after as long a
// wait.
bool is_of_queue(int code) {
  return code == ENOTCONN || code == ECANCELED || code == EINVAL || code == EBADF || code == ENOMEM;
}

// Bytes, or an errno below zero.
std::optional<ssize_t> run(Client& queue, RememberedFile& file, const Client::Request& request) {
  const auto result = queue.try_run(request);
  if (!result) return std::nullopt;
  if (result->ok()) return static_cast<ssize_t>(**result);
  if (queue.has_ended()) drop_thread_queue(file.device);
  file.calls = 0;
  return is_of_queue(result->code()) ? std::nullopt : std::optional<ssize_t>(-result->code());
}

std::optional<ssize_t> sync(RememberedFile& file, const Target& target, int descriptor) {
  if (!is_shown(file) || (target.flags & O_DIRECT) == 0) return std::nullopt;  // else it may have pages to write back
  Client* const queue = thread_queue(file.device);
  return run(*queue, file, {.operation = Operation::kFsync, .descriptor = descriptor, .file = file.number});
}

// Nobody else moves it meanwhile.
bool owns_position(const Descriptor& descriptor) {
  return __libc_single_threaded != 0 && descriptor.opened_in == shares;
}

std::optional<off_t> offset_of(const Call& call, const Descriptor& descriptor) {
  if (!call.at_position) return call.offset;
  if (!owns_position(descriptor)) return std::nullopt;
  const off_t position = ::lseek(call.descriptor, 0, SEEK_CUR);
  return position >= 0 ? std::optional(position) : std::nullopt;
}

// As far as the file's size, flags and pages tell. A signal handler finds nothing half done here.
bool may_help(const Call& call, const Target& target, off_t offset, size_t length) {
  return call.way == Way::kReading ? is_for_read(target, call.descriptor, offset, length)
                                   : is_for_write(target, call.descriptor, offset, length);
}

std::optional<ssize_t> move(const Call& call, const Parts& parts, size_t length, const Descriptor& descriptor,
                            const Target& target) {
  const SignalsHeld held;
  const Inside inside;
  if (!begin_files()) return std::nullopt;
  RememberedFile& file = remember(target);
  if (call.way == Way::kSyncing) return sync(file, target, call.descriptor);
  const auto offset = offset_of(call, descriptor);
  if (!offset || (call.at_position && !may_help(call, target, *offset, length))) return std::nullopt;
  const bool reads = call.way == Way::kReading;
  if (reads && (target.flags & O_DIRECT) == 0 && touch(file, *offset)) return std::nullopt;
  Client* const queue = queue_for(file, target, call.descriptor);
  if (queue == nullptr || (!reads && queue->kernel_writes())) return std::nullopt;
  if (!reads && !copy_from_program(parts.get(), queue->buffer().data(), length)) return std::nullopt;
  const auto moved = run(*queue, file,
                         {.operation = reads ? Operation::kRead : Operation::kWrite,
                          .descriptor = call.descriptor,
                          .file = file.number,
                          .offset = static_cast<uint64_t>(*offset),
                          .buffer_offset = 0,
                          .length = static_cast<uint32_t>(length),
                          .is_clean = (target.flags & O_DIRECT) == 0});
  if (!moved || *moved < 0) return moved;
  if (reads && !copy_to_program(parts.get(), queue->buffer().data(), static_cast<size_t>(*moved))) return std::nullopt;
  if (call.at_position) (void)::lseek(call.descriptor, *offset + *moved, SEEK_SET);
  return moved;
}

// Signals have to wait only where a queue may be used, or a position.
std::optional<ssize_t> try_queue_of(const Call& call, const Descriptor& descriptor, const Target& target) {
  const Parts parts(call);
  const auto length = parts.bytes();
  if (call.way != Way::kSyncing) {
    if (!length || *length == 0) return std::nullopt;
    if (call.at_position && !owns_position(descriptor)) return std::nullopt;
    if (!call.at_position && (call.offset < 0 || !may_help(call, target, call.offset, *length))) return std::nullopt;
  }
  return move(call, parts, *length, descriptor, target);
}

}  // namespace

void note_opened(int number) {
  Descriptor* const descriptor = find_descriptor(number);
  if (descriptor == nullptr) return;
  descriptor->is_other = false;
  descriptor->opened_in = shares.load();
}

void note_copied(int from, int number) {
  const Descriptor* const original = find_descriptor(from);
  Descriptor* const descriptor = find_descriptor(number);
  if (descriptor == nullptr) return;
  descriptor->is_other = false;
  descriptor->opened_in = original != nullptr ? original->opened_in.load() : 0;
}

void forget_thread() {
  thread.is_inside = true;  // for good
  if (thread.files != nullptr) munmap(thread.files, kFiles * sizeof(RememberedFile));
  thread.files = nullptr;
}

void note_shared() { shares.fetch_add(1); }

void note_confined() { is_confined = true; }

void note_passed() {
  if (!thread.is_inside) note_shared();
}

std::optional<ssize_t> try_queue(const Call& call) {
  Descriptor* const descriptor = find_descriptor(call.descriptor);
  if (descriptor == nullptr || descriptor->is_other || thread.is_inside || is_confined) return std::nullopt;
  const ErrnoStays errno_stays;
  const auto target = look_at(call.descriptor, *descriptor);
  if (!target) return std::nullopt;
  const auto done = try_queue_of(call, *descriptor, *target);
  const int ways = 2 * static_cast<int>(call.way);
  static_assert(static_cast<int>(Outcome::kWrittenByQueue) == 2 * static_cast<int>(Way::kWriting));
  count(static_cast<Outcome>(ways + (done ? 0 : 1)));
  return done;
}

}  // namespace brickfs::run
