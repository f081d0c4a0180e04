// SPDX-License-Identifier: Apache-2.0
#include "transport/paths/redirected_brick.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/log.h"
#include "transport/base/mutex.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kShortSessions = 2;  // in a row: the path opens, but does not carry

enum class Path : size_t { kWanted = 0, kAround = 1 };

class RedirectedBrick final : public Brick {
 public:
  RedirectedBrick(BrickPaths paths, PathTimes times);

  Result<Session> open(const OpenRequest& request, Holder* holder) override;
  Status close() override;
  void abandon() override;
  Result<calls::Answer> call(const calls::Request& request) override;
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) override;
  milliseconds silence(Asking asking) override;
  Status make_visible() override;
  std::chrono::steady_clock::time_point known_at() override;
  void submit(Batch& batch) override;
  Status wait(Batch& batch) override;
  void set_on_lost(std::function<void(Error)> callback) override;

 private:
  // A session, and the path it goes by, as one word: what is told of one of them is never mixed with another.
  struct Current {
    uint32_t session = 0;  // 0: none
    Path path = Path::kWanted;
  };
  Current current() const;
  void set_current(Current current);
  Brick& brick(Path path) const { return *bricks_[static_cast<size_t>(path)]; }
  Result<Brick*> live() const;

  void judge_former();
  Result<Session> open_by(Path path, const OpenRequest& request, Holder* holder);
  Session begin(Path path, Session session, const OpenRequest& request);
  void go_around(const OpenRequest& request, const Session& session);
  void tell(Path path, Error error) const;
  void offer_return();
  std::string describe_way_around() const;

  const BrickPaths::Names names_;
  const std::function<void(const Session&)> on_wanted_;
  const PathTimes times_;

  std::atomic<uint64_t> current_{0};
  std::atomic<Path> told_by_{Path::kWanted};  // whose losses are passed on
  std::atomic<bool> prefer_wanted_{true};

  // Of whoever opens, closes, abandons: they exclude each other.
  uint32_t last_session_ = 0;
  steady_clock::time_point began_{};
  int short_sessions_ = 0;
  bool around_ = false;
  milliseconds healthy_;

  mutable Mutex mutex_;
  std::function<void(Error)> on_lost_ ABSL_GUARDED_BY(mutex_);
  std::string reason_ ABSL_GUARDED_BY(mutex_);  // why the wanted path is not taken

  // These call back until they are gone: behind all that they find then.
  const std::array<std::unique_ptr<Brick>, 2> bricks_;
  PathWatch watch_;
};

RedirectedBrick::RedirectedBrick(BrickPaths paths, PathTimes times)
    : names_(std::move(paths.names)),
      on_wanted_(std::move(paths.on_wanted)),
      times_(times),
      healthy_(times.healthy),
      bricks_{std::move(paths.wanted), std::move(paths.around)},
      watch_(std::move(paths.make_probe), times, [this] { offer_return(); }) {
  for (const Path path : {Path::kWanted, Path::kAround}) {
    brick(path).set_on_lost([this, path](Error error) { tell(path, error); });
  }
}

RedirectedBrick::Current RedirectedBrick::current() const {
  const uint64_t word = current_.load(std::memory_order_acquire);
  return {static_cast<uint32_t>(word >> 1), static_cast<Path>(word & 1)};
}

void RedirectedBrick::set_current(Current current) {
  current_.store(uint64_t{current.session} << 1 | static_cast<uint64_t>(current.path), std::memory_order_release);
}

Result<Brick*> RedirectedBrick::live() const {
  const Current now = current();
  if (now.session == 0) return Error(ENOTCONN, "no session");
  return &brick(now.path);
}

void RedirectedBrick::set_on_lost(std::function<void(Error)> callback) {
  MutexLock lock(mutex_);
  on_lost_ = std::move(callback);
}

void RedirectedBrick::tell(Path path, Error error) const {
  if (told_by_.load() != path) return;
  std::function<void(Error)> callback;
  {
    MutexLock lock(mutex_);
    callback = on_lost_;
  }
  if (callback) callback(error);
}

void RedirectedBrick::offer_return() {
  prefer_wanted_ = true;
  tell(Path::kAround, Error(ERESTART, "the wanted path to the brick works again"));
}

// The session is ended where it is before another is begun: nothing of it is under way on the path that is left.
void RedirectedBrick::abandon() {
  const Current former = current();
  if (former.session != 0) brick(former.path).abandon();
  set_current({});
}

// A path that opens, but loses its sessions at once, has failed too.
void RedirectedBrick::judge_former() {
  const Current former = current();
  if (former.session == 0 || former.path != Path::kWanted) return;
  const auto lasted = steady_clock::now() - began_;
  short_sessions_ = lasted < times_.trial ? short_sessions_ + 1 : 0;
  if (lasted >= times_.trial) healthy_ = times_.healthy;
  if (short_sessions_ < kShortSessions) return;
  prefer_wanted_ = false;
  MutexLock lock(mutex_);
  reason_ = "sessions are lost as soon as they begin";
}

Result<Session> RedirectedBrick::open(const OpenRequest& request, Holder* holder) {
  judge_former();
  abandon();
  const Path first = prefer_wanted_ ? Path::kWanted : Path::kAround;
  const Path second = first == Path::kWanted ? Path::kAround : Path::kWanted;
  auto opened = open_by(first, request, holder);
  if (opened.ok()) return begin(first, std::move(*opened), request);
  const Error error = opened.error();
  if (is_brick_answer(error)) return error;
  if (first == Path::kWanted) {
    MutexLock lock(mutex_);
    reason_ = describe(error);
  }
  opened = open_by(second, request, holder);
  if (opened.ok()) return begin(second, std::move(*opened), request);
  if (is_brick_answer(opened.error())) return opened.error();
  // That of the path the user asked for, unless only the other says something.
  return first == Path::kWanted ? more_telling(opened.error(), error) : more_telling(error, opened.error());
}

Result<Session> RedirectedBrick::open_by(Path path, const OpenRequest& request, Holder* holder) {
  told_by_ = path;  // a session can be lost before open() has returned
  return brick(path).open(request, holder);
}

Session RedirectedBrick::begin(Path path, Session session, const OpenRequest& request) {
  if (path == Path::kWanted) {
    watch_.rest();
    if (around_) log::info("the brick is reached by {} again", session.transport);
    around_ = false;
    prefer_wanted_ = true;
    if (on_wanted_) on_wanted_(session);
  } else {
    go_around(request, session);
    session.transport = describe_way_around();
  }
  began_ = steady_clock::now();
  if (++last_session_ == 0) ++last_session_;  // 0 says that there is none
  set_current({last_session_, path});
  return session;
}

void RedirectedBrick::go_around(const OpenRequest& request, const Session& session) {
  if (!around_) {
    log::warn("{}: slower, until {} works again", describe_way_around(), names_.wanted);
    // Back only to fail again: wait longer each time before it is trusted.
    if (short_sessions_ > 0) healthy_ = std::min(healthy_ * 2, std::max(times_.trial, times_.healthy) * 5);
  }
  around_ = true;
  short_sessions_ = 0;
  prefer_wanted_ = false;
  watch_.watch(request, session.boot, healthy_);
}

std::string RedirectedBrick::describe_way_around() const {
  MutexLock lock(mutex_);
  return fmt::format("{}, redirected: {} failed: {}", names_.around, names_.wanted, reason_);
}

Status RedirectedBrick::close() {
  Brick* const brick = TRY(live());
  watch_.rest();
  const Status status = brick->close();
  set_current({});
  return status;
}

Result<calls::Answer> RedirectedBrick::call(const calls::Request& request) {
  const Current now = current();
  if (now.session == 0) return Error(ENOTCONN, "no session");
  auto answer = brick(now.path).call(request);
  if (!answer.ok()) return answer;
  if (auto* const mapped = std::get_if<calls::Mapped>(&*answer)) {
    for (Handle& handle : mapped->handles) handle.session = now.session;
  }
  auto* const stat = std::get_if<BrickStat>(&*answer);
  if (stat != nullptr && now.path == Path::kAround) stat->transport = describe_way_around();
  return answer;
}

milliseconds RedirectedBrick::silence(Asking asking) {
  const auto live = this->live();
  return live.ok() ? (*live)->silence(asking) : milliseconds(0);
}

Status RedirectedBrick::make_visible() { return TRY(live())->make_visible(); }

std::chrono::steady_clock::time_point RedirectedBrick::known_at() {
  const auto live = this->live();
  return live.ok() ? (*live)->known_at() : std::chrono::steady_clock::time_point();
}

// With both: who uses it does not know by which path its bytes will go.
Result<RegisteredMemory> RedirectedBrick::register_memory(std::span<std::byte> memory) {
  auto around = std::make_shared<RegisteredMemory>(TRY(brick(Path::kAround).register_memory(memory)));
  CHECK(around->local_key() == 0);
  auto wanted = brick(Path::kWanted).register_memory(memory);
  if (!wanted.ok()) {
    if (current().path == Path::kWanted) return wanted.error();
    log::warn(
        "memory cannot be registered for {0} ({1}): once {0} works again, its bytes are copied until the next mount",
        names_.wanted, describe(wanted.error()));
    return std::move(*around);
  }
  const uint32_t key = wanted->local_key();
  auto both =
      std::make_shared<std::pair<RegisteredMemory, std::shared_ptr<RegisteredMemory>>>(std::move(*wanted), around);
  return RegisteredMemory(key, [both]() mutable { both.reset(); });
}

void RedirectedBrick::submit(Batch& batch) {
  const Current now = current();
  const bool all_of_session =
      std::all_of(batch.transfers.begin(), batch.transfers.end(),
                  [&](const Transfer& transfer) { return transfer.handle.session == now.session; });
  if (now.session != 0 && all_of_session) return brick(now.path).submit(batch);
  batch.begin(1);
  batch.finish_one(batch.transfers.empty() ? 0 : now.session == 0 ? ENOTCONN : EACCES);
}

// A session is abandoned only when its batches are complete: whichever is current, it is that of this batch, or the
// batch is complete.
Status RedirectedBrick::wait(Batch& batch) {
  const auto live = this->live();
  if (!batch.complete() && live.ok()) return (*live)->wait(batch);
  return batch.status();
}

}  // namespace

std::unique_ptr<Brick> make_redirected_brick(BrickPaths paths, PathTimes times) {
  return std::make_unique<RedirectedBrick>(std::move(paths), times);
}

}  // namespace brickfs
