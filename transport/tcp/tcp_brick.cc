// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp_brick.h"

#include <functional>
#include <utility>

#include "transport/base/mutex.h"
#include "transport/brick_calls.h"
#include "transport/limits.h"
#include "transport/remote_calls.h"
#include "transport/tcp/link.h"
#include "transport/wire.h"

namespace brickfs {
namespace {

using tcp::Link;
using wire::Kind;

class TcpBrick final : public Brick {
 public:
  TcpBrick(std::function<std::vector<HostPort>()> addresses, Secret secret)
      : addresses_(std::move(addresses)), secret_(std::move(secret)) {}
  ~TcpBrick() override { drop_link(); }

  Result<Session> open(const OpenRequest& request, Holder* holder) override;
  Status close() override;
  void abandon() override { drop_link(); }
  Status alloc(BlockRange blocks) override { return call_range(Kind::kAlloc, blocks); }
  Status free(BlockRange blocks) override { return call_range(Kind::kFree, blocks); }
  Result<std::vector<Handle>> map(BlockRange blocks, Access access) override;
  Status unmap(BlockRange blocks) override { return call_range(Kind::kUnmap, blocks); }
  Result<ListPage> list(BlockAddress cursor) override;
  Status commit(std::span<const CommitRange> ranges) override;
  Result<BrickStat> stat() override;
  Result<RegisteredMemory> register_memory(std::span<std::byte>) override { return RegisteredMemory(); }
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
  Result<std::shared_ptr<Link>> connect(const OpenRequest& request, Holder* holder);
  void tell_lost(Error error) const;
  Status call_range(Kind kind, BlockRange blocks);

  const std::function<std::vector<HostPort>()> addresses_;
  const Secret secret_;
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
void TcpBrick::drop_link() {
  const auto old = link();
  if (!old) return;
  old->stop();
  MutexLock lock(mutex_);
  link_ = nullptr;
}

// From the link's own thread.
void TcpBrick::tell_lost(Error error) const {
  std::function<void(Error)> callback;
  {
    MutexLock lock(mutex_);
    callback = on_lost_;
  }
  if (callback) callback(error);
}

Result<std::shared_ptr<Link>> TcpBrick::connect(const OpenRequest& request, Holder* holder) {
  Error error(EHOSTUNREACH, "no address");
  for (HostPort& address : addresses_()) {
    auto link = Link::open({std::move(address.host), address.port, secret_}, request, holder,
                           [this](Error loss) { tell_lost(loss); });
    if (link.ok() || is_brick_answer(link.error())) return link;
    error = link.error();
  }
  return error;
}

Result<Session> TcpBrick::open(const OpenRequest& request, Holder* holder) {
  TRY(check_open(request));
  drop_link();
  auto link = TRY(connect(request, holder));
  Session session = link->session();
  session.transport = "tcp";
  MutexLock lock(mutex_);
  link_ = std::move(link);
  return session;
}

Status TcpBrick::close() {
  const auto link = TRY(live_link());
  const Status status = link->close();
  drop_link();
  return status;
}

Status TcpBrick::call_range(Kind kind, BlockRange blocks) {
  TRY(check_range(blocks));
  const auto link = TRY(live_link());
  TRY(link->call(kind, bytes_of(wire::to_record(blocks))));
  return {};
}

Result<std::vector<Handle>> TcpBrick::map(BlockRange blocks, Access access) {
  TRY(check_range(blocks));
  const auto link = TRY(live_link());
  const wire::MapCall call{wire::to_record(blocks), static_cast<uint32_t>(access), 0};
  const auto body = TRY(link->call(Kind::kMap, bytes_of(call)));
  return checked(*link, wire::decode_handles(body, blocks, access));
}

Result<ListPage> TcpBrick::list(BlockAddress cursor) {
  const auto link = TRY(live_link());
  const wire::ListCall call{raw(cursor)};
  const auto body = TRY(link->call(Kind::kList, bytes_of(call)));
  return checked(*link, wire::decode_list(body, cursor));
}

Status TcpBrick::commit(std::span<const CommitRange> ranges) {
  if (ranges.size() > limits::kRangesPerCommit) return Error(EINVAL, "too many ranges in one commit");
  const auto link = TRY(live_link());
  TRY(link->call(Kind::kCommit, wire::encode_commit(ranges)));
  return {};
}

Result<BrickStat> TcpBrick::stat() {
  const auto link = TRY(live_link());
  const auto body = TRY(link->call(Kind::kStat, {}));
  const auto answer = TRY(checked(*link, wire::decode<wire::StatAnswer>(body)));
  auto stat = TRY(checked(*link, wire::from_answer(answer)));
  stat.transport = "tcp";
  return stat;
}

void TcpBrick::submit(Batch& batch) {
  if (const auto link = this->link()) return link->submit(batch);
  batch.begin(1);
  batch.finish_one(batch.transfers.empty() ? 0 : ENOTCONN);
}

Status TcpBrick::wait(Batch& batch) {
  if (!batch.complete()) {
    if (const auto link = this->link()) link->wait(batch);
  }
  return batch.status();
}

}  // namespace

std::unique_ptr<Brick> make_tcp_brick(const std::string& host, uint16_t port, const Secret& secret) {
  return make_tcp_brick([address = HostPort{host, port}] { return std::vector{address}; }, secret);
}

std::unique_ptr<Brick> make_tcp_brick(std::function<std::vector<HostPort>()> addresses, const Secret& secret) {
  return std::make_unique<TcpBrick>(std::move(addresses), secret);
}

}  // namespace brickfs
