// SPDX-License-Identifier: Apache-2.0
#include "fs/shm_queue/serve/shm_queues.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fs/mount/status/mount_table.h"
#include "fs/shm_queue/serve/program.h"
#include "fs/shm_queue/socket.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr int kBacklog = 64;
constexpr int kSaidAgainMs = 100;  // to a queue that is to end
constexpr int kPauseMs = 100;      // before what could not be done is tried again

void raise_event(const UniqueFd& event) {
  const uint64_t one = 1;
  (void)!::write(event.get(), &one, sizeof(one));
}

void take_event(const UniqueFd& event) {
  uint64_t ignored = 0;
  (void)!::read(event.get(), &ignored, sizeof(ignored));
}

UniqueFd accept_one(const ListeningSocket& listening) {
  return UniqueFd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

// He may have sent descriptors already.
Status refuse(UniqueFd socket) {
  const shm_queue::Reply refusal{.result = -EUSERS, .flags = 0};
  const Status sent = shm_queue::send_packet(socket.get(), &refusal, sizeof(refusal));
  TRY(close_elsewhere(std::move(socket)));
  return sent;
}

UniqueFd open_spare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

ShmQueues::ShmQueues(FuseSession& session, const std::string& device_number, ListeningSocket listening,
                     UniqueFd stopped, UniqueFd woken)
    : listening_(std::move(listening)),
      stopped_(std::move(stopped)),
      woken_(std::move(woken)),
      mounts_(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)),
      spare_(open_spare()),
      mount_{.session = session, .device_number = device_number, .stopped = stopped_.get(), .on_end = [this] {
               raise_event(woken_);
             }} {
  look_at_mounts();
  thread_ = std::thread([this] { run(); });
}

Result<std::unique_ptr<ShmQueues>> ShmQueues::start(FuseSession& session, const std::string& device_number) {
  UniqueFd stopped(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd woken(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stopped || !woken) return errno_error("eventfd");
  // What one may do there is what the open files allow that one has.
  ListeningSocket listening = TRY(ListeningSocket::open(
      shm_queue::kSocketDirectory, shm_queue::socket_path(device_number), SocketFor::kEverybody, kBacklog));
  return std::unique_ptr<ShmQueues>(
      new ShmQueues(session, device_number, std::move(listening), std::move(stopped), std::move(woken)));
}

ShmQueues::~ShmQueues() { stop(); }

void ShmQueues::stop() {
  if (!thread_.joinable()) return;
  listening_.remove();
  raise_event(stopped_);
  thread_.join();
  (void)close_elsewhere(listening_.take());
}

void ShmQueues::run() {
  pollfd stopped{stopped_.get(), POLLIN, 0};
  while (::poll(&stopped, 1, 0) == 0) wait();
  for (;;) {
    for (const Place& place : places_) place.queue->end();
    std::erase_if(places_, [](const Place& place) { return place.queue->has_ended(); });
    count_ = places_.size();
    if (places_.empty()) return;
    wait_for_end(kSaidAgainMs);
  }
}

// Of some queue.
void ShmQueues::wait_for_end(int most_ms) {
  pollfd woken{woken_.get(), POLLIN, 0};
  if (::poll(&woken, 1, most_ms) > 0) take_event(woken_);
}

void ShmQueues::wait() {
  if (!spare_) spare_ = open_spare();
  open_or_close();
  std::vector<pollfd> fds = {{stopped_.get(), POLLIN, 0},
                             {woken_.get(), POLLIN, 0},
                             {mounts_.get(), POLLPRI, 0},
                             {listening_.get(), POLLIN, 0}};
  const size_t fixed = fds.size();
  for (const Place& place : places_) fds.push_back({place.has_gone ? -1 : place.queue->socket(), POLLRDHUP, 0});
  const bool any_has_gone = std::ranges::any_of(places_, &Place::has_gone);
  if (::poll(fds.data(), fds.size(), any_has_gone || !is_open_ ? kSaidAgainMs : -1) < 0) return;
  if (fds[1].revents != 0) take_event(woken_);
  if (fds[2].revents != 0) look_at_mounts();
  for (size_t i = 0; i < places_.size(); ++i) {
    places_[i].has_gone |= fds[fixed + i].revents != 0;
    if (places_[i].has_gone) places_[i].queue->interrupt();
  }
  std::erase_if(places_, [](const Place& place) { return place.queue->has_ended(); });
  if (fds[3].revents != 0) let_in();
  count_ = places_.size();
}

// A mount that is read-only by now was not when files were opened for writing there.
void ShmQueues::look_at_mounts() {
  const auto mounts = find_mounts_of(mount_.device_number);
  const bool is_read_only =
      !mounts.empty() && std::ranges::all_of(mounts, [](const MountEntry& mount) { return mount.read_only; });
  mount_.writes_by_kernel = is_read_only || mount_.session.writeback() != nullptr;
}

// Each who comes may bring a descriptor that is never closed.
void ShmQueues::open_or_close() {
  const bool open = !closes_too_many();
  if (open == is_open_) return;
  is_open_ = open;
  listening_.admit(open ? SocketFor::kEverybody : SocketFor::kRoot);
}

// Without memory or descriptors who comes stays at the door.
void ShmQueues::let_in() {
  UniqueFd socket = accept_one(listening_);
  if (!socket && errno == EMFILE && turn_away()) return;
  if (!socket && errno != EAGAIN) wait_for_end(kPauseMs);
  if (!socket) return;
  const int descriptor = socket.get();
  const Status admitted = admit(std::move(socket));
  if (!admitted.ok()) log::debug("no queue for who came as descriptor {}: {}", descriptor, describe(admitted.error()));
}

// There is no descriptor for who comes: he would wait for ever.
bool ShmQueues::turn_away() {
  spare_.reset();
  UniqueFd socket = accept_one(listening_);
  const bool came = socket.valid();
  if (came) (void)refuse(std::move(socket));
  return came;
}

Status ShmQueues::admit(UniqueFd socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return errno_error("who wants a queue");
  const auto of_user = [&peer](const Place& place) { return place.queue->peer().uid == peer.uid; };
  const bool has_most = peer.uid != 0 && std::ranges::count_if(places_, of_user) >= shm_queue::kMostQueuesOfUser;
  // The queue's memory comes by one more descriptor.
  const bool closes_much = peer.uid != 0 && closes_too_many();
  if (has_most || closes_much || places_.size() >= shm_queue::kMostQueues || !open_spare())
    return refuse(std::move(socket));
  auto queue = std::make_unique<ShmQueue>(mount_, ShmQueue::Peer{peer.pid, peer.uid}, std::move(socket));
  TRY(queue->start());
  places_.push_back({std::move(queue)});
  return {};
}

}  // namespace brickfs
