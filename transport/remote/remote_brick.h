// SPDX-License-Identifier: Apache-2.0
// A brick elsewhere: the brick interface over one RemoteLink after the other. Transports say how one is made.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transport/base/current.h"
#include "transport/base/mutex.h"
#include "transport/brick/brick.h"
#include "transport/remote/remote_link.h"

namespace brickfs {

class RemoteBrick : public Brick {
 public:
  Result<Session> open(const OpenRequest& request, Holder* holder) final;
  Status close() final;
  void abandon() final { drop_link(); }
  Result<calls::Answer> call(const calls::Request& request) final;
  Result<RegisteredMemory> register_memory(std::span<std::byte>) override { return RegisteredMemory(); }
  Status make_visible() final;
  std::chrono::milliseconds silence(Asking asking) final;
  std::chrono::steady_clock::time_point known_at() final;
  void submit(Batch& batch) final;
  Status wait(Batch& batch) final;
  void set_on_lost(std::function<void(Error)> callback) final;

 protected:
  // Each calls drop_link() in its destructor: a link may use what the transport's brick has.
  ~RemoteBrick() override = default;
  // Errors as Brick::open(). `on_lost`: as in Brick::set_on_lost().
  virtual Result<std::unique_ptr<RemoteLink>> connect(const OpenRequest& request, Holder* holder,
                                                      std::function<void(Error)> on_lost) = 0;
  void drop_link();

 private:
  using Guard = Current<RemoteLink>::Guard;

  void tell_lost(Error error) const;

  Current<RemoteLink> link_;  // the session, also a lost one; none before and after

  mutable Mutex mutex_;
  std::function<void(Error)> on_lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
