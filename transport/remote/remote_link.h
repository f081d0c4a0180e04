// SPDX-License-Identifier: Apache-2.0
// A client's end of one session with a remote brick, over whatever it is connected by. Once lost it stays lost. Errors
// are those of Brick's calls of the same names.
//
// A transport says by which connection a call goes, and has a thread, the *keeper*, that keeps the session alive and
// notices its end.
//
// Threads: every method from any thread, except as said.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/brick.h"
#include "transport/brick/calls.h"
#include "transport/brick/channel.h"
#include "transport/remote/call_channel.h"

namespace brickfs {

class RemoteLink {
 public:
  virtual ~RemoteLink() = default;
  RemoteLink(const RemoteLink&) = delete;
  RemoteLink& operator=(const RemoteLink&) = delete;

  const Session& session() const { return session_; }
  // For people: the transport, and the device if there is one.
  virtual std::string describe() const = 0;

  virtual Result<calls::Answer> call(const calls::Request& request) { return ask(request); }
  // On a connection of its own, so that it holds up nothing. A brick that does not answer is waited for no longer than
  // it was given, and a moment: ETIMEDOUT.
  Result<calls::Answer> wait_for_notices(const calls::Wait& request);
  virtual void submit(Batch& batch) = 0;
  virtual void wait(const Batch& batch) = 0;
  // Of the brick's process, whatever its memory does; or of the bytes under way.
  std::chrono::milliseconds silence(Asking asking);
  // What was written is visible to the brick.
  virtual Status flush() { return {}; }
  std::chrono::steady_clock::time_point known_at() const;

  // Ends the session for good, without a word to whoever is told of its loss.
  Status close();
  // Marks the session lost; the first reason counts.
  void lose(Error error);
  // Everything posted is complete and no thread of the link runs on return. Not from a thread of the link.
  virtual void stop() = 0;

 protected:
  // A brick that does not answer a renewal for so long is given up while the lease still lasts.
  std::chrono::milliseconds renew_timeout() const {
    return std::max(session_.lease - limits::kKeepAlive, session_.lease / 2);
  }
  // What attaching to a session that has just begun ends with if it was taken over meanwhile: the lease was granted all
  // the same, and the session is lost like any other.
  static bool says_cut_off(const Status& attached);

  // `on_lost`: as in Brick::set_on_lost().
  RemoteLink(Session session, std::function<void(Error)> on_lost);

  // The answer to a call, by whatever connection it goes. An answer that makes no sense loses the session.
  Result<calls::Answer> ask(const calls::Request& request);
  uint64_t next_id() { return ++last_id_; }  // of a call: unique in the session
  std::optional<Error> lost() const;
  bool is_over() const;  // lost, or being stopped

  // Of the keeper.
  void start_keeper() {
    keeper_ = std::thread([this] { keep_alive(); });
  }
  // The session is lost, without a word, if it was not before; then the keeper is waited for.
  void begin_stop();
  void join_keeper() {
    if (keeper_.joinable()) keeper_.join();
  }
  void wake_keeper();
  pollfd wake_watch() const { return {wake_.get(), POLLIN, 0}; }
  void take_wake();

 private:
  // Sends it and waits for the answer. An error: no connection is left for it.
  virtual Result<Reply> carry(const calls::Request& request, std::chrono::milliseconds timeout) = 0;
  // The connection for calls that answers soonest; null: none.
  virtual std::shared_ptr<CallChannel> calls() const = 0;
  // One more connection for calls.
  virtual Result<std::unique_ptr<Channel>> attach_calls(Deadline latest) = 0;
  // How long no byte of transfers under way has moved, on the connection where that is longest; 0: they move, or there
  // are none, or whoever carries them ends those that cannot.
  virtual std::chrono::milliseconds stall() { return {}; }
  // The session is lost: every connection is shut down, but those of waits. Once.
  virtual void cut() = 0;
  // The keeper: until something happens or it is time; sees to lost connections. Once more when the session is lost:
  // then everything that is under way ends.
  virtual void watch(Deadline until) = 0;
  // Asks the brick for a sign of life on each connection that needs one.
  virtual void renew() = 0;
  Result<calls::Answer> answer_in(const calls::Request& request, const Reply& reply);
  void keep_alive();

  // Of a wait, one after the other (remote_wait.cc).
  struct WaitPlace {
    std::shared_ptr<CallChannel> channel;  // null: not connected
    bool taken = false;
  };
  Result<WaitPlace*> take_wait_place();
  void give_wait_place(WaitPlace& place);
  Result<std::shared_ptr<CallChannel>> connect_wait(WaitPlace& place, Deadline until);
  Result<Reply> carry_wait(WaitPlace& place, calls::Wait request);
  Result<Reply> try_wait(WaitPlace& place, calls::Wait& request, Deadline until);
  void drop_wait_channel(WaitPlace& place);
  void cut_waits();

  const Session session_;
  const std::function<void(Error)> on_lost_;
  const UniqueFd wake_;           // eventfd: the keeper looks after everything
  std::atomic<bool> ask_{false};  // the keeper is to ask the brick for a sign of life
  std::atomic<uint64_t> last_id_{0};

  mutable Mutex mutex_;
  std::optional<Error> lost_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;  // its loss is told to nobody
  std::array<WaitPlace, limits::kWaitsPerSession> waits_ ABSL_GUARDED_BY(mutex_);

  std::thread keeper_;
};

}  // namespace brickfs
