// SPDX-License-Identifier: Apache-2.0
// All of a mount but the kernel: a file system on a brick that can be away, a session, a dispatcher, and one worker's
// end of the device.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fs/fuse/interrupt/interrupts.h"
#include "fs/fuse/serve/device_source.h"
#include "fs/fuse/serve/session.h"
#include "tests/support/fake_kernel.h"
#include "tests/support/mounted_volume.h"
#include "tests/support/restarting_brick.h"
#include "transport/base/check.h"

namespace brickfs {

class FuseBed {
 public:
  // `brick`: null: one of its own, which can be away.
  explicit FuseBed(const FuseSession::Rules& rules = {}, std::unique_ptr<Brick> brick = nullptr)
      : brick_(brick == nullptr ? std::make_unique<RestartingBrick>(64, 64) : nullptr),
        filesystem_(mount(brick == nullptr ? brick_->make_brick() : std::move(brick))),
        session_(*filesystem_, rules),
        queue_(kernel_.device()),
        interrupts_(filesystem_->volume(), nullptr),
        dispatcher_(session_, interrupts_, [this] { ++begun_; }) {
    session_.connect(kernel_.device());
    source_ = make_source();
  }
  ~FuseBed() {
    if (brick_) brick_->faults().refuse(false);
    session_.stop();
    queue_.stop();
  }
  FuseBed(const FuseBed&) = delete;
  FuseBed& operator=(const FuseBed&) = delete;

  Filesystem& filesystem() { return *filesystem_; }
  VolumeAccess& volume() { return filesystem_->volume(); }
  FuseSession& session() { return session_; }
  FuseInterrupts& interrupts() { return interrupts_; }
  const FuseDispatcher& dispatcher() const { return dispatcher_; }
  FakeKernel& kernel() { return kernel_; }
  RestartingBrick& brick() { return *brick_; }
  int begun() const { return begun_; }

  // As a kernel of version 7.`minor` that has all that can be asked for.
  void negotiate(uint32_t minor) {
    fuse_init_in in{};
    in.major = 7;
    in.minor = minor;
    in.flags = ~0U;
    EXPECT_EQ(serve_and_take(kernel_.request_with(FUSE_INIT, 0, in)).header.error, 0);
  }

  // What has been sent is received, served and given back.
  void serve() {
    std::vector<FuseRequest*> requests;
    ASSERT_TRUE(source_->receive(requests).ok());
    for (FuseRequest* const request : requests) {
      dispatcher_.serve(*request);
      EXPECT_TRUE(request->is_answered());
      if (request->release()) {
        EXPECT_TRUE(source_->give_back(*request).ok());
      }
    }
  }
  // Until it has been answered. Notices before that are counted.
  FakeKernel::Answer serve_and_take(uint64_t unique) {
    serve();
    return take(unique);
  }
  FakeKernel::Answer take(uint64_t unique) {
    for (;;) {
      auto answer = kernel_.answer();
      if (!answer) {
        ADD_FAILURE() << "request " << unique << " has no answer";
        return {};
      }
      if (answer->header.unique == unique) return std::move(*answer);
      EXPECT_EQ(answer->header.unique, 0u) << "of another request";
      notices_.push_back(std::move(*answer));
    }
  }
  // That came since this was asked last.
  std::vector<FakeKernel::Answer> notices() { return std::exchange(notices_, {}); }
  // Nothing is to be read.
  bool is_silent() { return !kernel_.answer(0).has_value(); }

 private:
  static std::unique_ptr<Filesystem> mount(std::unique_ptr<Brick> brick) {
    VolumeOptions options;
    options.open.client = ClientId{1};
    options.open.client_name = "test";
    Holder holder;
    auto client = VolumeSet::open(std::move(brick), options, &holder);
    CHECK(client.ok());
    std::string why;
    auto mounted = Filesystem::mount(std::move(*client), {}, &why);
    EXPECT_TRUE(mounted.ok()) << why;
    CHECK(mounted.ok());
    return std::move(*mounted);
  }
  std::unique_ptr<FuseDeviceSource> make_source() {
    auto buffers = FuseBuffers::make(volume());
    CHECK(buffers.ok());
    return std::make_unique<FuseDeviceSource>(volume(), session_.cache(), session_.operations(), queue_, interrupts_,
                                              kernel_.device(), std::move(*buffers), false);
  }

  std::unique_ptr<RestartingBrick> brick_;
  FakeKernel kernel_;
  std::unique_ptr<Filesystem> filesystem_;
  FuseSession session_;
  FuseDeviceQueue queue_;
  std::unique_ptr<FuseDeviceSource> source_;
  FuseInterrupts interrupts_;  // goes before what it knows
  FuseDispatcher dispatcher_;
  int begun_ = 0;
  std::vector<FakeKernel::Answer> notices_;
};

}  // namespace brickfs
