// SPDX-License-Identifier: Apache-2.0
// Requests of one CPU over io_uring, and on which CPU their worker runs.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "fs/fuse/serve/uring.h"
#include "fs/fuse/serve/uring_request.h"
#include "fs/fuse/serve/worker.h"

namespace brickfs {

// Where a thread that serves requests of one CPU runs. On that CPU while one request at a time comes from it: the
// caller waits there, its data is in that cache. Wherever there is room once several are being served at a time.
// Measured at depth 1 and 16: docs/decisions, 29.
class FuseCpuChoice {
 public:
  // `serving`: requests of that CPU being served, by all its threads; outlives this. The thread will run where this one
  // may, or where somebody else has it run meanwhile (taskset): nowhere else, whichever CPU the requests come from.
  FuseCpuChoice(size_t cpu, std::atomic<unsigned>& serving);

  // Around each request, by the thread that serves it.
  void begin();
  void end() { --serving_; }

 private:
  enum class Place { kUnset, kOwnCpu, kAnywhere };
  void go(Place place);
  void look_for_others_choice();

  const size_t cpu_;
  std::atomic<unsigned>& serving_;
  Place place_ = Place::kUnset;
  unsigned alone_ = 0;  // requests in a row
  cpu_set_t allowed_;   // by others than this
  cpu_set_t chosen_;    // by this, of them; valid once place_ is set
};

// Requests of one CPU over io_uring, by one worker's entries.
//
// Threads: one; uring() from any, as it says.
class FuseUringSource final : public RequestSource {
 public:
  // `queue` outlives it.
  FuseUringSource(FuseUringQueue& queue, std::unique_ptr<FuseUring> uring, std::unique_ptr<FuseUringRequest> entry,
                  FuseCpuChoice cpu)
      : queue_(queue), uring_(std::move(uring)), first_(std::move(entry)), cpu_(cpu) {}

  // Called once, as soon as the kernel has its entry. Before receive().
  void set_on_offered(std::function<void()> callback) { on_offered_ = std::move(callback); }
  // The kernel has entries of it. From any thread.
  bool offers() const { return uring_->offered() > 0; }

  // The first of its entries, for good; at times in another's FuseUring.
  FuseRequest& entry() { return *first_; }

  Status receive(std::vector<FuseRequest*>& requests) override;
  bool pass(FuseRequest& request) override;
  void begin_alone(const FuseRequest& request) override;
  Status give_back(FuseRequest& request) override;
  bool hides_requests() const override { return offers(); }
  bool may_end() const override { return !collecting_; }
  FuseRequest* last() override;
  void close() override;

 private:
  Status begin();
  Status receive_some(std::vector<FuseRequest*>& requests);

  FuseUringQueue& queue_;
  const std::unique_ptr<FuseUring> uring_;
  const std::unique_ptr<FuseUringRequest> first_;  // which may be in another's FuseUring
  FuseCpuChoice cpu_;
  std::function<void()> on_offered_;
  bool begun_ = false;
  bool had_request_ = false;
  bool serving_ = false;
  bool collecting_ = false;
  std::vector<FuseUringRequest*> received_;
};

}  // namespace brickfs
