// SPDX-License-Identifier: Apache-2.0
// brickctl bench: what a brick's data path gives, with nothing of a file system above it.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tools/brickctl/bench_report.h"
#include "tools/brickctl/bench_stream.h"
#include "tools/brickctl/commands.h"
#include "tools/brickctl/interrupt.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/scratch_blocks.h"
#include "tools/brickctl/target.h"
#include "transport/base/local_time.h"
#include "transport/base/printable.h"
#include "transport/base/random.h"
#include "transport/base/size.h"
#include "transport/brick/limits.h"
#include "transport/brick/proof.h"
#include "transport/membership/client_identity.h"

namespace brickfs {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;

constexpr uint64_t kSpanBytes = 64 * kMiB;         // unless told otherwise
constexpr double kMostWarmUp = 1;                  // seconds
constexpr std::chrono::milliseconds kToBegin{20};  // until all threads are there

class Bench {
 public:
  Bench(const Command& command, Target target)
      : options_(command.bench), target_(std::move(target)), report_{command.source, "", command.bench, 0, {}} {}

  // False: `why` says what went wrong. Nothing of it is left on the brick in any case, or `why` says what.
  bool run(std::string* why);
  const BenchReport& report() const { return report_; }

 private:
  bool look(std::string* why);
  bool open(std::string* why);
  bool measure_all(std::string* why);
  Status make_streams();
  Status on_streams(const std::function<Status(size_t stream)>& work);
  Status measure(Direction direction);
  void give_back(std::string* why);
  Status give_back_anew();

  Brick& brick() { return *target_.brick; }

  const BenchOptions options_;
  Target target_;
  BenchReport report_;
  OpenRequest request_;
  uint64_t blocks_ = 0;
  std::optional<ScratchBlocks> scratch_;
  std::vector<std::unique_ptr<BenchStream>> streams_;
};

std::string describe_holder(const Holder& holder) {
  return fmt::format("{} since {}", holder.name, local_time(holder.since_unix_seconds));
}

// As an observer, so that a client that is away for a moment does not lose its volume to a measurement.
bool Bench::look(std::string* why) {
  if (!open_session(target_, OpenMode::kObserve, why).ok()) return false;
  const auto stat = brick().stat();
  static_cast<void>(brick().close());  // an observer leaves nothing behind
  if (!stat.ok()) {
    *why = describe_call_error(stat.error());
    return false;
  }
  if (stat->holder && stat->holder_away && !options_.steal) {
    *why = fmt::format("the volume is that of {}, who is not connected but may come back; to cut that one off: --steal",
                       describe_holder(*stat->holder));
    return false;
  }
  const uint64_t asked = divide_up(options_.span_bytes.value_or(kSpanBytes), kBlockBytes);
  blocks_ = std::max<uint64_t>(asked, options_.threads);
  if (!options_.span_bytes) {
    const uint64_t free = std::min(stat->allocatable_blocks, stat->memory_blocks);
    blocks_ = std::max<uint64_t>(std::min(blocks_, free), options_.threads);
  }
  report_.span_bytes = std::min(options_.span_bytes.value_or(kSpanBytes), blocks_ * kBlockBytes);
  return true;
}

bool Bench::open(std::string* why) {
  request_ = open_request(target_, OpenMode::kExclusive);
  request_.steal = options_.steal;
  Holder holder;
  const auto session = open_past_ended(brick(), request_, &holder);
  if (session.ok()) {
    request_.resume = session->epoch;
    request_.steal = false;
    return true;
  }
  *why = describe_open_error(target_, session.error(), holder);
  return false;
}

Status Bench::make_streams() {
  const uint64_t span = std::max(report_.span_bytes / options_.threads, options_.transfer_bytes);
  const BenchShape shape{static_cast<uint32_t>(options_.transfer_bytes), options_.depth, span,
                         std::byte{random_id<uint8_t>()}};
  BlockAddress next = scratch_->range().start;
  for (unsigned i = 0; i < options_.threads; ++i) {
    const uint64_t share = blocks_ / options_.threads + (i < blocks_ % options_.threads ? 1 : 0);
    auto handles = TRY(brick().map({next, share}, Access::kReadWrite));
    streams_.push_back(TRY(BenchStream::open(brick(), std::move(handles), shape)));
    next = block_after(next, share);
  }
  return {};
}

// A thread for each stream; the first error.
Status Bench::on_streams(const std::function<Status(size_t stream)>& work) {
  std::vector<Status> statuses(streams_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < streams_.size(); ++i) threads.emplace_back([&, i] { statuses[i] = work(i); });
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) TRY(status);
  return {};
}

Status Bench::measure(Direction direction) {
  const duration<double> counted(options_.seconds);
  const duration<double> warm_up(std::min(options_.seconds / 5, kMostWarmUp));
  BenchWindow window;
  window.begin = BenchClock::now() + kToBegin + duration_cast<BenchClock::duration>(warm_up);
  window.end = window.begin + duration_cast<BenchClock::duration>(counted);
  std::vector<LatencyHistogram> latencies(streams_.size());
  TRY(on_streams([&](size_t i) { return streams_[i]->run(direction, window, latencies[i]); }));
  BenchResult result{direction, options_.seconds, {}};
  for (const LatencyHistogram& stream : latencies) result.latencies.add(stream);
  report_.results.push_back(std::move(result));
  return {};
}

bool Bench::measure_all(std::string* why) {
  const auto failed = [why](const Status& status) {
    if (!status.ok()) *why = describe_call_error(status.error());
    return !status.ok();
  };
  auto scratch = ScratchBlocks::take(brick(), blocks_);
  if (!scratch.ok()) return !failed(scratch.error());
  scratch_ = *scratch;
  if (failed(make_streams())) return false;
  if (failed(on_streams([this](size_t i) { return streams_[i]->fill(); }))) return false;
  for (const Direction direction : {Direction::kWrite, Direction::kRead}) {
    const bool wanted = direction == Direction::kWrite ? options_.writes : options_.reads;
    if (!wanted || interrupted()) continue;
    if (failed(measure(direction))) return false;
    if (interrupted()) break;
    if (report_.results.back().latencies.count() == 0) {
      *why = "no transfer was over in the given time: --seconds";
      return false;
    }
    if (direction == Direction::kWrite) continue;
    const bool same =
        std::all_of(streams_.begin(), streams_.end(), [](const auto& stream) { return stream->read_back(); });
    if (!same) *why = "what was read is not what was written";
    if (!same) return false;
  }
  if (interrupted()) *why = "interrupted";
  if (interrupted()) return false;
  const auto stat = brick().stat();
  if (stat.ok()) report_.transport = stat->transport;
  return !failed(stat.ok() ? Status() : stat.error());
}

Status Bench::give_back_anew() {
  TRY(brick().open(request_, nullptr));
  return scratch_->give_back();
}

void Bench::give_back(std::string* why) {
  if (scratch_) {
    Status given = scratch_->give_back();
    if (given.code() == ENOTCONN || given.code() == ETIMEDOUT) given = give_back_anew();
    if (!given.ok()) {
      *why += fmt::format("{}blocks are left on the brick ({}): brickctl free SOURCE {} {}", why->empty() ? "" : "; ",
                          describe_call_error(given.error()), raw(scratch_->range().start), scratch_->range().count);
    }
  }
  streams_.clear();
  const Status closed = brick().close();
  if (!closed.ok() && why->empty()) *why = describe_call_error(closed.error());
}

bool Bench::run(std::string* why) {
  catch_interrupts();
  if (!look(why) || !open(why)) return false;
  const bool measured = measure_all(why);
  give_back(why);
  return measured && why->empty();
}

}  // namespace

int run_bench(const Command& command) {
  std::string why;
  auto target = make_target(command.source, command.secret_file, &why);
  bool done = false;
  if (target.ok()) {
    Bench bench(command, std::move(*target));
    done = bench.run(&why);
    if (done && command.json) print_json(to_json(bench.report()));
    if (done && !command.json) fmt::print("{}", format_table(bench.report()));
  }
  if (!done) fmt::print(stderr, "brickctl: {}: {}\n", command.source, printable(why));
  return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace brickfs
