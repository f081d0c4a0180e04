// SPDX-License-Identifier: Apache-2.0
#include "server/verbs/listener.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "transport/accept/accept_limits.h"
#include "transport/base/log.h"
#include "transport/base/random.h"
#include "transport/brick/limits.h"
#include "transport/verbs/message_channel.h"

namespace brickfs {
namespace {

constexpr int kBacklog = 128;

// The bytes of the address itself.
std::span<const std::byte> host_in(const sockaddr* address) {
  if (address->sa_family == AF_INET6) return bytes_of(reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return bytes_of(reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
}

bool is_any(const sockaddr* address) {
  return std::ranges::all_of(host_in(address), [](std::byte byte) { return byte == std::byte{0}; });
}

sockaddr_storage copy_of(const sockaddr* address) {
  sockaddr_storage copy{};
  std::memcpy(&copy, address, address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  return copy;
}

// The same port of every address.
sockaddr_storage any_like(const sockaddr* address) {
  sockaddr_storage any = copy_of(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&any);
  if (raw->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(raw)->sin6_addr = in6addr_any;
  } else {
    reinterpret_cast<sockaddr_in*>(raw)->sin_addr.s_addr = INADDR_ANY;
  }
  return any;
}

}  // namespace

uint16_t VerbsListener::Port::number() const { return ntohs(rdma_get_src_port(id.get())); }

bool VerbsListener::Port::serves(const sockaddr* address) const {
  return only.empty() || std::ranges::any_of(only, [&](const sockaddr_storage& one) {
           const auto* const raw = reinterpret_cast<const sockaddr*>(&one);
           return raw->sa_family == address->sa_family && std::ranges::equal(host_in(raw), host_in(address));
         });
}

Result<std::unique_ptr<VerbsListener>> VerbsListener::open(BrickService& service, const std::vector<ListenUrl>& urls,
                                                           Secret secret, std::string* why) {
  *why = verbs::why_no_device();
  if (!why->empty()) return Error(ENODEV, "no RDMA device");
  verbs::CmChannelPtr channel(rdma_create_event_channel());
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!channel || !stop) {
    *why = fmt::format("cannot listen over RDMA: {}", std::strerror(errno));
    return errno_error("event channel");
  }
  ::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  std::unique_ptr<VerbsListener> listener(
      new VerbsListener(service, std::move(secret), std::move(channel), std::move(stop)));
  for (const ListenUrl& url : urls) {
    const Status listening = listener->listen(url);
    if (listening.ok()) continue;
    *why = fmt::format("cannot listen on {}: {}", format_listen_url(url),
                       listening.error().is(ENODEV) || listening.error().is(EADDRNOTAVAIL)
                           ? "no RDMA device has this address"
                           : std::strerror(listening.code()));
    return listening.error();
  }
  listener->thread_ = std::thread([raw = listener.get()] { raw->run(); });
  return listener;
}

VerbsListener::VerbsListener(BrickService& service, Secret secret, verbs::CmChannelPtr channel, UniqueFd stop)
    : Listener(service, std::move(secret)),
      stop_(std::move(stop)),
      devices_(service),
      places_(limits::kVerbsUnauthenticated, limits::kVerbsUnauthenticatedOfHost),
      channel_(std::move(channel)) {}

Status VerbsListener::listen(const ListenUrl& url) {
  const verbs::AddressList list = TRY(verbs::resolve_host({url.host, url.port}, true));
  sockaddr* const address = list->ai_src_addr;
  const bool any = is_any(address);
  if (url.port != 0) {
    for (const auto& port : ports_) {  // two addresses at one port
      if (port->number() != url.port || rdma_get_local_addr(port->id.get())->sa_family != address->sa_family) continue;
      if (any || port->only.empty()) return Error(EADDRINUSE, "the port is served at all addresses");
      port->only.push_back(copy_of(address));
      by_url_.push_back(port.get());
      return {};
    }
  }
  auto port = std::make_unique<Port>();
  if (!any) {
    TRY(listen_at(address));  // one of ours, of a device, and free; given back at once
    port->only.push_back(copy_of(address));
  }
  sockaddr_storage all = any_like(address);
  auto id = listen_at(reinterpret_cast<sockaddr*>(&all));
  if (!id.ok() && id.error().is(EADDRINUSE) && !any) id = listen_at(address);  // another brickd has it elsewhere
  port->id = TRY(std::move(id));
  by_url_.push_back(port.get());
  ports_.push_back(std::move(port));
  return {};
}

Result<verbs::CmIdPtr> VerbsListener::listen_at(sockaddr* address) {
  rdma_cm_id* made = nullptr;
  if (rdma_create_id(channel_.get(), &made, nullptr, RDMA_PS_TCP) != 0) return errno_error("rdma_create_id");
  verbs::CmIdPtr id(made);
  int alone = 1;  // [::] without 0.0.0.0
  if (address->sa_family == AF_INET6) {
    rdma_set_option(made, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &alone, sizeof(alone));
  }
  if (rdma_bind_addr(made, address) != 0) return errno_error("rdma_bind_addr");
  if (rdma_listen(made, kBacklog) != 0) return errno_error("rdma_listen");
  return id;
}

uint16_t VerbsListener::port(size_t number) const { return by_url_[number]->number(); }

VerbsListener::~VerbsListener() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  ports_.clear();
  end_all();
}

void VerbsListener::run() {
  auto next_reaping = verbs::Clock::now() + limits::kListenerTick;
  while (true) {
    std::array<pollfd, 2> watched = {pollfd{channel_->fd, POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_reaping - verbs::Clock::now());
    ::poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (watched[1].revents != 0) return;
    take_events();
    if (verbs::Clock::now() < next_reaping) continue;
    reap_finished();
    next_reaping = verbs::Clock::now() + limits::kListenerTick;
  }
}

// An event is acknowledged only when it has been handled: as long as it is not, its id, and the connection that id
// belongs to, stay. So nothing here may wait for a connection to end.
void VerbsListener::take_events() {
  rdma_cm_event* taken = nullptr;
  while (rdma_get_cm_event(channel_.get(), &taken) == 0) {
    const verbs::CmEventPtr event(taken);
    const bool over = event->event == RDMA_CM_EVENT_DISCONNECTED || event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ||
                      event->event == RDMA_CM_EVENT_CONNECT_ERROR || event->event == RDMA_CM_EVENT_UNREACHABLE;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      accept(*event);
    } else if (over && event->id->context != nullptr) {
      static_cast<Served*>(event->id->context)->shut_down();
    }
  }
}

void VerbsListener::accept(rdma_cm_event& event) {
  verbs::CmIdPtr id(event.id);
  id->context = nullptr;  // it begins as the listening id's
  const rdma_conn_param asked = event.param.conn;
  const auto* data = static_cast<const std::byte*>(asked.private_data);
  const auto request = verbs::decode_request({data, data == nullptr ? size_t{0} : asked.private_data_len});
  const auto port = std::ranges::find(ports_, event.listen_id, [](const auto& one) { return one->id.get(); });
  const auto serve = [&]() -> Status {
    TRY(request);
    if (port == ports_.end() || !(*port)->serves(rdma_get_local_addr(id.get()))) {
      return Error(EADDRNOTAVAIL, "brickd does not listen at this address");
    }
    if (request->purpose == static_cast<uint16_t>(verbs::Purpose::kCalls)) {
      return accept_calls(std::move(id), *request, asked);
    }
    const auto ticket = load<verbs::Ticket>(request->nonce);
    const auto access = find_by_ticket(ticket);
    if (access == nullptr) return Error(EACCES, "no such ticket");
    return access->admit(ticket, std::move(id), asked);
  };
  const Status served = serve();
  if (served.ok()) return;
  // An unauthenticated peer's nonsense is no news; that the brick itself is short of something is, once.
  const int code = served.code();
  const bool shortage = code == ENOMEM || code == EPERM || code == EMFILE || code == ENODEV;
  const auto level = shortage && std::exchange(last_shortage_, code) != code ? log::Level::kError : log::Level::kDebug;
  const std::string text = describe(served.error());
  log::line(level, "an RDMA connection is turned away: {}", fmt::make_format_args(text));
  if (id) rdma_reject(id.get(), nullptr, 0);  // else the id's end has said it
}

Status VerbsListener::accept_calls(verbs::CmIdPtr id, const verbs::ConnectRequest& request,
                                   const rdma_conn_param& asked) {
  // Who has been displaced takes a moment to go.
  if (connections() >= admitted() + limits::kVerbsUnauthenticated) reap_finished();
  if (connections() >= admitted() + 2 * limits::kVerbsUnauthenticated)
    return Error(EBUSY, "too many unauthenticated peers");
  const VerbsDevice* const device = TRY(devices_.find(id->verbs));
  const PeerAddress peer = peer_address(rdma_get_peer_addr(id.get()));
  rdma_cm_id* const raw = id.get();
  auto channel = TRY(verbs::MessageChannel::make({nullptr, std::move(id)}, limits::kFirstBodyBytes, true));
  verbs::ConnectReply reply;
  const Nonces nonces{request.nonce, random_nonce(), request.features, reply.features};
  reply.nonce = nonces.server;
  rdma_conn_param parameters = verbs::connection_parameters(device->facts, &asked);
  parameters.private_data = &reply;
  parameters.private_data_len = sizeof(reply);
  verbs::set_ack_timeout(raw);
  if (rdma_accept(raw, &parameters) != 0) return errno_error("rdma_accept");
  // In an unauthenticated peer's place. Whoever must go for it is cut off.
  const auto place = places_.enter(peer.host);
  if (place.displaced) {
    own_counters().refused(Refused::kUnauthenticated);
    const auto former = std::ranges::find(served(), *place.displaced, &Served::place);
    if (former != served().end()) former->shut_down();
  }
  Served& served = add(std::move(channel));
  served.place = place.number;
  raw->context = &served;
  const auto serve_it = [this, &served, peer, nonces](Channel& with) {
    const Status status = serve_unauthenticated(served, with, peer, nonces);
    if (!status.ok()) log::debug("RDMA connection from {} ends: {}", peer.text, status.error().what());
  };
  start(served, serve_it, [this, &served] {
    if (!served.admitted) places_.leave(served.place);
  });
  return {};
}

Status VerbsListener::serve_unauthenticated(Served& served, Channel& channel, const PeerAddress& peer,
                                            const Nonces& nonces) {
  const Message call = TRY(channel.receive(verbs::Clock::now() + limits::kHandshakeTimeout));
  const auto verdict = judge(peer, nonces, call);
  if (!verdict) return Error(EBUSY, "too many guesses from its address");
  if (verdict->proof.ok()) places_.leave(served.place);  // before another takes it
  if (verdict->delay.count() > 0) {
    const auto more = channel.wait(verbs::Clock::now() + verdict->delay);
    if (more.ok()) return Error(EPROTO, "a call before the answer to the first");
    if (!more.error().is(ETIMEDOUT)) return more;
  }
  admit(served, TRY(let_in(channel, peer, nonces, verdict->proof, call)));
  serve(channel, peer, nonces, *verdict->proof, call);
  return {};
}

std::shared_ptr<RemoteAccess> VerbsListener::make_access() {
  // The first key is anything, so that a handle of a former session is none of this one.
  auto access = std::make_shared<VerbsAccess>(devices_, random_id<uint32_t>());
  MutexLock lock(accesses_mutex_);
  std::erase_if(accesses_, [](const auto& former) { return former.expired(); });
  accesses_.push_back(access);
  return access;
}

std::shared_ptr<VerbsAccess> VerbsListener::find_by_ticket(const verbs::Ticket& ticket) {
  std::vector<std::weak_ptr<VerbsAccess>> all;
  {
    MutexLock lock(accesses_mutex_);
    all = accesses_;
  }
  for (const auto& one : all) {
    auto access = one.lock();
    if (access != nullptr && access->offered(ticket)) return access;
  }
  return nullptr;
}

}  // namespace brickfs
