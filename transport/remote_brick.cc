// SPDX-License-Identifier: Apache-2.0
#include "transport/remote_brick.h"

#include <chrono>
#include <thread>
#include <utility>

#include "transport/limits.h"
#include "transport/remote_calls.h"

namespace brickfs {

namespace {

using wire::Kind;

constexpr std::chrono::microseconds kPause{100};  // until those who are still at a link that has stopped are out

}  // namespace

void RemoteBrick::set_on_lost(std::function<void(Error)> callback) {
  MutexLock lock(mutex_);
  on_lost_ = std::move(callback);
}

Result<RemoteLink*> RemoteBrick::Use::live() const {
  if (link_ == nullptr) return Error(ENOTCONN, "no session");
  return link_;
}

// The old session's transfers are over before it is let go, so that wait() finds them complete whatever it finds here.
void RemoteBrick::drop_link() {
  if (!link_) return;
  link_->stop();
  current_.store(nullptr);
  while (!stays_.none()) std::this_thread::sleep_for(kPause);
  link_ = nullptr;
}

// From the link's own thread.
void RemoteBrick::tell_lost(Error error) const {
  std::function<void(Error)> callback;
  {
    MutexLock lock(mutex_);
    callback = on_lost_;
  }
  if (callback) callback(error);
}

Result<Session> RemoteBrick::open(const OpenRequest& request, Holder* holder) {
  TRY(check_open(request));
  drop_link();
  auto link = TRY(connect(request, holder, [this](Error error) { tell_lost(error); }));
  Session session = link->session();
  session.transport = link->describe();
  link_ = std::move(link);
  current_.store(link_.get());
  return session;
}

Status RemoteBrick::close() {
  if (!link_) return Error(ENOTCONN, "no session");
  const Status status = link_->close();
  drop_link();
  return status;
}

Status RemoteBrick::alloc(BlockRange blocks) {
  TRY(check_range(blocks));
  const Use use(*this);
  RemoteLink* const link = TRY(use.live());
  TRY(link->call(Kind::kAlloc, bytes_of(wire::to_record(blocks))));
  return {};
}

Status RemoteBrick::revoke(Kind kind, BlockRange blocks) {
  TRY(check_range(blocks));
  const Use use(*this);
  RemoteLink* const link = TRY(use.live());
  return link->revoke(kind, blocks);
}

Result<std::vector<Handle>> RemoteBrick::map(BlockRange blocks, Access access) {
  TRY(check_range(blocks));
  const Use use(*this);
  RemoteLink* const link = TRY(use.live());
  return link->map(blocks, access);
}

Result<ListPage> RemoteBrick::list(BlockAddress cursor) {
  const Use use(*this);
  RemoteLink* const link = TRY(use.live());
  const wire::ListCall call{raw(cursor)};
  const auto body = TRY(link->call(Kind::kList, bytes_of(call)));
  return checked(*link, wire::decode_list(body, cursor));
}

Status RemoteBrick::commit(std::span<const CommitRange> ranges) {
  if (ranges.size() > limits::kRangesPerCommit) return Error(EINVAL, "too many ranges in one commit");
  const Use use(*this);
  RemoteLink* const link = TRY(use.live());
  return link->commit(wire::encode_commit(ranges));
}

Result<BrickStat> RemoteBrick::stat() {
  const Use use(*this);
  RemoteLink* const link = TRY(use.live());
  const auto body = TRY(link->call(Kind::kStat, {}));
  const auto answer = TRY(checked(*link, wire::decode<wire::StatAnswer>(body)));
  auto stat = TRY(checked(*link, wire::from_answer(answer)));
  stat.transport = link->describe();
  return stat;
}

void RemoteBrick::submit(Batch& batch) {
  const Use use(*this);
  if (use.get() != nullptr) return use.get()->submit(batch);
  batch.begin(1);
  batch.finish_one(batch.transfers.empty() ? 0 : ENOTCONN);
}

Status RemoteBrick::wait(Batch& batch) {
  if (!batch.complete()) {
    const Use use(*this);
    if (use.get() != nullptr) use.get()->wait(batch);
  }
  return batch.status();
}

}  // namespace brickfs
