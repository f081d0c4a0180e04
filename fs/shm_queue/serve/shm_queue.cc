// SPDX-License-Identifier: Apache-2.0
#include "fs/shm_queue/serve/shm_queue.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "fs/shm_queue/memory.h"
#include "fs/shm_queue/serve/program.h"
#include "fs/shm_queue/socket.h"
#include "transport/base/log.h"

namespace brickfs {

using shm_queue::ControlArea;
using shm_queue::Reply;

// The program's memory, as we have it. Sealed, so that it does not become less under our hands; a tmpfs's, whose pages
// never fail to come; all there, so that none is taken from our own.
struct ShmQueue::Memory {
  static Result<std::unique_ptr<Memory>> map(const UniqueFd& from, uint64_t buffer_bytes);
  ~Memory() {
    registration = RegisteredMemory();
    if (!bytes.empty()) munmap(bytes.data(), bytes.size());
  }
  ControlArea& control() const { return *reinterpret_cast<ControlArea*>(bytes.data()); }

  MemoryShares::Share share;
  std::span<std::byte> bytes;
  RegisteredMemory registration;
};

namespace {

// Nobody makes holes in it any more, and there are none. Needs a mapping already: there are no more that write.
Status keep_whole(const UniqueFd& memory, uint64_t length) {
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return errno_error("the memory of a queue");
  const off_t hole = ::lseek(memory.get(), 0, SEEK_HOLE);
  if (hole < 0) return errno_error("the memory of a queue");
  if (static_cast<uint64_t>(hole) < length) return Error(ENOMEM, "the memory of a queue has not come");
  return {};
}

}  // namespace

Result<std::unique_ptr<ShmQueue::Memory>> ShmQueue::Memory::map(const UniqueFd& from, uint64_t buffer_bytes) {
  if (buffer_bytes < shm_queue::kLeastBufferBytes || buffer_bytes > shm_queue::kMostBufferBytes ||
      buffer_bytes % shm_queue::kLeastBufferBytes != 0) {
    return Error(EINVAL, "the buffer of a queue");
  }
  const int seals = ::fcntl(from.get(), F_GET_SEALS);  // of nothing else than a memfd
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return Error(EINVAL, "memory that may shrink");
  struct stat attributes {};
  struct statfs kind {};
  if (::fstat(from.get(), &attributes) != 0 || ::fstatfs(from.get(), &kind) != 0)
    return errno_error("the memory of a queue");
  const uint64_t length = shm_queue::kControlBytes + buffer_bytes;
  if (static_cast<long>(kind.f_type) != TMPFS_MAGIC || static_cast<uint64_t>(attributes.st_size) < length)
    return Error(EINVAL, "memory that is not as it is said to be");
  void* const mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, from.get(), 0);
  if (mapped == MAP_FAILED) return errno_error("the memory of a queue");
  auto memory = std::make_unique<Memory>();
  memory->bytes = {static_cast<std::byte*>(mapped), length};
  TRY(keep_whole(from, length));
  return memory;
}

ShmQueue::ShmQueue(Mount& mount, const Peer& peer, UniqueFd socket)
    : mount_(mount), peer_(peer), socket_(std::move(socket)) {}

// What the program has said and nobody has heard goes with the socket, and with that its descriptors.
ShmQueue::~ShmQueue() {
  if (thread_.joinable()) thread_.join();
  (void)close_elsewhere(std::move(socket_));
}

Status ShmQueue::start() {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return Error(error.code().value(), "a thread for a queue");
  }
  return {};
}

void ShmQueue::interrupt() {
  interrupted_ = true;
  if (ShmQueueRequests* const requests = at_work_) requests->interrupt();
  wake();
}

void ShmQueue::end() {
  is_to_end_ = true;
  wake();
}

// Who is at work has its memory.
void ShmQueue::wake() {
  if (at_work_ == nullptr) return;
  memory_->control().sleeps.store(0);
  shm_queue::futex_wake(memory_->control().sleeps);
}

void ShmQueue::run() {
  Status status = begin();
  if (status.ok()) {
    at_work_ = requests_.get();
    if (interrupted_) requests_->interrupt();
    status = serve();
  }
  if (status.code() != ENOTCONN && status.code() != ECANCELED)
    log::debug("the queue of process {} ends: {}", peer_.pid, describe(status.error()));
  if (memory_ != nullptr) {
    ControlArea& control = memory_->control();
    control.ended.store(1);
    control.answered.fetch_add(1);
    shm_queue::futex_wake(control.answered);
  }
  ::shutdown(socket_.get(), SHUT_RDWR);
  ended_ = true;
  mount_.on_end();
}

Status ShmQueue::map_memory(UniqueFd& memory, const shm_queue::Message& message) {
  if (message.kind != shm_queue::Message::Kind::kBegin || message.number != shm_queue::kVersion)
    return Error(EPROTO, "another version of queues");
  auto mapped = TRY(Memory::map(memory, message.buffer_bytes));
  mapped->share = TRY(mount_.shares.take(peer_.uid, mapped->bytes.size()));
  mapped->registration =
      TRY(mount_.session.files().volume().register_memory(mapped->bytes.subspan(shm_queue::kControlBytes)));
  memory_ = std::move(mapped);
  return {};
}

// Until the program has said what it wants, and has been answered.
Status ShmQueue::begin() {
  shm_queue::Message message{};
  UniqueFd memory;
  for (;;) {
    const Status received = receive(message, memory);
    if (received.ok()) break;
    if (received.code() == EMFILE) (void)answer(-EMFILE);
    if (received.code() != EAGAIN) {
      (void)close_elsewhere(std::move(memory));
      return received;
    }
    std::array<pollfd, 2> watched = {{{socket_.get(), POLLIN, 0}, {mount_.stopped, POLLIN, 0}}};
    (void)!::poll(watched.data(), watched.size(), -1);
    if (watched[1].revents != 0) return Error(ECANCELED, "all queues end");
  }
  const Status mapped = map_memory(memory, message);
  const Status closed = memory_ != nullptr ? Status() : close_elsewhere(std::move(memory));
  if (!mapped.ok() || !closed.ok()) {
    (void)answer(mapped.ok() ? -closed.code() : -mapped.code());
    return mapped.ok() ? closed : mapped;
  }
  requests_ = std::make_unique<ShmQueueRequests>(mount_.session, peer_.pid, memory_->bytes,
                                                 memory_->registration.local_key(), mount_.writes_by_kernel);
  taken_ = memory_->control().submitted.load();
  heard_ = memory_->control().said.load();
  const Reply reply{.result = 0, .flags = mount_.session.writeback() != nullptr ? shm_queue::kKernelWrites : 0};
  return shm_queue::send_packet(socket_.get(), &reply, sizeof(reply));
}

Status ShmQueue::serve() {
  for (;;) {
    const size_t served = TRY(serve_submitted());
    if (memory_->control().said.load() != heard_) TRY(hear());
    if (interrupted_) return Error(ENOTCONN, "the program has gone");
    if (is_to_end_) return Error(ECANCELED, "all queues end");
    if (served == 0) wait();
  }
}

Result<size_t> ShmQueue::serve_submitted() {
  ControlArea& control = memory_->control();
  const uint32_t there = control.submitted.load() - taken_;
  if (there > shm_queue::kSlots) return Error(EPROTO, "more is submitted than there is room for");
  std::array<shm_queue::Entry, ShmQueueRequests::kMostTogether> entries;
  const size_t count = std::min<size_t>(there, entries.size());
  if (count > 0) control.processor.store(static_cast<uint32_t>(sched_getcpu()));
  for (size_t i = 0; i < count; ++i) entries[i] = shm_queue::take(control.entries[taken_++ % shm_queue::kSlots]);
  if (count > 0) TRY(requests_->serve(std::span(entries).first(count)));
  return count;
}

bool ShmQueue::has_news() const {
  const ControlArea& control = memory_->control();
  return control.submitted.load() != taken_ || control.said.load() != heard_ || interrupted_ || is_to_end_;
}

void ShmQueue::sleep() {
  std::atomic<uint32_t>& sleeps = memory_->control().sleeps;
  sleeps.store(1);
  if (!has_news()) shm_queue::futex_wait(sleeps, 1);
  sleeps.store(0);
}

void ShmQueue::wait() {
  short_wait_.begin();
  if (requests_->take_woke() || !short_wait_.poll([this] { return has_news(); })) sleep();
  short_wait_.end();
}

// All that has been said; who talks without end is not listened to when the queue is to end.
Status ShmQueue::hear() {
  heard_ = memory_->control().said.load();
  while (!interrupted_ && !is_to_end_) {
    shm_queue::Message message{};
    UniqueFd descriptor;
    const Status received = receive(message, descriptor);
    if (received.code() == EAGAIN) return {};
    const bool is_whole = received.ok() || received.code() == EMFILE;
    if (!is_whole || message.kind != shm_queue::Message::Kind::kFile) TRY(close_elsewhere(std::move(descriptor)));
    if (!is_whole) return received;
    switch (message.kind) {
      case shm_queue::Message::Kind::kFile: {
        const auto file = received.ok() ? show(std::move(descriptor)) : received.error();
        TRY(answer(file.ok() ? *file : -file.code()));
        break;
      }
      case shm_queue::Message::Kind::kForget:
        requests_->forget_file(message.number);
        break;
      default:
        return Error(EPROTO, "a message that there is not");
    }
  }
  return {};
}

// Also with an error there may be a descriptor.
Status ShmQueue::receive(shm_queue::Message& message, UniqueFd& descriptor) {
  std::vector<UniqueFd> others;
  const Status received = shm_queue::receive_packet(socket_.get(), &message, sizeof(message), &descriptor, &others);
  TRY(close_elsewhere(std::move(others)));
  return received;
}

Status ShmQueue::answer(int32_t result) {
  const Reply reply{.result = result, .flags = 0};
  return shm_queue::send_packet(socket_.get(), &reply, sizeof(reply));
}

// Whoever has a file open of another file system may have that one's server, too; it may be one that shows itself to
// its own user only, so every error may hide it.
Result<int32_t> ShmQueue::show(UniqueFd descriptor) {
  if (!descriptor) return Error(EBADF, "no descriptor");
  const auto file = inspect_file(descriptor.get(), mount_.device_number);
  if (!file.ok()) {
    TRY(close_elsewhere(std::move(descriptor)));
    return file.error();
  }
  return static_cast<int32_t>(TRY(requests_->add_file(*file)));
}

}  // namespace brickfs
