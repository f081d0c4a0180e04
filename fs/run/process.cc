// SPDX-License-Identifier: Apache-2.0
#include "fs/run/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "fs/run/signals.h"
#include "fs/run/transfer.h"
#include "fs/shm_queue/socket.h"

namespace brickfs::run {
namespace {

using shm_queue::Client;

constexpr size_t kMostQueues = 64;
constexpr size_t kMostQueuesOfThread = 4;
constexpr unsigned kCallsBeforeQueue = 16;  // of a thread
constexpr unsigned kMostDoublings = 12;     // of them
constexpr int kOutcomes = 6;
constexpr int kHighDescriptor = 900;

// What is to be one time in a process: trivial, so that it is there before and after all constructors.
struct Process {
  std::atomic<uint64_t>* number;  // 0 in a child that has not noticed yet that it is one: a page that fork() wipes
  std::atomic<uint64_t> next_number;
  std::atomic<uint64_t> queues_so_far;
  std::atomic<uint64_t> queues_asked_for;
  std::atomic<size_t> queue_count;  // with what is being made
  std::array<std::atomic<Client*>, kMostQueues> queues;
  std::array<std::atomic<uint64_t>, kOutcomes> counts;
  pthread_key_t at_thread_end;
  bool is_ready;
  int told;  // where it says what went which way; 0: nowhere
  ino_t told_inode;
  std::array<char, 64> name;  // of the program
};
constinit Process process{};

struct ThreadQueue {
  Client* queue;
  dev_t device;
  uint64_t process;  // in which the thread got it
  uint64_t number;   // of all queues
  uint64_t used;     // when, of all uses
};
struct Thread {
  std::array<ThreadQueue, kMostQueuesOfThread> queues;
  uint64_t uses;
  unsigned calls;  // that found no queue
  unsigned doublings;
  bool ends;
};
constinit thread_local Thread thread{};

void forget(Client* queue) {
  for (auto& known : process.queues) {
    Client* expected = queue;
    if (known.compare_exchange_strong(expected, nullptr)) break;
  }
  --process.queue_count;
}

// The sockets are the parent's, which is not seen to end as long as a child has them, too.
void begin_child() {
  for (auto& known : process.queues) {
    if (Client* const queue = known.exchange(nullptr)) Client::abandon_in_child(std::unique_ptr<Client>(queue));
  }
  process.queue_count = 0;
  process.queues_asked_for = 0;
  process.number->store(++process.next_number);
  for (auto& counted : process.counts) counted = 0;
}

ino_t inode_of(int descriptor) {
  struct stat attributes {};
  return fstat(descriptor, &attributes) == 0 ? attributes.st_ino : 0;
}

// Programs write over their arguments, of which that is a part, to say in ps(1) what they do.
void keep_name() {
  const char* const name = program_invocation_short_name;
  snprintf(process.name.data(), process.name.size(), "%s", name != nullptr ? name : "?");
}

// Changes with fork(): what a thread had before is the parent's. 0: nothing works here.
uint64_t process_number() {
  if (!process.is_ready) return 0;
  const uint64_t number = process.number->load(std::memory_order_relaxed);
  if (number != 0) return number;
  begin_child();  // made by a system call of the program's own
  return process.number->load();
}

bool is_there(const ThreadQueue& place) { return place.queue != nullptr && place.process == process_number(); }

void drop(ThreadQueue& place) {
  Client* const queue = is_there(place) ? place.queue : nullptr;
  place = {};
  if (queue == nullptr) return;
  forget(queue);
  delete queue;
}

void end_thread(void* /*any*/) {
  forget_thread();
  for (ThreadQueue& place : thread.queues) drop(place);
  thread.ends = true;
}

ThreadQueue* find(dev_t device) {
  for (ThreadQueue& place : thread.queues) {
    if (place.device == device && is_there(place)) return &place;
  }
  return nullptr;
}

// As one of those of the process.
Client* make_queue(int descriptor) {
  if (process.queue_count.fetch_add(1) < kMostQueues) {
    ++process.queues_asked_for;
    auto queue = Client::open(descriptor, kQueueBufferBytes, ends_wait);
    for (auto& free : process.queues) {
      Client* none = nullptr;
      if (queue.ok() && free.compare_exchange_strong(none, queue->get())) return queue->release();
    }
  }
  --process.queue_count;
  return nullptr;
}

bool is_time_for_queue() { return ++thread.calls >= kCallsBeforeQueue << thread.doublings; }

void wait_longer_for_queue() {
  thread.calls = 0;
  thread.doublings = std::min(thread.doublings + 1, kMostDoublings);
}

// What is free, or was used least of late.
ThreadQueue& choose_place() {
  return *std::ranges::min_element(thread.queues, {},
                                   [](const ThreadQueue& place) { return is_there(place) ? place.used : 0; });
}

__attribute__((constructor)) void begin_process() {
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK) != 0) return;
  process.number = new (page) std::atomic<uint64_t>(++process.next_number);
  if (pthread_key_create(&process.at_thread_end, end_thread) != 0) return;
  if (pthread_atfork(note_shared, nullptr, begin_child) != 0) return;
  const char* const tells = getenv("BRICKFS_RUN_STATS");
  // Programs may have closed their standard error by the end.
  if (tells != nullptr && strcmp(tells, "1") == 0) {
    process.told = std::max(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, kHighDescriptor), 0);
    process.told_inode = inode_of(process.told);
    keep_name();
  }
  process.is_ready = true;
}

__attribute__((destructor)) void end_process() {
  const auto& counts = process.counts;
  if (process.told == 0 || inode_of(process.told) != process.told_inode ||
      std::ranges::all_of(counts, [](const auto& counted) { return counted == 0; }))
    return;
  dprintf(process.told,
          "brickfs-run: %s (%d): by a ring: %lu reads, %lu writes, %lu syncs; by the kernel: %lu reads, %lu writes, "
          "%lu syncs; rings: %lu\n",
          process.name.data(), static_cast<int>(getpid()), counts[0].load(), counts[2].load(), counts[4].load(),
          counts[1].load(), counts[3].load(), counts[5].load(), process.queues_asked_for.load());
}

}  // namespace

uint64_t thread_queue_number(dev_t device) {
  const ThreadQueue* const found = find(device);
  return found != nullptr ? found->number : 0;
}

bool note_thread() {
  return process_number() != 0 && !thread.ends && pthread_setspecific(process.at_thread_end, &process) == 0;
}

void drop_thread_queue(dev_t device) {
  ThreadQueue* const found = find(device);
  if (found == nullptr) return;
  drop(*found);
  thread.calls = 0;
}

Client* thread_queue(dev_t device) {
  const ThreadQueue* const found = find(device);
  return found != nullptr ? found->queue : nullptr;
}

Client* want_thread_queue(int descriptor, dev_t device) {
  if (ThreadQueue* const found = find(device)) {
    found->used = ++thread.uses;
    return found->queue;
  }
  if (!is_time_for_queue() || !note_thread()) return nullptr;
  Client* const queue = make_queue(descriptor);
  if (queue == nullptr) {
    wait_longer_for_queue();
    return nullptr;
  }
  ThreadQueue& place = choose_place();
  if (is_there(place) && !place.queue->has_ended()) {
    wait_longer_for_queue();
  } else {
    thread.doublings = 0;
  }
  drop(place);
  place = {.queue = queue,
           .device = device,
           .process = process_number(),
           .number = ++process.queues_so_far,
           .used = ++thread.uses};
  return queue;
}

// FUSE file systems have no device, as many others.
bool has_queues(dev_t device) {
  if (major(device) != 0) return false;
  std::array<char, 64> path{};
  snprintf(path.data(), path.size(), "%s/0:%u", shm_queue::kSocketDirectory, minor(device));
  return access(path.data(), W_OK) == 0;
}

void count(Outcome outcome) { process.counts[static_cast<size_t>(outcome)].fetch_add(1, std::memory_order_relaxed); }

}  // namespace brickfs::run
