// SPDX-License-Identifier: Apache-2.0
// A thread that serves requests of one source: one at a time or, if they are for few bytes, all at hand together.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "fs/fuse/serve/dispatcher.h"
#include "fs/fuse/serve/request_source.h"
#include "transport/base/result.h"

namespace brickfs {

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
