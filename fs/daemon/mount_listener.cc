// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/mount_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace brickfs {
namespace {

constexpr int kReportMs = 200;
constexpr size_t kMostClients = 16;

}  // namespace

MountListener::MountListener(FileOperations& files, Ending& ending, const MountMonitor& monitor,
                             std::chrono::seconds linger, std::string options, ListeningSocket listening,
                             UniqueFd woken)
    : files_(files),
      ending_(ending),
      monitor_(monitor),
      linger_seconds_(static_cast<uint64_t>(linger.count())),
      options_(std::move(options)),
      listening_(std::move(listening)),
      woken_(std::move(woken)) {
  thread_ = std::thread([this] { run(); });
}

Result<std::unique_ptr<MountListener>> MountListener::start(FileOperations& files, Ending& ending,
                                                            const MountMonitor& monitor, std::chrono::seconds linger,
                                                            std::string options, const std::string& device_number) {
  UniqueFd woken(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!woken) return errno_error("eventfd");
  ListeningSocket listening =
      TRY(ListeningSocket::open(kUmountDirectory, umount_socket(device_number), SocketFor::kRoot, kMostClients));
  return std::unique_ptr<MountListener>(
      new MountListener(files, ending, monitor, linger, std::move(options), std::move(listening), std::move(woken)));
}

MountListener::~MountListener() {
  stop();
  close();
}

void MountListener::close() {
  MutexLock lock(mutex_);
  if (!std::exchange(closed_, true)) listening_.remove();
}

void MountListener::stop() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
  }
  const uint64_t one = 1;
  (void)!::write(woken_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
}

void MountListener::tell_end(UmountReport last) {
  last.ended = true;
  last.pid = getpid();
  let_in();
  tell_all(last);
}

void MountListener::run() {
  while (wait()) {
    let_in();
    tell_all(report());
  }
}

bool MountListener::wait() {
  const bool has_room = clients_.size() < kMostClients;
  std::vector<pollfd> fds = {{woken_.get(), POLLIN, 0}, {has_room ? listening_.get() : -1, POLLIN, 0}};
  for (const UniqueFd& client : clients_) fds.push_back({client.get(), POLLIN, 0});
  poll(fds.data(), fds.size(), clients_.empty() ? -1 : kReportMs);
  for (size_t i = clients_.size(); i-- > 0;) {
    if (fds[i + 2].revents != 0) hear(i);
  }
  MutexLock lock(mutex_);
  return !ended_;
}

void MountListener::let_in() {
  while (clients_.size() < kMostClients) {
    UniqueFd client(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client && errno != EAGAIN) pause();
    if (!client) return;
    clients_.push_back(std::move(client));
  }
}

// Who could not be let in, for want of memory or descriptors, still waits at the door.
void MountListener::pause() {
  pollfd woken{woken_.get(), POLLIN, 0};
  (void)!::poll(&woken, 1, kReportMs);
}

void MountListener::hear(size_t client) {
  std::array<char, 64> word{};
  const ssize_t bytes = recv(clients_[client].get(), word.data(), word.size(), 0);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes <= 0) {
    clients_.erase(clients_.begin() + static_cast<ptrdiff_t>(client));
    return;
  }
  const std::string_view said(word.data(), static_cast<size_t>(bytes));
  if (said == kUmountForced) ending_.hurry();
  if (said != kAskState) return;
  const std::string packet = encode(monitor_.state(MountMonitor::Clock::now()));
  (void)send(clients_[client].get(), packet.data(), packet.size(), MSG_NOSIGNAL);
}

// Who does not read misses reports: the next one says as much.
void MountListener::tell_all(const UmountReport& report) {
  const std::string packet = encode(report);
  for (const UniqueFd& client : clients_) (void)send(client.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
}

UmountReport MountListener::report() const {
  const LinkState link = files_.volume().link_state();
  UmountReport now;
  now.link = link.kind;
  now.serving = !ending_.began();
  now.pid = getpid();
  now.linger_seconds = linger_seconds_;
  const Uncommitted uncommitted = files_.uncommitted();
  now.progress = (uncommitted.operations << 40) + uncommitted.bytes;  // a checkpoint changes the bytes, too
  now.uncommitted_operations = uncommitted.operations;
  now.uncommitted_bytes = uncommitted.bytes;
  now.uncommitted = describe(uncommitted);
  now.text = link.text;
  now.options = options_;
  return now;
}

}  // namespace brickfs
