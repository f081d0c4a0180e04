// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/small_requests.h"

#include "fs/fuse/serve/session.h"

namespace brickfs {

SmallRequests::SmallRequests(FuseSession& session, const OperationContext& context)
    : session_(session), transfer_(session.files().joint_transfer(context)) {}

bool SmallRequests::add(FuseRequest& request) {
  const FuseRequest::Transfer& transfer = *request.transfer();
  if (transfer.kills_privileges) return false;
  if (transfer.for_page_cache) session_.files().note_cached(request.ino(), transfer.offset, transfer.bytes);
  const bool reads = request.header().opcode == FUSE_READ;
  if (reads ? !transfer_->begin_read(request.ino(), transfer.offset, transfer.data, transfer.touch)
            : !transfer_->begin_write(request.ino(), transfer.offset, transfer.data, transfer.writes_back)) {
    return false;
  }
  added_.push_back(&request);
  return true;
}

bool SmallRequests::finish() {
  const Status moved = transfer_->move();
  if (moved.code() == EINTR) return false;
  answer_all(moved);
  return true;
}

bool SmallRequests::try_to_finish() {
  const Status moved = transfer_->try_move();
  if (moved.ok()) answer_all(moved);
  return moved.ok();
}

void SmallRequests::answer_all(const Status& moved) {
  for (size_t i = 0; i < added_.size(); ++i) {
    FuseRequest& request = *added_[i];
    const Result<uint64_t> bytes = moved.ok() ? transfer_->result(i) : moved.error();
    if (request.header().opcode == FUSE_WRITE) {
      answer_write(session_, request, bytes);
    } else if (bytes.ok()) {
      request.answer(std::span<const std::byte>(request.transfer()->data.data, *bytes));
    } else {
      request.answer(bytes.error());
    }
  }
}

}  // namespace brickfs
