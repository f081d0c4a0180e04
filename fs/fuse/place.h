// SPDX-License-Identifier: Apache-2.0
// Where a request is while it is served: its memory, and the way its answer goes.
//
// Threads: one at a time.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "fs/fuse/buffers.h"
#include "fs/fuse/waiter.h"

namespace brickfs {

class FusePlace {
 public:
  virtual ~FusePlace() = default;
  FusePlace(const FusePlace&) = delete;
  FusePlace& operator=(const FusePlace&) = delete;

  // Of the request that the calling thread is at; null: it is at none.
  static FusePlace* current();
  static void set_current(FusePlace* place);

  FuseBuffers& buffers() const { return *buffers_; }
  // The request, until it is answered, as it comes from /dev/fuse: header, arguments, data in one piece.
  std::span<std::byte> message() const { return message_; }
  FuseWaiter& waiter() { return waiter_; }
  // Its request, which the place's thread has set aside, ends with EINTR. From another thread.
  virtual void answer_interrupted() {}
  // A request with that number is here and has not been answered.
  virtual bool serves(uint64_t unique) const = 0;
  // Its answer: header, then data, which may be in the place's own buffer. As writev().
  virtual ssize_t send(std::span<const iovec> parts) = 0;
  // Takes the request away from the calling thread, which is at it: it has no current place any more, and is done with
  // the request. What is returned is called once, by any thread, with what answers it.
  using Answer = std::function<void()>;
  virtual std::function<void(const Answer&)> put_aside() = 0;

 protected:
  explicit FusePlace(std::unique_ptr<FuseBuffers> buffers) : buffers_(std::move(buffers)) {}
  // Has `answer` find this as the current place.
  void answer_here(const Answer& answer);
  uint64_t unique() const;  // of the message
  void set_message(std::span<std::byte> message);

 private:
  const std::unique_ptr<FuseBuffers> buffers_;
  std::span<std::byte> message_;
  FuseWaiter waiter_;
};

// Has the request at the calling thread's current place served: answered, or passed to JointRequests::current().
using FuseProcess = std::function<void(std::span<std::byte> message)>;

}  // namespace brickfs
