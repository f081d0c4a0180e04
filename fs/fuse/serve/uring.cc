// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/uring.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include "transport/base/log.h"

namespace brickfs {

namespace {

constexpr const char* kSwitches = "/sys/module/fuse/parameters";
constexpr const char* kSwitch = "/sys/module/fuse/parameters/enable_uring";

// 'Y', 'N'; 0: this kernel has none.
char read_switch() {
  std::ifstream setting(kSwitch);
  char value = 0;
  setting >> value;
  return value;
}

bool write_switch(char value) { return static_cast<bool>(std::ofstream(kSwitch) << value << std::flush); }

}  // namespace

// Its module is there once somebody has opened its device.
std::optional<std::string> UringSwitch::obstacle(bool turn_on) {
  if (::access(kSwitches, F_OK) != 0) UniqueFd(::open("/dev/fuse", O_RDWR | O_CLOEXEC)).reset();
  locked_.reset(::open(kSwitch, O_RDONLY | O_CLOEXEC));
  if (!locked_ && ::access(kSwitches, F_OK) != 0)
    return fmt::format("whether this kernel's FUSE has io_uring cannot be seen: there is no {} here", kSwitches);
  if (!locked_) return "this kernel's FUSE has no io_uring (Linux 6.14 has)";
  ::flock(locked_.get(), turn_on ? LOCK_EX : LOCK_SH);
  if (read_switch() == 'Y') return std::nullopt;
  turned_on_ = turn_on && write_switch('Y');
  if (turned_on_) return std::nullopt;
  locked_.reset();
  return fmt::format("FUSE over io_uring is switched off here; as root: echo Y > {}", kSwitch);
}

void UringSwitch::done() {
  if (turned_on_ && read_switch() == 'Y' && !write_switch('N')) log::warn("cannot put {} back to N", kSwitch);
  turned_on_ = false;
  locked_.reset();
}

namespace {

// "0-3" or "0": the numbers that CPUs may have.
size_t highest_cpu() {
  std::ifstream possible("/sys/devices/system/cpu/possible");
  std::string list;
  possible >> list;
  const size_t last = list.find_last_of("-,");
  return std::strtoul(list.c_str() + (last == std::string::npos ? 0 : last + 1), nullptr, 10);
}

}  // namespace

size_t FuseUring::queues() { return highest_cpu() + 1; }

Result<std::unique_ptr<FuseUring>> FuseUring::make(int device, int stopped, size_t entries) {
  std::unique_ptr<FuseUring> uring(new FuseUring(device, stopped));
  TRY(uring->begin(entries + 1));
  return uring;
}

FuseUring::~FuseUring() {
  if (has_uring_) io_uring_queue_exit(&uring_);
}

// Made by one thread, used by another: the uring starts when that one enables it.
Status FuseUring::begin(size_t entries) {
  io_uring_params params{};
  params.flags =
      IORING_SETUP_SQE128 | IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  const int failed = io_uring_queue_init_params(static_cast<unsigned>(entries), &uring_, &params);
  if (failed < 0) return Error(-failed, "io_uring");
  has_uring_ = true;
  return {};
}

// liburing 2.3 declares io_uring_enable_rings(), but does not export it.
Status FuseUring::enable() {
  if (syscall(SYS_io_uring_register, uring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) != 0) {
    return errno_error("io_uring");
  }
  enabled_ = true;
  io_uring_sqe* const sqe = io_uring_get_sqe(&uring_);
  io_uring_prep_poll_add(sqe, stopped_, POLLIN);
  io_uring_sqe_set_data(sqe, nullptr);
  return {};
}

Status FuseUring::offer(FuseUringRequest& entry) {
  if (!enabled_) TRY(enable());
  io_uring_sqe* const sqe = io_uring_get_sqe(&uring_);
  if (sqe == nullptr) return Error(EOVERFLOW, "io_uring");
  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, device_, nullptr, 0, 0);
  entry.put_command(*sqe);
  io_uring_sqe_set_data(sqe, &entry);
  ++offered_;
  return {};
}

Status FuseUring::hand_over() {
  const int submitted = io_uring_submit(&uring_);
  return submitted < 0 ? Error(-submitted, "io_uring") : Status();
}

Status FuseUring::receive(bool wait, std::vector<FuseUringRequest*>& requests) {
  // That it is stopped is told once only: who waited then would wait for ever.
  wait = wait && !is_stopped_;
  const int submitted = wait ? io_uring_submit_and_wait(&uring_, 1) : io_uring_submit_and_get_events(&uring_);
  if (submitted < 0) return Error(-submitted, "io_uring");
  int ended = 0;
  bool any = false;
  io_uring_cqe* completed = nullptr;
  while (io_uring_peek_cqe(&uring_, &completed) == 0) {
    auto* const entry = static_cast<FuseUringRequest*>(io_uring_cqe_get_data(completed));
    const int result = completed->res;
    io_uring_cqe_seen(&uring_, completed);
    if (entry == nullptr) {
      is_stopped_ = true;
      continue;
    }
    --offered_;
    any = true;
    const Status taken = result < 0 ? Error(-result, "FUSE over io_uring") : entry->take_request();
    if (taken.ok()) {
      requests.push_back(entry);
    } else {
      ended = taken.code();
    }
  }
  if (ended != 0) return Error(ended, "FUSE over io_uring");
  if ((wait || is_stopped_) && !any) return Error(EINTR, "io_uring");
  return {};
}

namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr unsigned kAllFiles = ~0U;

struct Kick {
  std::string mountpoint;
  cpu_set_t cpus;
};

// In a process that does not have the device. If brickfs is killed, a thread of its own could not end before the
// answer, and would keep the device, and with it the mount, for ever. statfs is never answered from the kernel's
// caches.
int make_request(void* argument) {
  const Kick& kick = *static_cast<const Kick*>(argument);
  struct statfs stat {};
  if (close_range(0, kAllFiles, 0) != 0 || sched_setaffinity(0, sizeof(kick.cpus), &kick.cpus) != 0) return 1;
  return ::statfs(kick.mountpoint.c_str(), &stat) == 0 ? 0 : 1;
}

void run_process(Kick kick) {
  std::vector<std::byte> stack(kStackBytes);
  const pid_t pid = clone(make_request, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &kick);
  while (pid > 0 && waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

void kick_uring(const std::string& mountpoint, size_t cpu) {
  Kick kick{mountpoint, {}};
  CPU_ZERO(&kick.cpus);
  CPU_SET(cpu, &kick.cpus);
  try {
    std::thread(run_process, std::move(kick)).detach();
  } catch (const std::system_error& error) {
    log::debug("no thread for a request: {}", error.what());
  }
}

}  // namespace brickfs
