// SPDX-License-Identifier: Apache-2.0
// A thread that serves requests: where it gets them from (RequestSource), those for few bytes together (SmallRequests).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fs/fuse/protocol/operations.h"
#include "fs/fuse/protocol/request.h"
#include "fs/fuse/serve/session.h"
#include "fs/operations/joint_transfer.h"
#include "transport/base/result.h"

namespace brickfs {

// Where one worker gets the kernel's requests from: /dev/fuse (fs/fuse/serve/device_source.h) or io_uring
// (fs/fuse/serve/uring_source.h).
//
// Threads: one, the worker's.
class RequestSource {
 public:
  virtual ~RequestSource() = default;

  // Waits for requests, and adds those that are this worker's to serve: any number of small ones, which go together,
  // and others. EINTR: there was nothing, or it is time to look whether to end. ENODEV: the connection has ended. Other
  // errors: the kernel will have no requests served this way.
  virtual Status receive(std::vector<FuseRequest*>& requests) = 0;
  // To another worker, which serves it by itself. False: none has time.
  virtual bool pass(FuseRequest& request) = 0;
  // It is going to be served, and may take as long as the brick is away: others take what comes meanwhile.
  virtual void begin_alone(const FuseRequest& request) = 0;
  // It has been answered, and nobody else is at it: its memory is free for the next one.
  virtual Status give_back(FuseRequest& request) = 0;
  // As long as this worker is at something, requests may wait that nobody else sees.
  virtual bool hides_requests() const { return false; }
  // Nobody counts on this worker to go on.
  virtual bool may_end() const { return true; }
  // For the end: what others have passed to anybody; null: nothing (more).
  virtual FuseRequest* last() { return nullptr; }
  // Nothing is received any more; what was given back has been answered.
  virtual void close() {}
};

// Requests for few bytes that one worker has at hand at the same time: their bytes travel together, then all are
// answered. docs/decisions, 46.
//
// Threads: one.
class SmallRequests {
 public:
  // `context`: of all of them.
  explicit SmallRequests(FuseSession& session, const OperationContext& context = {});
  SmallRequests(const SmallRequests&) = delete;
  SmallRequests& operator=(const SmallRequests&) = delete;

  // False: it has to be served by itself, after this has gone.
  bool add(FuseRequest& request);
  const std::vector<FuseRequest*>& added() const { return added_; }
  // Once: all that were added are answered. False: none is, they were interrupted.
  bool finish();
  // The same if it can be done at once. False: none is answered.
  bool try_to_finish();

 private:
  void answer_all(const Status& moved);

  FuseSession& session_;
  const std::unique_ptr<JointTransfer> transfer_;
  std::vector<FuseRequest*> added_;
};

// A thread that serves requests of one source: one at a time or, if they are for few bytes, all at hand together.
class FuseWorker {
 public:
  // The first two outlive it.
  FuseWorker(FuseSession& session, const FuseDispatcher& dispatcher, std::unique_ptr<RequestSource> source)
      : session_(session), dispatcher_(dispatcher), source_(std::move(source)) {}

  // On the thread, until the connection has ended (success), or `stopping` and the source says so. Then what it is at
  // has been answered. `goes`, if given, is asked after each round: true ends it, too. An error: as
  // RequestSource::receive().
  Status serve(const std::atomic<bool>& stopping, const std::function<bool()>& goes = nullptr);
  bool busy() const { return busy_; }
  RequestSource& source() { return *source_; }
  // For so long it has been waiting for the brick with small requests while others wait that nobody else sees. 0: it
  // has not.
  std::chrono::milliseconds hides_requests_for() const;

 private:
  using Clock = std::chrono::steady_clock;

  Status serve_some();
  Status serve_all();
  static void note(Status& first, const Status& next);
  void pass(std::vector<FuseRequest*>& requests, bool keeps_one);
  bool serve_at_once(Status& served);
  Status serve_when_possible();
  bool serve_in_one_go(Status& served);
  void set_aside(std::vector<FuseRequest*>& requests);
  Status serve_alone(FuseRequest& request);
  Status give_back(FuseRequest& request);

  FuseSession& session_;
  const FuseDispatcher& dispatcher_;
  const std::unique_ptr<RequestSource> source_;
  std::atomic<bool> busy_{false};
  std::atomic<Clock::duration> hides_since_{Clock::duration::zero()};  // of Clock; 0: it does not
  // Of the round at hand:
  std::vector<FuseRequest*> requests_;
  std::vector<FuseRequest*> together_;
  std::vector<FuseRequest*> alone_;
  std::vector<FuseRequest*> declined_;
};

}  // namespace brickfs
