// SPDX-License-Identifier: Apache-2.0
// A client's end of one session: a connection for calls, one for commits (which may wait for a disk), some for
// transfers, and a thread that keeps the session alive and notices its end. Once lost it stays lost.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick.h"
#include "transport/tcp/call_channel.h"
#include "transport/tcp/data_channel.h"
#include "transport/tcp/handshake.h"

namespace brickfs::tcp {

class Link {
 public:
  // Errors as Brick::open(). `on_lost`: as in Brick::set_on_lost().
  static Result<std::shared_ptr<Link>> open(const Peer& peer, const OpenRequest& request, Holder* holder,
                                            std::function<void(Error)> on_lost);
  ~Link();  // stop()
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const Session& session() const { return session_; }
  // The answer's body. Errors as Brick's calls.
  Result<std::vector<std::byte>> call(wire::Kind kind, std::span<const std::byte> body);
  void submit(Batch& batch);
  void wait(const Batch& batch);
  // Ends the session for good, without a word to `on_lost`.
  Status close();
  // Marks the session lost; the first reason counts.
  void lose(Error error);
  // Everything posted is complete and no thread of the link runs on return. Not from a thread of the link.
  void stop();

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
  const UniqueFd wake_;  // eventfd: lost or stopping
  CallChannel calls_;
  std::unique_ptr<CallChannel> commits_;            // none for an observer
  std::vector<std::unique_ptr<DataChannel>> data_;  // none for an observer

  mutable Mutex mutex_;
  std::optional<Error> lost_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread keeper_;
};

}  // namespace brickfs::tcp
