// SPDX-License-Identifier: Apache-2.0
// A client's end of one session over what reads and writes one-sidedly: its paths, its handles, its data path, and a
// thread that keeps the session alive and notices the end of paths. As long as one path is left the session goes on:
// what was under way on the others is done again there, once the brick has destroyed their queue pairs, and a second
// thread brings them back. Without any the session is lost.
//
// Threads: every method from any thread, except as said.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/source.h"
#include "transport/onesided/connector.h"
#include "transport/onesided/data_path.h"
#include "transport/onesided/handle_map.h"
#include "transport/onesided/local_memory.h"
#include "transport/onesided/path.h"
#include "transport/remote/remote_link.h"

namespace brickfs::onesided {

struct Peer {
  std::vector<HostPort> addresses;  // of one brick; at least one
  ClientSecret secret;
};

class Link final : public RemoteLink {
 public:
  // Errors as Brick::open(). `connector` and `memory` outlive the link; `on_lost`: as in Brick::set_on_lost().
  static Result<std::unique_ptr<Link>> open(const Peer& peer, Connector& connector, LocalMemory& memory,
                                            const OpenRequest& request, Holder* holder,
                                            std::function<void(Error)> on_lost);
  ~Link() override;  // stop()

  std::string describe() const override;
  Result<calls::Answer> call(const calls::Request& request) override;
  void submit(Batch& batch) override { data_.submit(batch); }
  void wait(const Batch& batch) override { data_.wait(batch); }
  void stop() override;

 private:
  using Paths = std::vector<std::shared_ptr<Path>>;
  // When an address is tried again where connections are made and carry nothing, which would stop transfers each time.
  struct Trial {
    std::chrono::seconds pause{0};
    Deadline from;
  };

  Link(const Peer& peer, Connector& connector, LocalMemory& memory, const OpenRequest& request, const Opened& opened,
       std::function<void(Error)> on_lost);
  Status begin(size_t number, std::unique_ptr<Channel> calls, Deadline latest);

  // Paths (link_paths.cc).
  Result<std::shared_ptr<Path>> make_path(const HostPort& address, std::unique_ptr<Channel> calls, Deadline latest);
  Status add_queue_pairs(Path& path, Deadline latest);
  Result<std::unique_ptr<Channel>> attach_one(const HostPort& address, wire::Role role, Deadline latest);
  Result<calls::Answer> ask_on(CallChannel& channel, const calls::Request& request, Deadline latest);
  Status learn_keys(uint32_t pair, CallChannel& channel, Deadline latest);
  void handle_lost_paths();
  void lose_path(size_t number, Path& path);
  void judge(size_t number, bool in_vain);
  void mend();
  bool is_due(size_t number);
  bool mend_one(size_t number);

  Paths paths() const;
  std::shared_ptr<Path> live_path() const;  // null: none

  Result<calls::Answer> ask_flushed(const calls::Request& request);
  Result<calls::Answer> map(const calls::Request& request);
  // No transfer uses the handles any more, and what was written through them is visible to the brick.
  Result<calls::Answer> revoke(const calls::Request& request, BlockRange blocks);
  Result<Reply> carry(const calls::Request& request, std::chrono::milliseconds timeout) override;
  std::shared_ptr<CallChannel> calls() const override;
  Result<std::unique_ptr<Channel>> attach_calls(Deadline latest) override;
  Status flush() override;
  void cut() override;
  void watch(Deadline until) override;
  void renew() override;

  const Peer peer_;
  Connector& connector_;
  const wire::Token token_;
  const Secret opened_by_;
  const bool observes_;
  HandleMap handles_;

  mutable Mutex mutex_;
  CondVar mend_;                                       // for the mender
  Paths paths_ ABSL_GUARDED_BY(mutex_);                // by number of the address; null: not there yet
  std::vector<Trial> trials_ ABSL_GUARDED_BY(mutex_);  // by the same

  DataPath data_;       // whose queue pairs go before the paths
  std::thread mender_;  // only with several addresses
};

}  // namespace brickfs::onesided
