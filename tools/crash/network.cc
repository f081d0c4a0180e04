// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/network.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tools/crash/sockets.h"
#include "transport/base/check.h"
#include "transport/brick/limits.h"

namespace brickfs::network {
namespace {

using fibers::Machine;
using fibers::Nanoseconds;

constexpr Nanoseconds kQuick{100'000};
constexpr Nanoseconds kSlow{500'000'000};
constexpr Nanoseconds kGivenUp = limits::kProgressTimeout;  // TCP_USER_TIMEOUT

// One that is on its way.
struct Packet {
  Nanoseconds at{};
  uint64_t order = 0;
  Machine from = 0;
  Machine to = 0;
  std::function<void()> arrive;
  bool operator<(const Packet& other) const { return std::pair(other.at, other.order) < std::pair(at, order); }
};

class Carrier {
 public:
  void start(uint64_t seed, unsigned slow);
  void send(SocketPtr from, Machine to, std::function<void()> arrive);
  void cut(Machine a, Machine b);
  void heal(Machine a, Machine b);
  bool lose(Machine a, Machine b, int error);
  void die(Machine machine, Death death);
  void add(const SocketPtr& socket) { sockets_.push_back(socket); }

  SocketPtr listening(Machine machine, uint16_t port);
  bool is_silent(Machine machine) const { return silent_.contains(machine); }

 private:
  static std::pair<Machine, Machine> link(Machine a, Machine b) { return std::minmax(a, b); }
  void run();
  Nanoseconds delay();

  bool started_ = false;
  std::minstd_rand random_;
  unsigned slow_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Packet> under_way_;
  fibers::WaitList changed_;
  std::map<std::pair<Machine, Machine>, std::vector<Packet>> held_;  // of links that are cut
  std::map<std::pair<Machine, Machine>, uint64_t> cuts_;
  std::set<Machine> silent_;
  std::set<Machine> dead_;  // of which their machine tells
  std::vector<std::weak_ptr<Socket>> sockets_;
};

Carrier& carrier() {
  static Carrier* const all = new Carrier;
  return *all;
}

void Carrier::start(uint64_t seed, unsigned slow) {
  CHECK(!std::exchange(started_, true));
  random_.seed(static_cast<uint32_t>(seed));
  slow_ = slow;
  fibers::start([this] { run(); });
}

Nanoseconds Carrier::delay() {
  const Nanoseconds most = random_() % 1000 < slow_ ? kSlow : kQuick;
  return Nanoseconds(1 + random_() % most.count());
}

void Carrier::run() {
  while (true) {
    const auto now = fibers::now();
    if (under_way_.empty() || under_way_.top().at > now) {
      changed_.wait(under_way_.empty() ? fibers::kForEver : under_way_.top().at);
      continue;
    }
    Packet packet = under_way_.top();
    under_way_.pop();
    if (const auto held = held_.find(link(packet.from, packet.to)); held != held_.end()) {
      held->second.push_back(std::move(packet));
    } else if (!is_silent(packet.to) && !is_silent(packet.from)) {
      packet.arrive();
    }
  }
}

// Behind all that the socket has sent before.
void Carrier::send(SocketPtr from, Machine to, std::function<void()> arrive) {
  from->arrives_last = std::max(from->arrives_last + Nanoseconds(1), fibers::now() + delay());
  under_way_.push({from->arrives_last, ++order_, from->machine, to, std::move(arrive)});
  changed_.wake_all();
}

void Carrier::cut(Machine a, Machine b) {
  held_.try_emplace(link(a, b));
  const uint64_t cut = ++cuts_[link(a, b)];
  fibers::start([this, a, b, cut] {
    fibers::sleep(kGivenUp);
    if (cuts_[link(a, b)] == cut && held_.contains(link(a, b))) lose(a, b, ETIMEDOUT);
  });
}

void Carrier::heal(Machine a, Machine b) {
  ++cuts_[link(a, b)];
  const auto held = held_.extract(link(a, b));
  if (held.empty()) return;
  for (Packet& packet : held.mapped()) {
    packet.at = fibers::now();
    packet.order = ++order_;
    under_way_.push(std::move(packet));
  }
  changed_.wake_all();
  if (dead_.contains(a) || dead_.contains(b)) lose(a, b, ECONNRESET);
}

bool Carrier::lose(Machine a, Machine b, int error) {
  bool any = false;
  if (const auto held = held_.find(link(a, b)); held != held_.end()) held->second.clear();
  for (const auto& known : sockets_) {
    const SocketPtr socket = known.lock();
    if (!socket || socket->peer_machine == 0 || link(socket->machine, socket->peer_machine) != link(a, b)) continue;
    any |= socket->error == 0;
    socket->fail(error);
  }
  std::erase_if(sockets_, [](const auto& known) { return known.expired(); });
  return any;
}

void Carrier::die(Machine machine, Death death) {
  (death == Death::kMachine ? silent_ : dead_).insert(machine);
  for (const auto& known : sockets_) {
    const SocketPtr socket = known.lock();
    if (!socket) continue;
    if (socket->machine == machine) socket->is_listening = false;
    if (socket->peer_machine != machine) continue;
    if (death == Death::kProcess && !held_.contains(link(machine, socket->machine))) socket->fail(ECONNRESET);
    if (death == Death::kMachine) {
      fibers::start([socket] {
        fibers::sleep(kGivenUp);
        socket->fail(ETIMEDOUT);
      });
    }
  }
}

SocketPtr Carrier::listening(Machine machine, uint16_t port) {
  for (const auto& known : sockets_) {
    const SocketPtr socket = known.lock();
    if (socket && socket->is_listening && socket->machine == machine && socket->port == port) return socket;
  }
  return nullptr;
}

}  // namespace

void start(uint64_t seed, unsigned slow) { carrier().start(seed, slow); }
std::string address_of(Machine machine) { return "10.0.0." + std::to_string(machine); }
void cut(Machine a, Machine b) { carrier().cut(a, b); }
void heal(Machine a, Machine b) { carrier().heal(a, b); }
bool lose(Machine a, Machine b) { return carrier().lose(a, b, ECONNRESET); }
void die(Machine machine, Death death) { carrier().die(machine, death); }

// --- what sockets ask for

SocketPtr make_socket(Machine machine) {
  auto socket = std::make_shared<Socket>(machine);
  carrier().add(socket);
  return socket;
}

void Socket::changed() {
  for (fibers::WaitList* const watcher : watchers) watcher->wake_all();
}

void Socket::fail(int code) {
  if (error != 0) return;
  error = code;
  is_connecting = false;
  changed();
}

void connect(const SocketPtr& socket, Machine to, uint16_t port) {
  socket->is_connecting = true;
  socket->peer_machine = to;
  carrier().send(socket, to, [socket, to, port] {
    const SocketPtr listener = carrier().listening(to, port);
    const SocketPtr peer = listener ? make_socket(to) : nullptr;
    if (peer) {
      peer->peer_machine = socket->machine;
      peer->peer = socket;
      listener->backlog.push_back(peer);
      listener->changed();
    }
    const SocketPtr answers = peer ? peer : make_socket(to);
    carrier().send(answers, socket->machine, [socket, peer] {
      if (!peer) return socket->fail(ECONNREFUSED);
      socket->is_connecting = false;
      socket->peer = peer;
      socket->changed();
    });
  });
}

void send(const SocketPtr& socket, std::string bytes) {
  carrier().send(socket, socket->peer_machine, [peer = socket->peer.lock(), bytes = std::move(bytes)] {
    if (!peer) return;
    peer->inbox += bytes;
    peer->changed();
  });
}

void send_end(const SocketPtr& socket) {
  const SocketPtr peer = socket->peer.lock();
  if (!peer || socket->error != 0 || std::exchange(socket->has_ended, true)) return;
  carrier().send(socket, socket->peer_machine, [peer] {
    peer->is_at_end = true;
    peer->changed();
  });
}

}  // namespace brickfs::network
