// SPDX-License-Identifier: Apache-2.0
// brickctl ping: how long a brick takes to answer a control call, and its memory to be read.
#include <fmt/core.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tools/brickctl/commands.h"
#include "tools/brickctl/interrupt.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/latency_histogram.h"
#include "tools/brickctl/target.h"
#include "transport/base/printable.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;

struct Probe {
  const char* name;
  const char* key;
  uint32_t bytes;  // 0: a control call
};
constexpr std::array<Probe, 3> kProbes = {
    {{"control", "control", 0}, {"read 8 B", "read_8", 8}, {"read 4 KiB", "read_4096", 4096}}};

class Ping {
 public:
  Ping(const Command& command, Target target) : command_(command), target_(std::move(target)) {}

  // False: no answer at all; `why` is the last reason.
  bool run(std::string* why);
  void print_summary() const;

 private:
  bool open(std::string* why);
  void find_block();
  bool round(uint64_t number, std::string* why);
  std::optional<Error> probe(const Probe& probe);
  bool wants_more() const { return (options_.count == 0 || rounds_ < options_.count) && !interrupted(); }
  void pause() const;

  const Command& command_;
  const PingOptions& options_ = command_.ping;
  Target target_;
  std::string transport_;
  std::optional<Handle> handle_;  // none: control calls only
  alignas(4096) std::array<std::byte, 4096> memory_{};
  RegisteredMemory registration_;
  uint64_t rounds_ = 0;
  uint64_t lost_ = 0;
  std::array<LatencyHistogram, kProbes.size()> latencies_;
};

// An observer at first: nobody is disturbed. Where nobody holds the volume nor may come back to it, a block is read
// too, for a bounded time, as one reader among others.
bool Ping::open(std::string* why) {
  if (!open_session(target_, OpenMode::kObserve, why).ok()) return false;
  const auto stat = target_.brick->stat();
  if (!stat.ok()) *why = describe_call_error(stat.error());
  if (!stat.ok()) return false;
  transport_ = stat->transport;
  if (options_.count == 0 || stat->holder || stat->volume_used_blocks == 0) return true;
  static_cast<void>(target_.brick->close());  // an observer leaves nothing behind
  std::string taken;
  if (open_session(target_, OpenMode::kReadOnly, &taken).ok()) {
    find_block();
    return true;
  }
  return open_session(target_, OpenMode::kObserve, why).ok();
}

void Ping::find_block() {
  const auto page = target_.brick->list(BlockAddress{0});
  if (!page.ok() || page->extents.empty()) return;
  const auto handles = target_.brick->map({page->extents.front().start, 1}, Access::kRead);
  if (!handles.ok() || handles->empty()) return;
  auto registration = target_.brick->register_memory(memory_);
  if (!registration.ok()) return;
  registration_ = std::move(*registration);
  handle_ = handles->front();
}

std::optional<Error> Ping::probe(const Probe& probe) {
  if (probe.bytes == 0) {
    const auto stat = target_.brick->stat();
    return stat.ok() ? std::nullopt : std::optional(stat.error());
  }
  const LocalSlice slice{memory_.data(), probe.bytes, registration_.local_key()};
  Batch batch;
  batch.transfers.push_back({Direction::kRead, *handle_, 0, {&slice, 1}});
  target_.brick->submit(batch);
  const Status status = target_.brick->wait(batch);
  return status.ok() ? std::nullopt : std::optional(status.error());
}

bool Ping::round(uint64_t number, std::string* why) {
  std::string line = fmt::format("{}:", number);
  for (size_t i = 0; i < kProbes.size(); ++i) {
    if (kProbes[i].bytes > 0 && !handle_) continue;
    const auto began = Clock::now();
    if (const auto error = probe(kProbes[i])) {
      *why = describe_call_error(*error);
      return false;
    }
    const auto took = std::chrono::nanoseconds(Clock::now() - began);
    latencies_[i].record(static_cast<uint64_t>(took.count()));
    line += fmt::format("  {} {:.1f} us", kProbes[i].name, static_cast<double>(took.count()) / 1000);
  }
  if (!command_.json) fmt::print("{}\n", line);
  std::fflush(stdout);
  return true;
}

void Ping::pause() const {
  ::poll(nullptr, 0, static_cast<int>(options_.interval_seconds * 1000));  // a signal ends it
}

bool Ping::run(std::string* why) {
  catch_interrupts();
  if (!open(why)) return false;
  if (!command_.json) {
    fmt::print("{} over {}{}\n", command_.source, transport_, handle_ ? "" : ", control calls only");
  }
  bool connected = true;
  while (wants_more()) {
    if (rounds_ > 0) pause();
    if (rounds_ > 0 && interrupted()) break;
    ++rounds_;
    if (!connected) connected = open_session(target_, OpenMode::kObserve, why).ok();
    if (connected && round(rounds_, why)) continue;
    ++lost_;
    connected = false;
    handle_.reset();  // it went with the session
    if (!command_.json) fmt::print("{}:  {}\n", rounds_, printable(*why));
    std::fflush(stdout);
  }
  registration_ = RegisteredMemory();
  static_cast<void>(target_.brick->close());  // a reader leaves nothing behind
  return latencies_[0].count() > 0;
}

void Ping::print_summary() const {
  if (command_.json) {
    Json json = {{"source", command_.source}, {"transport", transport_}, {"rounds", rounds_}, {"lost", lost_}};
    for (size_t i = 0; i < kProbes.size(); ++i) json["latency_us"][kProbes[i].key] = to_json(latencies_[i]);
    print_json(json);
    return;
  }
  fmt::print("{} rounds, {} without an answer\n", rounds_, lost_);
  for (size_t i = 0; i < kProbes.size(); ++i) {
    const LatencyHistogram& latencies = latencies_[i];
    if (latencies.count() == 0) continue;
    fmt::print("{:<10}  min/avg/max {:.1f}/{:.1f}/{:.1f} us\n", kProbes[i].name,
               static_cast<double>(latencies.min_ns()) / 1000, latencies.mean_ns() / 1000,
               static_cast<double>(latencies.max_ns()) / 1000);
  }
}

}  // namespace

int run_ping(const Command& command) {
  std::string why;
  auto target = make_target(command.source, command.secret_file, &why);
  if (target.ok()) {
    Ping ping(command, std::move(*target));
    if (ping.run(&why)) {
      ping.print_summary();
      return EXIT_SUCCESS;
    }
  }
  fmt::print(stderr, "brickctl: {}: {}\n", command.source, printable(why));
  return EXIT_FAILURE;
}

}  // namespace brickfs
