// SPDX-License-Identifier: Apache-2.0
// A client's end of one session: a connection for calls, one for commits (which may wait for a disk), some for
// transfers, and a thread that keeps the session alive and notices its end.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/brick.h"
#include "transport/remote/remote_link.h"
#include "transport/tcp/call_channel.h"
#include "transport/tcp/data_channel.h"
#include "transport/tcp/handshake.h"

namespace brickfs::tcp {

class Link final : public RemoteLink {
 public:
  // Errors as Brick::open(). `on_lost`: as in Brick::set_on_lost().
  static Result<std::unique_ptr<Link>> open(const Peer& peer, const OpenRequest& request, Holder* holder,
                                            std::function<void(Error)> on_lost);
  ~Link() override;  // stop()
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const Session& session() const override { return session_; }
  std::string describe() const override { return "tcp"; }
  Result<std::vector<std::byte>> call(wire::Kind kind, std::span<const std::byte> body) override;
  Result<std::vector<Handle>> map(BlockRange blocks, Access access) override;
  Status revoke(wire::Kind kind, BlockRange blocks) override;
  Status commit(std::span<const std::byte> body) override;
  std::chrono::milliseconds silence() override;
  void submit(Batch& batch) override;
  void wait(const Batch& batch) override;
  Status close() override;
  void lose(Error error) override;
  void stop() override;

 private:
  Link(Opened opened, std::function<void(Error)> on_lost);
  Status attach_all(const Peer& peer, const wire::Token& token, Deadline latest);
  void keep_alive();
  void renew();
  void post(Batch& batch, std::span<const Transfer* const> transfers);
  DataChannel& least_loaded();
  std::optional<Error> lost() const;
  void wake_keeper();

  const Session session_;
  const std::function<void(Error)> on_lost_;
  const UniqueFd wake_;           // eventfd: lost or stopping, or the brick is to be asked
  std::atomic<bool> ask_{false};  // the keeper, for a sign of life
  CallChannel calls_;
  std::unique_ptr<CallChannel> commits_;            // none for an observer
  std::vector<std::unique_ptr<DataChannel>> data_;  // none for an observer

  mutable Mutex mutex_;
  std::optional<Error> lost_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread keeper_;
};

}  // namespace brickfs::tcp
