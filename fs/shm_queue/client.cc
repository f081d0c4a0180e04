// SPDX-License-Identifier: Apache-2.0
#include "fs/shm_queue/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "fs/shm_queue/memory.h"
#include "fs/shm_queue/socket.h"
#include "transport/base/short_wait.h"

namespace brickfs::shm_queue {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookForEnd{100};  // a mount that was killed wakes nobody

// How long somebody waits, and whether he goes on.
class Waiting {
 public:
  explicit Waiting(Client::LetsGo lets_go) : lets_go_(lets_go) {}
  bool is_let_go() const {
    return lets_go_ != nullptr &&
           lets_go_(std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began_));
  }

 private:
  const Client::LetsGo lets_go_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

Error let_go() { return Error(EINTR, "who waited for a mount was let go"); }

// Of what waits on it: so long at once.
bool limit_waits(const UniqueFd& socket) {
  constexpr timeval kMost{.tv_sec = 0, .tv_usec = std::chrono::microseconds(kLookForEnd).count()};
  return ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kMost, sizeof(kMost)) == 0 &&
         ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kMost, sizeof(kMost)) == 0;
}

Result<UniqueFd> connect_to(int descriptor, Client::LetsGo lets_go) {
  struct statx attributes {};  // of which the mount is not asked for any
  if (::statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &attributes) != 0)
    return errno_error("the descriptor of a mount");
  const std::string path =
      socket_path(std::to_string(attributes.stx_dev_major) + ":" + std::to_string(attributes.stx_dev_minor));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  UniqueFd connected(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connected || !limit_waits(connected)) return errno_error("the socket of a queue");
  const Waiting waiting(lets_go);
  int status = 0;
  do {
    status = ::connect(connected.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (status != 0 && (errno == EINTR || (errno == EAGAIN && !waiting.is_let_go())));
  if (status != 0 && errno == EAGAIN) return let_go();
  if (status != 0) return Error(EOPNOTSUPP, "no mount with queues");
  return connected;
}

// What the mount says. No descriptor comes with it.
Result<Reply> receive_reply(const UniqueFd& socket, Client::LetsGo lets_go) {
  const Waiting waiting(lets_go);
  for (;;) {
    Reply reply{};
    UniqueFd nothing;
    const Status received = receive_packet(socket.get(), &reply, sizeof(reply), &nothing);
    if (received.ok()) return reply;
    if (received.code() != EAGAIN) return received.error();
    if (waiting.is_let_go()) return let_go();
  }
}

Result<UniqueFd> make_memory(uint64_t bytes) {
  rlimit limit{};  // holds for it as for files: SIGXFSZ would come
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) return Error(EFBIG, "the memory of a queue");
  UniqueFd memory(memfd_create("brickfs-queue", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return errno_error("the memory of a queue");
  }
  return memory;
}

ino_t inode_of(int descriptor) {
  struct stat attributes {};
  return fstat(descriptor, &attributes) == 0 ? attributes.st_ino : 0;
}

// Out of the way of programs that expect low numbers for theirs.
UniqueFd move_up(UniqueFd descriptor) {
  constexpr rlim_t kHigh = 900;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return descriptor;
  const auto from = static_cast<int>(std::min(kHigh, limit.rlim_cur * 3 / 4));
  UniqueFd moved(fcntl(descriptor.get(), F_DUPFD_CLOEXEC, from));
  return moved ? std::move(moved) : std::move(descriptor);
}

}  // namespace

Client::Client(UniqueFd socket, std::byte* memory, uint64_t bytes, bool kernel_writes, LetsGo lets_go)
    : socket_(std::move(socket)),
      socket_inode_(inode_of(socket_.get())),
      control_(reinterpret_cast<ControlArea*>(memory)),
      memory_bytes_(bytes),
      buffer_(memory + kControlBytes, bytes - kControlBytes),
      kernel_writes_(kernel_writes),
      lets_go_(lets_go) {
  MutexLock lock(mutex_);
  for (size_t i = 0; i < kSlots; ++i) free_[i] = static_cast<uint16_t>(kSlots - 1 - i);
}

Result<std::unique_ptr<Client>> Client::open(int descriptor, uint64_t buffer_bytes, LetsGo lets_go) {
  if (buffer_bytes == 0 || buffer_bytes > kMostBufferBytes) return Error(EINVAL, "the buffer of a queue");
  buffer_bytes = (buffer_bytes + kLeastBufferBytes - 1) / kLeastBufferBytes * kLeastBufferBytes;
  UniqueFd socket = move_up(TRY(connect_to(descriptor, lets_go)));
  const uint64_t bytes = kControlBytes + buffer_bytes;
  const UniqueFd memory = TRY(make_memory(bytes));
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory.get(), 0);
  if (mapped == MAP_FAILED) return errno_error("the memory of a queue");
  madvise(mapped, bytes, MADV_DONTFORK);
  const auto begin = [&]() -> Result<uint32_t> {
    const Message message{.kind = Message::Kind::kBegin, .number = kVersion, .buffer_bytes = buffer_bytes};
    // Who is refused is told why, but then hung up on, maybe before the message is sent, or unheard.
    const Status sent = send_packet(socket.get(), &message, sizeof(message), memory.get());
    auto reply = receive_reply(socket, lets_go);
    if (reply.code() == ENOTCONN) reply = receive_reply(socket, lets_go);
    if (!reply.ok()) return sent.ok() ? reply.error() : sent.error();
    if (reply->result < 0) return Error(-reply->result, "the mount makes no queue");
    return reply->flags;
  };
  const auto begun = begin();
  if (!begun.ok()) {
    munmap(mapped, bytes);
    return begun.error();
  }
  return std::unique_ptr<Client>(
      new Client(std::move(socket), static_cast<std::byte*>(mapped), bytes, (*begun & kKernelWrites) != 0, lets_go));
}

Client::~Client() {
  close_socket();
  munmap(control_, memory_bytes_);
}

bool Client::owns_socket() const { return inode_of(socket_.get()) == socket_inode_; }

void Client::close_socket() {
  if (!owns_socket()) (void)socket_.release();
  socket_.reset();
}

// The memory is not there (MADV_DONTFORK), and a mutex may be some other thread's for ever.
void Client::abandon_in_child(std::unique_ptr<Client> queue) { queue.release()->close_socket(); }

bool Client::has_ended() const {
  if (control_->ended.load() != 0 || !owns_socket()) return true;
  char byte = 0;
  const ssize_t received = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR);
}

// What is under way nobody waits for: the mount sees that we hang up.
Error Client::give_up() {
  control_->ended.store(1);
  if (owns_socket()) ::shutdown(socket_.get(), SHUT_RDWR);
  return let_go();
}

void Client::wake_mount() {
  if (control_->sleeps.load() != 0 && control_->sleeps.exchange(0) != 0) futex_wake(control_->sleeps);
}

Result<uint32_t> Client::add_file(int descriptor) {
  const Message message{.kind = Message::Kind::kFile, .number = 0, .buffer_bytes = 0};
  MutexLock lock(saying_);
  if (has_ended()) return Error(ENOTCONN, "the queue has ended");
  TRY(send_packet(socket_.get(), &message, sizeof(message), descriptor));
  control_->said.fetch_add(1);
  wake_mount();
  const auto reply = receive_reply(socket_, lets_go_);
  if (reply.code() == EINTR) return give_up();
  if (!reply.ok()) return reply.error();
  if (reply->result < 0) return Error(-reply->result, "the mount does not take the file");
  const auto file = static_cast<uint32_t>(reply->result);
  if (file >= kMostFiles) return Error(EPROTO, "the number of a file");
  is_cached_[file] = false;
  return file;
}

void Client::forget_file(uint32_t file) {
  const Message message{.kind = Message::Kind::kForget, .number = file, .buffer_bytes = 0};
  MutexLock lock(saying_);
  if (has_ended()) return;
  const Waiting waiting(lets_go_);
  while (send_packet(socket_.get(), &message, sizeof(message)).code() == EAGAIN) {
    if (waiting.is_let_go()) return (void)give_up();
    pollfd room{socket_.get(), POLLOUT, 0};
    ::poll(&room, 1, kLookForEnd.count());
  }
  control_->said.fetch_add(1);
  wake_mount();
}

Result<uint64_t> Client::ask_kernel(const Request& request, std::byte* data) {
  ssize_t done = 0;
  const auto offset = static_cast<off_t>(request.offset);
  switch (request.operation) {
    case Operation::kRead:
      done = ::pread(request.descriptor, data, request.length, offset);
      break;
    case Operation::kWrite:
      done = ::pwrite(request.descriptor, data, request.length, offset);
      break;
    case Operation::kFsync:
      done = ::fsync(request.descriptor);
      break;
  }
  if (done < 0) return errno_error("the kernel");
  return static_cast<uint64_t>(done);
}

Result<uint64_t> Client::by_kernel(const Request& request) const {
  return ask_kernel(request, buffer_.data() + request.buffer_offset);
}

bool Client::is_for_kernel(const Request& request) const {
  return kernel_writes_ && request.operation != Operation::kRead;
}

Status Client::write_back(const Request& request) const {
  constexpr unsigned kAll = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  int status = 0;
  do {
    status = ::sync_file_range(request.descriptor, static_cast<off_t>(request.offset), request.length, kAll);
  } while (status != 0 && errno == EINTR);
  if (status != 0) return errno_error("the kernel's pages");
  return {};
}

Result<uint64_t> Client::run(const Request& request) {
  const auto done = try_run(request);
  return done ? *done : by_kernel(request);
}

std::optional<Result<uint64_t>> Client::try_run(const Request& request) {
  if (is_for_kernel(request)) return std::nullopt;
  const auto slot = start(request);
  if (slot.code() == EAGAIN) return std::nullopt;
  if (!slot.ok()) return slot.error();
  for (;;) {
    if (!wait(*slot, 0, std::nullopt)) return give_up();
    if (is_left_to_kernel(*slot)) {
      release(*slot);
      return std::nullopt;
    }
    if (auto result = poll(*slot)) return result;
  }
}

Result<uint32_t> Client::start(const Request& request) {
  uint32_t slot = 0;
  {
    MutexLock lock(mutex_);
    if (free_count_ == 0) return Error(EAGAIN, "all slots are taken");
    slot = free_[--free_count_];
  }
  requests_[slot] = request;
  if (is_for_kernel(request)) {
    control_->answers[slot].verdict.store(Verdict::kByKernel);
    return slot;
  }
  const bool first_back = kernel_writes_ || is_cached_[request.file % kMostFiles];
  const bool writes_back = first_back && !request.is_clean && request.operation != Operation::kFsync;
  Status submitted = writes_back ? write_back(request) : Status();
  if (submitted.ok()) submitted = submit(slot, writes_back || request.is_clean);
  if (submitted.ok()) return slot;
  release(slot);
  return submitted.error();
}

Status Client::submit(uint32_t slot, bool written_back) {
  if (control_->ended.load() != 0) return Error(ENOTCONN, "the queue has ended");
  const Request& request = requests_[slot];
  control_->answers[slot].verdict.store(Verdict{});
  const Entry entry{.slot = slot,
                    .operation = request.operation,
                    .file = request.file,
                    .flags = written_back ? kWrittenBack : 0,
                    .offset = request.offset,
                    .buffer_offset = request.buffer_offset,
                    .length = request.length,
                    .unused = {}};
  {
    MutexLock lock(mutex_);
    control_->entries[submitted_ % kSlots] = entry;
    control_->submitted.store(++submitted_);
  }
  wake_mount();
  return {};
}

void Client::release(uint32_t slot) {
  MutexLock lock(mutex_);
  free_[free_count_++] = static_cast<uint16_t>(slot);
}

std::optional<Result<uint64_t>> Client::poll(uint32_t slot) {
  auto result = look(slot);
  if (result) release(slot);
  return result;
}

// With a write-back cache it alone knows where a file ends.
bool Client::is_left_to_kernel(uint32_t slot) const {
  const Request& request = requests_[slot];
  const Answer& answer = control_->answers[slot];
  const Verdict verdict = answer.verdict.load();
  if (verdict != Verdict::kDone && verdict != Verdict::kDoneCached) return verdict == Verdict::kByKernel;
  return kernel_writes_ && request.operation == Operation::kRead && answer.number >= 0 &&
         answer.number < int64_t{request.length};
}

std::optional<Result<uint64_t>> Client::look(uint32_t slot) {
  if (!is_answered(slot)) {
    if (control_->ended.load() == 0 || is_answered(slot)) return std::nullopt;
    return Error(ENOTCONN, "the queue has ended");
  }
  const Request& request = requests_[slot];
  const int64_t number = control_->answers[slot].number;
  switch (control_->answers[slot].verdict.load()) {
    case Verdict::kWriteBack: {
      is_cached_[request.file % kMostFiles] = true;
      Status again = write_back(request);
      if (again.ok()) again = submit(slot, true);
      if (again.ok()) return std::nullopt;
      return again.error();
    }
    case Verdict::kByKernel:
      break;
    case Verdict::kDone:
      is_cached_[request.file % kMostFiles] = false;
      break;
    case Verdict::kDoneCached:
      break;
  }
  if (is_left_to_kernel(slot)) return by_kernel(request);
  if (number < 0) return Error(static_cast<int>(-number), "by the mount");
  return static_cast<uint64_t>(number);
}

bool Client::wait(uint32_t slot, uint32_t seen, std::optional<Clock::time_point> deadline) {
  thread_local ShortWait short_wait(ShortWait::kForMessage);
  const auto comes = [&] {
    return (slot == kAnySlot ? answers() != seen : is_answered(slot)) || control_->ended.load() != 0;
  };
  short_wait.begin();
  const Waiting waiting(lets_go_);
  // Not on the processor on which it is to be done: who polls there holds it up, yield as he may.
  const bool shares = control_->processor.load() == static_cast<uint32_t>(sched_getcpu());
  bool has_come = shares ? comes() : short_wait.poll(comes);
  while (!has_come && !waiting.is_let_go()) {
    auto most = kLookForEnd;
    if (deadline) {
      const auto left = std::chrono::ceil<milliseconds>(*deadline - Clock::now());
      if (left <= milliseconds(0)) break;
      most = std::min(most, left);
    }
    control_->waiters.fetch_add(1);
    const uint32_t now = answers();
    has_come = comes();
    if (!has_come) futex_wait(control_->answered, now, most);
    control_->waiters.fetch_sub(1);
    has_come = has_come || comes();
    if (!has_come && has_ended()) control_->ended.store(1);
    has_come = has_come || control_->ended.load() != 0;
  }
  short_wait.end();
  return has_come;
}

}  // namespace brickfs::shm_queue
