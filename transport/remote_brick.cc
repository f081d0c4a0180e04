// SPDX-License-Identifier: Apache-2.0
#include "transport/remote_brick.h"

#include <utility>

#include "transport/limits.h"
#include "transport/remote_calls.h"

namespace brickfs {

using wire::Kind;

void RemoteBrick::set_on_lost(std::function<void(Error)> callback) {
  MutexLock lock(mutex_);
  on_lost_ = std::move(callback);
}

std::shared_ptr<RemoteLink> RemoteBrick::link() const {
  MutexLock lock(mutex_);
  return link_;
}

Result<std::shared_ptr<RemoteLink>> RemoteBrick::live_link() const {
  auto link = this->link();
  if (!link) return Error(ENOTCONN, "no session");
  return link;
}

// The old session's transfers are over before it is let go, so that wait() finds them complete whatever it finds here.
void RemoteBrick::drop_link() {
  const auto old = link();
  if (!old) return;
  old->stop();
  MutexLock lock(mutex_);
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
  MutexLock lock(mutex_);
  link_ = std::move(link);
  return session;
}

Status RemoteBrick::close() {
  const auto link = TRY(live_link());
  const Status status = link->close();
  drop_link();
  return status;
}

Status RemoteBrick::alloc(BlockRange blocks) {
  TRY(check_range(blocks));
  const auto link = TRY(live_link());
  TRY(link->call(Kind::kAlloc, bytes_of(wire::to_record(blocks))));
  return {};
}

Status RemoteBrick::revoke(Kind kind, BlockRange blocks) {
  TRY(check_range(blocks));
  const auto link = TRY(live_link());
  return link->revoke(kind, blocks);
}

Result<std::vector<Handle>> RemoteBrick::map(BlockRange blocks, Access access) {
  TRY(check_range(blocks));
  const auto link = TRY(live_link());
  return link->map(blocks, access);
}

Result<ListPage> RemoteBrick::list(BlockAddress cursor) {
  const auto link = TRY(live_link());
  const wire::ListCall call{raw(cursor)};
  const auto body = TRY(link->call(Kind::kList, bytes_of(call)));
  return checked(*link, wire::decode_list(body, cursor));
}

Status RemoteBrick::commit(std::span<const CommitRange> ranges) {
  if (ranges.size() > limits::kRangesPerCommit) return Error(EINVAL, "too many ranges in one commit");
  const auto link = TRY(live_link());
  return link->commit(wire::encode_commit(ranges));
}

Result<BrickStat> RemoteBrick::stat() {
  const auto link = TRY(live_link());
  const auto body = TRY(link->call(Kind::kStat, {}));
  const auto answer = TRY(checked(*link, wire::decode<wire::StatAnswer>(body)));
  auto stat = TRY(checked(*link, wire::from_answer(answer)));
  stat.transport = link->describe();
  return stat;
}

void RemoteBrick::submit(Batch& batch) {
  if (const auto link = this->link()) return link->submit(batch);
  batch.begin(1);
  batch.finish_one(batch.transfers.empty() ? 0 : ENOTCONN);
}

Status RemoteBrick::wait(Batch& batch) {
  if (!batch.complete()) {
    if (const auto link = this->link()) link->wait(batch);
  }
  return batch.status();
}

}  // namespace brickfs
