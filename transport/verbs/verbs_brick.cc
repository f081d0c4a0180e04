// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_brick.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <functional>
#include <utility>

#include "transport/base/mutex.h"
#include "transport/limits.h"
#include "transport/remote_calls.h"
#include "transport/verbs/device.h"
#include "transport/verbs/link.h"
#include "transport/wire.h"

namespace brickfs {
namespace {

using verbs::Link;
using wire::Kind;

class VerbsBrick final : public Brick {
 public:
  explicit VerbsBrick(verbs::Peer peer) : peer_(std::move(peer)) {}
  ~VerbsBrick() override { drop_link(); }

  Result<Session> open(const OpenRequest& request, Holder* holder) override;
  Status close() override;
  void abandon() override { drop_link(); }
  Status alloc(BlockRange blocks) override;
  Status free(BlockRange blocks) override { return revoke(Kind::kFree, blocks); }
  Result<std::vector<Handle>> map(BlockRange blocks, Access access) override;
  Status unmap(BlockRange blocks) override { return revoke(Kind::kUnmap, blocks); }
  Result<ListPage> list(BlockAddress cursor) override;
  Status commit(std::span<const CommitRange> ranges) override;
  Result<BrickStat> stat() override;
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) override;
  void submit(Batch& batch) override;
  Status wait(Batch& batch) override;
  void set_on_lost(std::function<void(Error)> callback) override {
    MutexLock lock(mutex_);
    on_lost_ = std::move(callback);
  }

 private:
  std::shared_ptr<Link> link() const {
    MutexLock lock(mutex_);
    return link_;
  }
  Result<std::shared_ptr<Link>> live_link() const {
    auto link = this->link();
    if (!link) return Error(ENOTCONN, "no session");
    return link;
  }
  void drop_link();
  void tell_lost(Error error) const;
  Status revoke(Kind kind, BlockRange blocks);

  const verbs::Peer peer_;
  // Registrations outlive the Brick if their owner does.
  const std::shared_ptr<verbs::LocalMemory> memory_ = std::make_shared<verbs::LocalMemory>();
  mutable Mutex mutex_;
  std::function<void(Error)> on_lost_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Link> link_ ABSL_GUARDED_BY(mutex_);  // the session, also a lost one; none before and after
};

// What a brick has answered; bytes that make no sense end the session.
template <typename T>
Result<T> checked(Link& link, Result<T> decoded) {
  if (!decoded.ok()) link.lose(decoded.error());
  return decoded;
}

// The old session's transfers are over before it is let go, so that wait() finds them complete whatever it finds here.
void VerbsBrick::drop_link() {
  const auto old = link();
  if (!old) return;
  old->stop();
  MutexLock lock(mutex_);
  link_ = nullptr;
}

// From the link's own thread.
void VerbsBrick::tell_lost(Error error) const {
  std::function<void(Error)> callback;
  {
    MutexLock lock(mutex_);
    callback = on_lost_;
  }
  if (callback) callback(error);
}

Result<Session> VerbsBrick::open(const OpenRequest& request, Holder* holder) {
  TRY(check_open(request));
  drop_link();
  auto link = Link::open(peer_, *memory_, request, holder, [this](Error error) { tell_lost(error); });
  if (!link.ok()) {
    if (link.error().is(ENODEV)) {
      static std::atomic<bool> said{false};  // once: a path that failed is tried again and again
      const std::string why = said.exchange(true) ? "" : verbs::why_no_device();
      if (!why.empty()) spdlog::error("{}", why);
      return Error(EHOSTUNREACH, "no RDMA device leads there");
    }
    return link.error();
  }
  Session session = (*link)->session();
  session.transport = (*link)->describe();
  MutexLock lock(mutex_);
  link_ = *std::move(link);
  return session;
}

Status VerbsBrick::close() {
  const auto link = TRY(live_link());
  const Status status = link->close();
  drop_link();
  return status;
}

Status VerbsBrick::alloc(BlockRange blocks) {
  TRY(check_range(blocks));
  const auto link = TRY(live_link());
  TRY(link->call(Kind::kAlloc, bytes_of(wire::to_record(blocks))));
  return {};
}

Status VerbsBrick::revoke(Kind kind, BlockRange blocks) {
  TRY(check_range(blocks));
  const auto link = TRY(live_link());
  return link->revoke(kind, blocks);
}

Result<std::vector<Handle>> VerbsBrick::map(BlockRange blocks, Access access) {
  TRY(check_range(blocks));
  const auto link = TRY(live_link());
  return link->map(blocks, access);
}

Result<ListPage> VerbsBrick::list(BlockAddress cursor) {
  const auto link = TRY(live_link());
  const wire::ListCall call{raw(cursor)};
  const auto body = TRY(link->call(Kind::kList, bytes_of(call)));
  return checked(*link, wire::decode_list(body, cursor));
}

Status VerbsBrick::commit(std::span<const CommitRange> ranges) {
  if (ranges.size() > limits::kRangesPerCommit) return Error(EINVAL, "too many ranges in one commit");
  const auto link = TRY(live_link());
  return link->commit(wire::encode_commit(ranges));
}

Result<BrickStat> VerbsBrick::stat() {
  const auto link = TRY(live_link());
  const auto body = TRY(link->call(Kind::kStat, {}));
  const auto answer = TRY(checked(*link, wire::decode<wire::StatAnswer>(body)));
  auto stat = TRY(checked(*link, wire::from_answer(answer)));
  stat.transport = link->describe();
  return stat;
}

Result<RegisteredMemory> VerbsBrick::register_memory(std::span<std::byte> memory) {
  const uint32_t key = TRY(memory_->add(memory));
  return RegisteredMemory(key, [memory = memory_, key] { memory->remove(key); });
}

void VerbsBrick::submit(Batch& batch) {
  if (const auto link = this->link()) return link->submit(batch);
  batch.begin(1);
  batch.finish_one(batch.transfers.empty() ? 0 : ENOTCONN);
}

Status VerbsBrick::wait(Batch& batch) {
  if (!batch.complete()) {
    if (const auto link = this->link()) link->wait(batch);
  }
  return batch.status();
}

}  // namespace

std::unique_ptr<Brick> make_verbs_brick(std::vector<HostPort> addresses, const Secret& secret) {
  return std::make_unique<VerbsBrick>(verbs::Peer{std::move(addresses), secret});
}

}  // namespace brickfs
