// SPDX-License-Identifier: Apache-2.0
// A client's end of one session over TCP: a connection for calls, one for commits (which may wait for a disk), and for
// transfers as many as there were at once so far, up to kDataChannels: the keeper opens another when transfers met.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/source.h"
#include "transport/remote/handshake.h"
#include "transport/remote/remote_link.h"
#include "transport/tcp/data_channel.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs::tcp {

class Link final : public RemoteLink {
 public:
  // Errors as Brick::open(). `on_lost`: as in Brick::set_on_lost().
  static Result<std::unique_ptr<Link>> open(const HostPort& peer, const ClientSecret& secret,
                                            const OpenRequest& request, Holder* holder,
                                            std::function<void(Error)> on_lost);
  ~Link() override;  // stop()

  std::string describe() const override { return encrypted_ ? "tcp (TLS 1.3)" : "tcp"; }
  void submit(Batch& batch) override;
  void wait(const Batch& batch) override;
  void stop() override;

 private:
  // As many as a mount has threads, each has a connection for itself (docs/decisions, 37).
  static constexpr size_t kDataChannels = 12;
  static_assert(kDataChannels <= Batch::kRoutes);

  // To attach more connections to the session.
  struct Peer {
    HostPort address;
    ClientSecret secret;
    Secret opened_by;  // the session
    wire::Token token;
  };

  Link(Session session, Peer peer, std::unique_ptr<TcpChannel> calls, std::function<void(Error)> on_lost);
  Result<std::unique_ptr<TcpChannel>> attach_one(wire::Role role, Deadline latest) const;
  Result<std::unique_ptr<Channel>> attach_calls(Deadline latest) override;
  Status attach_first(Deadline latest);
  Status add_channel(Deadline latest);
  void add_channel_if_wanted();
  std::span<const std::unique_ptr<DataChannel>> data() const {
    return std::span(data_).first(data_count_.load(std::memory_order_acquire));
  }
  Result<Reply> carry(const calls::Request& request, std::chrono::milliseconds timeout) override;
  std::shared_ptr<CallChannel> calls() const override { return calls_; }
  std::chrono::milliseconds stall() override;
  void cut() override;
  void watch(Deadline until) override;
  void renew() override;
  void post(Batch& batch, std::span<const Transfer* const> transfers);
  std::span<const std::unique_ptr<DataChannel>> final_data();
  DataChannel& least_loaded(size_t* number);

  const Peer peer_;
  const bool encrypted_;
  const std::shared_ptr<CallChannel> calls_;
  std::unique_ptr<CallChannel> commits_;  // none for an observer
  int commits_fd_ = -1;                   // of commits_
  StallClock commits_stall_;

  // The first data_count_ are there, none for an observer. The keeper adds to them, under the mutex.
  std::array<std::unique_ptr<DataChannel>, kDataChannels> data_;
  std::atomic<size_t> data_count_{0};
  std::atomic<bool> channel_wanted_{false};
  Clock::time_point add_after_{};  // the keeper's: not so soon after a failure
  Mutex data_mutex_;
};

}  // namespace brickfs::tcp
