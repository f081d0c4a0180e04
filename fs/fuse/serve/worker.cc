// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/worker.h"

#include <cerrno>
#include <utility>

#include "fs/fuse/serve/session.h"

namespace brickfs {

SmallRequests::SmallRequests(FuseSession& session, const OperationContext& context)
    : session_(session), transfer_(session.files().joint_transfer(context)) {}

bool SmallRequests::add(FuseRequest& request) {
  const FuseRequest::Transfer& transfer = *request.transfer();
  if (transfer.kills_privileges) return false;
  if (transfer.for_page_cache) session_.files().note_cached(request.ino(), transfer.offset, transfer.bytes);
  const bool reads = request.header().opcode == FUSE_READ;
  if (!reads && session_.sharing().appends(transfer)) return false;
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

Status FuseWorker::serve(const std::atomic<bool>& stopping, const std::function<bool()>& goes) {
  Status status;
  while (status.ok() && !(stopping && source_->may_end())) {
    status = serve_some();
    if (status.code() == EINTR) status = {};
    if (goes && goes()) break;
  }
  while (FuseRequest* const request = source_->last()) (void)serve_alone(*request);
  source_->close();
  return status.code() == ENODEV ? Status() : status;
}

std::chrono::milliseconds FuseWorker::hides_requests_for() const {
  const Clock::duration since = hides_since_;
  if (since == Clock::duration::zero()) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch() - since);
}

Status FuseWorker::serve_some() {
  requests_.clear();
  const Status received = source_->receive(requests_);
  if (requests_.empty()) return received;
  busy_ = true;
  const Status served = serve_all();
  busy_ = false;
  return received.ok() ? served : received;
}

// What the brick does not do at once waits behind those that are served by themselves, as these may not need it.
Status FuseWorker::serve_all() {
  together_.clear();
  alone_.clear();
  const bool is_lost = !dispatcher_.refusal().ok();
  for (FuseRequest* const request : requests_) {
    (request->is_small() && !request->is_answered() && !is_lost ? together_ : alone_).push_back(request);
  }
  pass(alone_, together_.empty());
  Status served;
  const bool done = serve_at_once(served);
  if (!done) {
    pass(together_, false);
    set_aside(together_);
  }
  if (alone_.size() > 1) set_aside(alone_);
  for (FuseRequest* const request : alone_) note(served, serve_alone(*request));
  if (!done && !together_.empty()) note(served, serve_when_possible());
  return served;
}

void FuseWorker::note(Status& first, const Status& next) {
  if (first.ok()) first = next;
}

// To others, as far as they have time; but for the last, if this worker is to have something to do, too.
void FuseWorker::pass(std::vector<FuseRequest*>& requests, bool keeps_one) {
  FuseRequest* const kept = keeps_one && !requests.empty() && !source_->hides_requests() ? requests.back() : nullptr;
  std::erase_if(requests, [&](FuseRequest* request) { return request != kept && source_->pass(*request); });
}

// Those that go together, as far as the brick is there. False: they are still to be served.
bool FuseWorker::serve_at_once(Status& served) {
  if (together_.empty()) return true;
  declined_.clear();
  bool done = false;
  {
    auto answer_first = session_.files().answer_first();
    SmallRequests small(session_, {.wake_later = &answer_first});
    std::erase_if(together_, [&](FuseRequest* request) {
      const bool added = small.add(*request);
      if (!added) declined_.push_back(request);
      return !added;
    });
    if (source_->hides_requests()) hides_since_ = Clock::now().time_since_epoch();
    done = small.try_to_finish();
    hides_since_ = Clock::duration::zero();
  }
  if (done) {
    for (FuseRequest* const request : together_) note(served, give_back(*request));
  }
  pass(declined_, alone_.empty());
  alone_.insert(alone_.end(), declined_.begin(), declined_.end());
  return done;
}

// Waits for the brick, once for all of them. Who is interrupted goes, the others go on.
Status FuseWorker::serve_when_possible() {
  Status served;
  source_->begin_alone(*together_.front());
  for (bool done = false; !done;) {
    std::erase_if(together_, [&](FuseRequest* request) {
      const bool gone = !request->take_up();
      if (gone) note(served, give_back(*request));
      return gone;
    });
    done = serve_in_one_go(served);
    if (done) break;
    std::erase_if(together_, [&](FuseRequest* request) {
      const bool interrupted = request->interruption()->raised();
      if (interrupted) note(served, serve_alone(*request));
      return interrupted;
    });
  }
  set_aside(declined_);
  for (FuseRequest* const request : declined_) note(served, serve_alone(*request));
  return served;
}

// False: some were interrupted, all are to be served still.
bool FuseWorker::serve_in_one_go(Status& served) {
  declined_.clear();
  bool done = false;
  Interruption some;
  {
    SmallRequests small(session_, {.interruption = &some});
    for (FuseRequest* const request : together_) {
      request->waiter().join(&some);
      if (!small.add(*request)) declined_.push_back(request);
    }
    done = small.finish();
    for (FuseRequest* const request : together_) request->waiter().join(nullptr);
    if (done) requests_ = small.added();
  }
  if (done) {
    for (FuseRequest* const request : requests_) note(served, give_back(*request));
  }
  return done;
}

// What the thread does first may take as long as the brick is away. Those that are interrupted already end before that.
void FuseWorker::set_aside(std::vector<FuseRequest*>& requests) {
  std::erase_if(requests, [this](FuseRequest* request) {
    const bool waits = request->set_aside();
    if (!waits) (void)serve_alone(*request);
    return !waits;
  });
}

// It may have been answered by whoever interrupted it.
Status FuseWorker::serve_alone(FuseRequest& request) {
  if (request.take_up()) {
    source_->begin_alone(request);
    auto answer_first = session_.files().answer_first();
    request.wake_later(&answer_first);
    dispatcher_.serve(request);
    request.wake_later(nullptr);
  }
  return give_back(request);
}

Status FuseWorker::give_back(FuseRequest& request) {
  return request.release() ? source_->give_back(request) : Status();
}

}  // namespace brickfs
