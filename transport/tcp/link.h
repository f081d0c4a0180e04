// SPDX-License-Identifier: Apache-2.0
// A client's end of one session over TCP: a connection for calls, one for commits (which may wait for a disk), and some
// for transfers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"
#include "transport/remote/handshake.h"
#include "transport/remote/remote_link.h"
#include "transport/tcp/data_channel.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs::tcp {

class Link final : public RemoteLink {
 public:
  // Errors as Brick::open(). `on_lost`: as in Brick::set_on_lost().
  static Result<std::unique_ptr<Link>> open(const HostPort& peer, const Secret& secret, const OpenRequest& request,
                                            Holder* holder, std::function<void(Error)> on_lost);
  ~Link() override;  // stop()

  std::string describe() const override { return "tcp"; }
  void submit(Batch& batch) override;
  void wait(const Batch& batch) override;
  void stop() override;

 private:
  Link(Session session, std::unique_ptr<TcpChannel> calls, std::function<void(Error)> on_lost);
  Status attach_all(const HostPort& peer, const Secret& secret, const wire::Token& token, Deadline latest);
  Result<Reply> carry(const calls::Request& request, std::chrono::milliseconds timeout) override;
  std::shared_ptr<CallChannel> calls() const override { return calls_; }
  void cut() override;
  void watch(Deadline until) override;
  void renew() override;
  void post(Batch& batch, std::span<const Transfer* const> transfers);
  size_t least_loaded() const;

  const std::shared_ptr<CallChannel> calls_;
  std::unique_ptr<CallChannel> commits_;            // none for an observer
  std::vector<std::unique_ptr<DataChannel>> data_;  // none for an observer
};

}  // namespace brickfs::tcp
