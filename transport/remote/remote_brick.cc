// SPDX-License-Identifier: Apache-2.0
#include "transport/remote/remote_brick.h"

#include <utility>

#include "transport/brick/limits.h"
#include "transport/brick/remote_calls.h"

namespace brickfs {

namespace {

using wire::Kind;

Error no_session() { return Error(ENOTCONN, "no session"); }

}  // namespace

void RemoteBrick::set_on_lost(std::function<void(Error)> callback) {
  MutexLock lock(mutex_);
  on_lost_ = std::move(callback);
}

// The old session's transfers are over before it is let go, so that wait() finds them complete whatever it finds here.
void RemoteBrick::drop_link() {
  if (link_.get() == nullptr) return;
  link_.get()->stop();
  link_.take_away();
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
  link_.put(std::move(link));
  return session;
}

Status RemoteBrick::close() {
  if (link_.get() == nullptr) return no_session();
  const Status status = link_.get()->close();
  drop_link();
  return status;
}

Status RemoteBrick::alloc(BlockRange blocks) {
  TRY(check_range(blocks));
  const Use link(link_);
  if (!link) return no_session();
  TRY(link->call(Kind::kAlloc, bytes_of(wire::to_record(blocks))));
  return {};
}

Status RemoteBrick::revoke(Kind kind, BlockRange blocks) {
  TRY(check_range(blocks));
  const Use link(link_);
  if (!link) return no_session();
  return link->revoke(kind, blocks);
}

Result<std::vector<Handle>> RemoteBrick::map(BlockRange blocks, Access access) {
  TRY(check_range(blocks));
  const Use link(link_);
  if (!link) return no_session();
  return link->map(blocks, access);
}

Result<ListPage> RemoteBrick::list(BlockAddress cursor) {
  const Use link(link_);
  if (!link) return no_session();
  const wire::ListCall call{raw(cursor)};
  const auto body = TRY(link->call(Kind::kList, bytes_of(call)));
  return checked(*link, wire::decode_list(body, cursor));
}

Status RemoteBrick::commit(std::span<const CommitRange> ranges) {
  if (ranges.size() > limits::kRangesPerCommit) return Error(EINVAL, "too many ranges in one commit");
  const Use link(link_);
  if (!link) return no_session();
  return link->commit(wire::encode_commit(ranges));
}

Result<BrickStat> RemoteBrick::stat() {
  const Use link(link_);
  if (!link) return no_session();
  const auto body = TRY(link->call(Kind::kStat, {}));
  const auto answer = TRY(checked(*link, wire::decode<wire::StatAnswer>(body)));
  auto stat = TRY(checked(*link, wire::from_answer(answer)));
  stat.transport = link->describe();
  return stat;
}

std::chrono::milliseconds RemoteBrick::silence() {
  const Use link(link_);
  return link ? link->silence() : std::chrono::milliseconds(0);
}

void RemoteBrick::submit(Batch& batch) {
  const Use link(link_);
  if (link) return link->submit(batch);
  batch.begin(1);
  batch.finish_one(batch.transfers.empty() ? 0 : ENOTCONN);
}

Status RemoteBrick::wait(Batch& batch) {
  if (!batch.complete()) {
    const Use link(link_);
    if (link) link->wait(batch);
  }
  return batch.status();
}

}  // namespace brickfs
