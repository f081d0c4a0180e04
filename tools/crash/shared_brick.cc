// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/shared_brick.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/service/brick_service.h"
#include "server/service/embedded_brick.h"
#include "transport/base/check.h"
#include "transport/brick/block.h"
#include "transport/brick/limits.h"

namespace brickfs::shared_world {
namespace {

using fibers::Machine;
using fibers::Nanoseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint64_t kBrickBlocks = 128;
constexpr milliseconds kHeard{1'000};  // so often at least
constexpr milliseconds kLook{20};
constexpr milliseconds kConnectAgain{1'000};  // then twice as long each time
constexpr milliseconds kSilentFrom{300};
constexpr Nanoseconds kOfCall{20'000};

class MachineBrick;

struct BrickWorld {
  std::shared_ptr<BrickService> service;
  std::array<std::optional<Nanoseconds>, fibers::kMachines> cut_since;
  std::vector<MachineBrick*> clients;
  std::optional<Stroke> stroke;
};
BrickWorld& brick_world() {
  static BrickWorld* const all = new BrickWorld;
  return *all;
}

// A machine's way to the brick: shared with the thread that keeps its session heard of.
struct Way {
  explicit Way(Machine of) : machine(of), brick(make_embedded_brick(brick_world().service)) {}
  bool is_cut() const { return brick_world().cut_since[machine].has_value(); }
  Status connect();
  Status reach();

  const Machine machine;
  const std::unique_ptr<Brick> brick;
  bool is_open = false;
  uint64_t session = 0;
  steady_clock::time_point answered{};  // when the last call that was answered was sent
  std::function<void(Error)> on_lost;
};
using WayPtr = std::shared_ptr<Way>;

class MachineBrick final : public Brick {
 public:
  MachineBrick() { brick_world().clients.push_back(this); }
  ~MachineBrick() override {
    std::erase(brick_world().clients, this);
    way_->on_lost = nullptr;
    way_->brick->set_on_lost(nullptr);
    MachineBrick::abandon();
  }

  Result<Session> open(const OpenRequest& request, Holder* holder) override;
  Status close() override;
  void abandon() override {
    way_->is_open = false;
    if (way_->is_cut()) return;  // of which the brick does not hear
    const fibers::Visit there(fibers::kOutside);
    way_->brick->abandon();
  }
  Result<calls::Answer> call(const calls::Request& request) override;
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) override {
    return way_->brick->register_memory(memory);
  }
  void submit(Batch& batch) override;
  Status wait(Batch& batch) override { return way_->brick->wait(batch); }
  milliseconds silence(Asking asking) override;
  steady_clock::time_point known_at() override { return way_->answered; }
  void set_on_lost(std::function<void(Error)> callback) override {
    way_->on_lost = callback;
    way_->brick->set_on_lost(std::move(callback));
  }

  void disconnect() { way_->brick->abandon(); }
  Machine machine() const { return way_->machine; }

 private:
  void keep_heard();

  const WayPtr way_ = std::make_shared<Way>(fibers::machine());
};

// As TCP tries to: a link that is cut for a moment costs until the next try.
Status Way::connect() {
  const auto until = fibers::now() + limits::kConnectTimeout;
  for (Nanoseconds pause = kConnectAgain; is_cut(); pause *= 2) {
    fibers::sleep(std::min<Nanoseconds>(pause, until - fibers::now()));
    if (fibers::now() >= until) return Error(ETIMEDOUT, "no brick there");
  }
  return {};
}

// Until the brick can be reached; a session that waits for too long is lost.
Status Way::reach() {
  if (!is_open) return Error(ENOTCONN, "no session is open");
  fibers::sleep(kOfCall);
  const auto until = fibers::now() + limits::kProgressTimeout;
  while (is_cut() && fibers::now() < until && is_open) fibers::sleep(kLook);
  if (!is_open) return Error(ENOTCONN, "no session is open");
  if (!is_cut()) return {};
  is_open = false;
  return Error(ETIMEDOUT, "the brick does not answer");
}

milliseconds MachineBrick::silence(Asking) {
  const auto since = brick_world().cut_since[machine()];
  if (!since || !way_->is_open || fibers::now() - *since < kSilentFrom) return {};
  return std::chrono::duration_cast<milliseconds>(fibers::now() - *since);
}

Result<Session> MachineBrick::open(const OpenRequest& request, Holder* holder) {
  way_->is_open = false;
  TRY(way_->connect());
  const auto sent = steady_clock::now();
  fibers::sleep(kOfCall);
  auto session = [&] {
    const fibers::Visit there(fibers::kOutside);
    return way_->brick->open(request, holder);
  }();
  if (!session.ok()) return session;
  way_->answered = sent;
  way_->is_open = true;
  ++way_->session;
  if (request.mode != OpenMode::kObserve) keep_heard();
  return session;
}

Status MachineBrick::close() {
  TRY(way_->reach());
  way_->is_open = false;
  const fibers::Visit there(fibers::kOutside);
  return way_->brick->close();
}

// As the transports' own threads do.
void MachineBrick::keep_heard() {
  fibers::start([way = way_, session = way_->session] {
    const auto is_over = [&] { return !way->is_open || way->session != session; };
    while (true) {
      fibers::sleep(kHeard);
      if (is_over()) return;
      const auto sent = steady_clock::now();
      const Status reached = way->reach();
      if (reached.code() != ETIMEDOUT && is_over()) return;
      Status answer = reached;
      if (reached.ok()) {
        const fibers::Visit there(fibers::kOutside);
        answer = way->brick->call(calls::Stat{}).code() == 0 ? Status() : Status(Error(ENOTCONN, "it is lost"));
      }
      if (answer.ok()) way->answered = sent;
      if (answer.ok() || way->session != session) continue;
      way->is_open = false;
      if (way->on_lost) way->on_lost(answer.error());
      return;
    }
  });
}

bool is_change(const calls::Request& request) {
  const calls::Kind kind = calls::kind_of(request);
  return kind == calls::Kind::kAlloc || kind == calls::Kind::kFree || kind == calls::Kind::kCommit;
}

// Whether this change is the one; it is struck behind it, or before.
bool is_struck(Machine machine, Stroke* struck) {
  auto& planned = brick_world().stroke;
  if (!planned || planned->machine != machine || --planned->at > 0) return false;
  *struck = std::move(*planned);
  planned.reset();
  return true;
}

Result<calls::Answer> MachineBrick::call(const calls::Request& request) {
  TRY(way_->reach());
  const auto sent = steady_clock::now();
  const fibers::Visit there(fibers::kOutside);
  Stroke stroke;
  const bool struck = is_change(request) && is_struck(machine(), &stroke);
  if (struck && stroke.seed % 2 == 0) {
    stroke.strike();
    return Error(ENOTCONN, "the machine is dead");
  }
  auto answer = way_->brick->call(request);
  if (struck) stroke.strike();
  if (answer.ok() || !answer.error().is(ENOTCONN)) way_->answered = sent;
  return answer;
}

void MachineBrick::submit(Batch& batch) {
  const Status reached = way_->reach();
  if (!reached.ok()) {
    batch.begin(1);
    return (void)batch.finish_one(ENOTCONN);
  }
  const auto sent = steady_clock::now();
  const fibers::Visit there(fibers::kOutside);
  bool writes = false;
  for (const Transfer& transfer : batch.transfers) writes |= transfer.direction == Direction::kWrite;
  Stroke stroke;
  const bool struck = writes && is_struck(machine(), &stroke);
  if (struck) {  // any of them, and of none anybody hears
    for (size_t i = 0; i < batch.transfers.size(); ++i) {
      if ((stroke.seed >> i % 32 & 1) == 0) continue;
      Batch part;
      part.transfers.push_back(batch.transfers[i]);
      way_->brick->submit(part);
    }
    stroke.strike();
    batch.begin(1);
    return (void)batch.finish_one(ENOTCONN);
  }
  way_->brick->submit(batch);
  way_->answered = sent;
}

}  // namespace

void start_brick() {
  BrickConfig config;
  config.memory_bytes = kBrickBlocks * kBlockBytes;
  std::string why;
  auto opened = BrickService::open(config, &why);
  CHECK(opened.ok());
  brick_world().service = std::move(*opened);
  fibers::start([] {
    while (true) {
      fibers::sleep(limits::kListenerTick);
      brick_world().service->expire_silent(steady_clock::now());
    }
  });
}

std::unique_ptr<Brick> connect_brick() { return std::make_unique<MachineBrick>(); }

Machine holder() {
  for (const auto& client : brick_world().service->numbers().clients) {
    unsigned machine = 0;
    if (client.mode == OpenMode::kExclusive && std::sscanf(client.name.c_str(), "machine %u", &machine) == 1)
      return machine;
  }
  return 1;
}

void cut_from_brick(Machine machine) {
  if (!brick_world().cut_since[machine]) brick_world().cut_since[machine] = fibers::now();
}
void heal_to_brick(Machine machine) { brick_world().cut_since[machine].reset(); }

void disconnect_from_brick(Machine machine) {
  for (MachineBrick* const client : std::vector(brick_world().clients))
    if (client->machine() == machine) client->disconnect();
}

void plan_stroke(Stroke stroke) { brick_world().stroke = std::move(stroke); }

}  // namespace brickfs::shared_world
