// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/shared_world.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "fs/recovery/check.h"
#include "fs/served/served_volume.h"
#include "fs/shared/handover.h"
#include "fs/source/source_volume.h"
#include "tools/crash/fibers.h"
#include "tools/crash/network.h"
#include "tools/crash/shared_brick.h"
#include "tools/crash/shared_programs.h"
#include "transport/base/log.h"
#include "transport/membership/coordinator_name.h"

namespace brickfs {
namespace shared_world {
namespace {

using fibers::Nanoseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kVolume = "default";
constexpr Machine kShared = 3;     // machines 1, 2, 3 have it from the beginning
constexpr Machine kLast = 4;       // has it alone when all is over
constexpr unsigned kPrograms = 2;  // of each
constexpr std::chrono::microseconds kMoment{200};
constexpr seconds kForgotten{30};  // whoever is dead, by all others
constexpr seconds kLongest{200};   // that anything may take when nothing happens any more
constexpr seconds kHandedOver{3};  // how long a handover takes then

struct Host {
  std::unique_ptr<ServedVolume> served;
  std::vector<std::unique_ptr<Program>> programs;
  unsigned running = 0;
  bool is_dead = false;
  bool leaves = false;
  bool has_left = false;
  bool is_harmed = false;  // it may have lost the volume
};

class World {
 public:
  World(uint64_t seed, unsigned duration)
      : random_(seed), seed_(seed), things_(kShared * kPrograms), until_(fibers::now() + seconds(duration)) {}
  SharedRun run();

 private:
  Status begin();
  Status open(Machine machine, bool shared);
  void start_programs(Machine machine);
  void let_happen();
  void happen();
  void strike(Machine machine, network::Death death);
  Machine any() { return 1 + static_cast<Machine>(random_() % kShared); }
  void leave(Machine machine);
  void cut_for(Machine a, Machine b, milliseconds time);
  void stop_for(Machine machine, milliseconds time);
  void cut_brick_for(Machine machine, milliseconds time);
  void hand_over();
  void hand_over_in_peace();
  void lose_way_to_itself();
  // A thread of that machine does it; until it has.
  void on(Machine machine, const std::function<void()>& body, const char* what);
  bool await(const std::function<bool()>& condition, const char* what);
  void end();
  void check();
  void have_alone();
  void say(const std::string& what) {
    log::warn("{}", what);
    run_.happened += fmt::format("{:.3f} {}; ", fibers::now().count() / 1e9 - 3600, what);
  }
  void fail(const std::string& what) { things_.history.violation(what); }

  std::mt19937_64 random_;
  const uint64_t seed_;
  Things things_;
  const Nanoseconds until_;
  std::array<Host, kLast + 1> hosts_;
  unsigned deaths_ = 0;
  SharedRun run_;
};

Status World::open(Machine machine, bool shared) {
  MountCommand command;
  command.source = fmt::format("tcp://10.0.0.100/{}", kVolume);
  command.mountpoint = "/mnt";
  command.shared = shared;
  command.no_atime = true;
  command.listen_address = network::address_of(machine);
  std::string why;
  Status status = Error(EINPROGRESS, "it begins");
  const auto mount = [&] {
    auto opened = ServedVolume::open(command, {}, &why);
    status = opened.ok() ? Status() : Status(opened.error());
    if (!opened.ok()) return;
    (*opened)->start_sharing(nullptr);
    hosts_[machine].served = std::move(*opened);
  };
  on(machine, mount, "a mount");
  if (!status.ok()) fail(fmt::format("machine {} cannot mount: {}", machine, why));
  return status;
}

Status World::begin() {
  TRY(open(1, true));
  Status prepared;
  on(
      1, [&] { prepared = Program::prepare(hosts_[1].served->files(), kShared * kPrograms); }, "the beginning");
  if (!prepared.ok()) fail(fmt::format("the beginning: {}", describe(prepared.error())));
  TRY(Status(prepared));
  for (Machine machine = 2; machine <= kShared; ++machine) TRY(open(machine, true));
  return {};
}

void World::start_programs(Machine machine) {
  Host& host = hosts_[machine];
  ServedVolume* const served = host.served.get();
  for (unsigned i = 0; i < kPrograms; ++i) {
    const Program::Machine of{machine, [served]() -> FileOperations& { return served->files(); }, !served->is_member(),
                              [&host] { return host.leaves; }};
    const auto number = static_cast<unsigned>((machine - 1) * kPrograms + i);
    host.programs.push_back(std::make_unique<Program>(things_, number, of, random_()));
    ++host.running;
    const fibers::Visit there(machine);
    fibers::start([this, &host, program = host.programs.back().get()] {
      program->run(until_);
      --host.running;
    });
  }
}

void World::on(Machine machine, const std::function<void()>& body, const char* what) {
  auto is_done = std::make_shared<bool>(false);
  {
    const fibers::Visit there(machine);
    fibers::start([body, is_done] {
      body();
      *is_done = true;
    });
  }
  await([&] { return *is_done; }, what);
}

bool World::await(const std::function<bool()>& condition, const char* what) {
  const auto latest = fibers::now() + kLongest;
  while (!condition() && fibers::now() < latest) fibers::sleep(milliseconds(10));
  if (!condition()) fail(fmt::format("{} does not end", what));
  return condition();
}

// --- what happens

void World::strike(Machine machine, network::Death death) {
  Host& host = hosts_[machine];
  if (host.is_dead || deaths_ == kShared - 1) return;
  ++deaths_;
  say(fmt::format("machine {} {}", machine, death == network::Death::kProcess ? "ends" : "is off"));
  host.is_dead = host.is_harmed = true;
  things_.history.lost(machine);
  fibers::kill(machine);
  network::die(machine, death);
  if (death == network::Death::kProcess) disconnect_from_brick(machine);
}

// In order. Its programs have ended then, or do not care.
void World::leave(Machine machine) {
  Host& host = hosts_[machine];
  if (host.is_dead || host.leaves || deaths_ == kShared - 1) return;
  ++deaths_;
  say(fmt::format("machine {} leaves", machine));
  host.leaves = host.is_harmed = true;
  things_.history.lost(machine);
  const fibers::Visit there(machine);
  fibers::start([&host] {
    (void)host.served->unmount();
    host.has_left = true;
  });
}

void World::cut_for(Machine a, Machine b, milliseconds time) {
  if (a == b) return;
  say(fmt::format("link {}-{} is cut for {} ms", a, b, time.count()));
  if (time > seconds(2)) hosts_[a].is_harmed = hosts_[b].is_harmed = true;
  network::cut(a, b);
  fibers::start([a, b, time] {
    fibers::sleep(time);
    network::heal(a, b);
  });
}

void World::stop_for(Machine machine, milliseconds time) {
  say(fmt::format("machine {} is stopped for {} ms", machine, time.count()));
  if (time > seconds(2)) hosts_[machine].is_harmed = true;
  fibers::stop(machine);
  fibers::start([machine, time] {
    fibers::sleep(time);
    fibers::go_on(machine);
  });
}

void World::cut_brick_for(Machine machine, milliseconds time) {
  say(fmt::format("machine {} is cut from the brick for {} ms", machine, time.count()));
  if (time > seconds(2)) hosts_[machine].is_harmed = true;
  cut_from_brick(machine);
  fibers::start([machine, time] {
    fibers::sleep(time);
    heal_to_brick(machine);
  });
}

// As `brickctl handover`, to whomever it likes. False: it is refused.
bool ask_for_handover() {
  Source source;
  source.volume = kVolume;
  const auto holder = find_holder(source, {});
  const auto address = holder.ok() && *holder ? address_of_coordinator((*holder)->name) : std::nullopt;
  if (!address) return false;
  const auto answer = shared::ask_handover(*address, {}, {(*holder)->client, source.volume, ""});
  return answer.ok() && answer->status == 0;
}

// From a machine of its own. Nobody loses anything by that.
void World::hand_over() {
  say("it is handed over");
  const fibers::Visit there(kLast);
  fibers::start([] { (void)ask_for_handover(); });
}

// Nothing else happens: it is a pause, and a short one.
void World::hand_over_in_peace() {
  const Machine before = holder();
  bool begun = false;
  on(
      kLast, [&] { begun = ask_for_handover(); }, "asking for a handover");
  if (!begun || !await([&] { return holder() != before; }, "a handover")) return;
  const auto since = fibers::now();
  for (Machine machine = 1; machine <= kShared; ++machine) {
    Host& host = hosts_[machine];
    if (host.is_dead || host.leaves) continue;
    on(
        machine, [&] { (void)host.served->files().sync_all({}); }, "what is asked behind a handover");
  }
  if (fibers::now() - since > kHandedOver)
    fail(fmt::format("a handover takes {} s, and nothing else happens", (fibers::now() - since) / seconds(1)));
}

// Of whoever takes the volume next: the first connection that it makes.
void World::lose_way_to_itself() {
  constexpr seconds kComes{60};
  say("the next one loses the way to itself");
  fibers::start([before = holder(), until = fibers::now() + kComes] {
    while (holder() == before && fibers::now() < until) fibers::sleep(milliseconds(10));
    const Machine next = holder();
    while (next != before && fibers::now() < until && !network::lose(next, next)) fibers::sleep(kMoment);
  });
}

void World::happen() {
  const Machine serves = holder();
  const Machine one = any();
  const auto a_moment = milliseconds(random_() % 2'000);
  const auto long_time = milliseconds(4'000 + random_() % 26'000);
  const auto death = random_() % 2 == 0 ? network::Death::kProcess : network::Death::kMachine;
  switch (random_() % 16) {
    case 0:
    case 1:
    case 2:
      return plan_stroke({serves, 1 + random_() % 40, random_(), [this, serves, death] { strike(serves, death); }});
    case 3:
      return strike(one, death);
    case 4:
      return stop_for(serves, long_time);
    case 5:
      return stop_for(one, random_() % 2 == 0 ? a_moment : long_time);
    case 6:
      return cut_brick_for(serves, random_() % 2 == 0 ? a_moment : long_time);
    case 7:
      return cut_brick_for(one, a_moment);
    case 8:
      return cut_for(serves, one, long_time);
    case 9:
      return cut_for(any(), one, a_moment);
    case 10:
      return leave(random_() % 2 == 0 ? serves : one);
    case 11:
    case 12:
      return hand_over();
    case 13:
      return lose_way_to_itself();
    default:
      say("connections are lost");
      for (Machine machine = 1; machine <= kShared; ++machine)
        if (random_() % 2 == 0) (void)network::lose(serves, machine);
  }
}

void World::let_happen() {
  while (fibers::now() < until_) {
    fibers::sleep(milliseconds(random_() % 8'000));
    if (fibers::now() < until_) happen();
  }
}

// --- the end

void World::end() {
  plan_stroke({});
  for (Machine machine = 1; machine <= kShared; ++machine) {
    fibers::go_on(machine);
    heal_to_brick(machine);
    for (Machine other = 1; other < machine; ++other) network::heal(other, machine);
  }
  for (Machine machine = 1; machine <= kShared; ++machine) {
    Host& host = hosts_[machine];
    await([&] { return host.is_dead || host.leaves || host.running == 0; }, "a program");
    for (const auto& program : host.programs) run_.operations += program->operations();
  }
  fibers::sleep(kForgotten);
}

// Who is not lost sees all that there is; then all leave, and the volume is in order.
void World::check() {
  for (Machine machine = 1; machine <= kShared; ++machine) {
    Host& host = hosts_[machine];
    if (host.is_dead || host.leaves) continue;
    const auto is_lost = [&] { return !host.served->files().volume().final_error().ok(); };
    const auto look = [&] {
      if (!is_lost()) host.programs.front()->look_at_all();
    };
    on(machine, look, "looking at everything");
    if (!is_lost()) continue;
    ++run_.machines_lost;
    things_.history.lost(machine);
    if (!host.is_harmed) fail(fmt::format("machine {} has lost the volume, and nothing happened to it", machine));
  }
  hand_over_in_peace();
  for (Machine machine = 1; machine <= kShared; ++machine) {
    Host& host = hosts_[machine];
    if (host.leaves) await([&] { return host.is_dead || host.has_left; }, "an unmount");
    if (host.is_dead || host.leaves) continue;
    on(
        machine, [&] { (void)host.served->unmount(); }, "an unmount");
  }
}

// Without `shared`: what machines have left behind that did not come again goes, too.
void World::have_alone() {
  if (!open(kLast, false).ok()) return;
  Status unmounted;
  on(
      kLast, [&] { unmounted = hosts_[kLast].served->unmount(); }, "the last unmount");
  if (!unmounted.ok()) fail(fmt::format("the last unmount: {}", describe(unmounted.error())));
}

void check_volume(Things& things) {
  VolumeOptions options;
  options.open.client = ClientId{1};
  options.open.steal = true;
  auto volume = VolumeSet::open(connect_brick(), options, nullptr);
  std::string why;
  if (!volume.ok()) return things.history.violation("the volume cannot be opened");
  const auto report = check_filesystem(**volume, {}, &why);
  if (!report.ok()) return things.history.violation("the volume cannot be checked: " + why);
  if (report->findings.damaged()) return things.history.violation("damage: " + report->findings.first_damage());
  if (!report->unmounted) return things.history.violation("the volume is not unmounted");
  if (report->orphans > 0 || report->leaked_blocks > 0)
    things.history.violation(
        fmt::format("{} orphans and {} leaked blocks are left", report->orphans, report->leaked_blocks));
}

SharedRun World::run() {
  start_brick();
  network::start(random_(), random_() % 4 == 0 ? 20 : 0);
  if (begin().ok()) {
    for (Machine machine = 1; machine <= kShared; ++machine) start_programs(machine);
    let_happen();
    end();
    check();
    if (things_.history.verdict().empty()) have_alone();
    if (things_.history.verdict().empty()) check_volume(things_);
  }
  run_.failure = things_.history.verdict();
  return run_;
}

}  // namespace
}  // namespace shared_world

SharedRun run_shared(uint64_t seed, unsigned seconds) {
  auto* const world = new shared_world::World(seed, seconds);
  return world->run();
}

}  // namespace brickfs
