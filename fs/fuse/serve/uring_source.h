// SPDX-License-Identifier: Apache-2.0
// Requests of one CPU over io_uring, by one worker's entries.
//
// Threads: one; uring() from any, as it says.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "fs/fuse/serve/cpu_choice.h"
#include "fs/fuse/serve/request_source.h"
#include "fs/fuse/serve/uring.h"
#include "fs/fuse/serve/uring_queue.h"
#include "fs/fuse/serve/uring_request.h"

namespace brickfs {

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

  // The first of its entries, for good; at times in another's uring.
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
  const std::unique_ptr<FuseUringRequest> first_;  // which may be in another's uring
  FuseCpuChoice cpu_;
  std::function<void()> on_offered_;
  bool begun_ = false;
  bool had_request_ = false;
  bool serving_ = false;
  bool collecting_ = false;
  std::vector<FuseUringRequest*> received_;
};

}  // namespace brickfs
