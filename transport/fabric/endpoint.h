// SPDX-License-Identifier: Apache-2.0
// An endpoint with its completion queue, at either end: of a client, by which it reads and writes, and of a brick, by
// which its memory is reached.
//
// Threads: every call from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "transport/base/result.h"
#include "transport/fabric/domain.h"
#include "transport/fabric/fabric_ptr.h"

namespace brickfs::fabric {

// Outlives the endpoint whose completions it gets.
class CompletionQueue {
 public:
  static Result<std::shared_ptr<CompletionQueue>> open(std::shared_ptr<Domain> domain, size_t entries);

  fid_cq* get() const { return queue_.get(); }
  // Nothing is there, and fd() will tell of what comes. False: look again.
  bool may_sleep();
  // What poll() is to look at, as far as may_sleep() has said so the last time; else, and where providers have none,
  // -1.
  int fd() const { return may_sleep_.load() ? fd_ : -1; }

 private:
  explicit CompletionQueue(std::shared_ptr<Domain> domain) : domain_(std::move(domain)) {}

  const std::shared_ptr<Domain> domain_;
  CqPtr queue_;
  int fd_ = -1;  // the queue's
  std::atomic<bool> may_sleep_{false};
};

struct Endpoint {
  std::shared_ptr<CompletionQueue> queue;
  CounterPtr accesses;  // by peers; null: the provider does not count them
  EndpointPtr endpoint;

  static Result<Endpoint> open(const std::shared_ptr<Domain>& domain, size_t entries);
  // Of this one, as peers insert it.
  Result<std::vector<std::byte>> name() const;
};

}  // namespace brickfs::fabric
