// SPDX-License-Identifier: Apache-2.0
// The connections of a server of pages. Whoever reaches the port may make one, and may be hostile: each is for one
// request, of which only the line is used; its bytes and its time have a bound, and so has the number of connections.
// A request's body is not read: pages are got, and nothing else.
//
// Threads: one of its own serves them all, so none waits for another's peer.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "transport/base/result.h"
#include "transport/base/thread.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class HttpConnection;

class HttpConnections {
 public:
  static constexpr size_t kMost = 64;  // at once; the oldest makes room for a new one
  static constexpr size_t kMostHeadBytes = 8192;
  static constexpr size_t kMostRestBytes = 65536;      // behind the head: taken, and not looked at
  static constexpr std::chrono::seconds kMostTime{5};  // from being accepted until everything is sent

  // The whole answer to "GET /path HTTP/1.1", which may be any bytes but CR LF. Called by the thread.
  using Answer = std::function<std::string(const std::string& request_line)>;

  // Of a socket that listens. Errors of eventfd() and listen().
  static Result<std::unique_ptr<HttpConnections>> start(UniqueFd listener, Answer answer);
  ~HttpConnections();  // closes them; waits for an answer that is being made, and for no peer
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;

 private:
  HttpConnections(UniqueFd listener, UniqueFd wake, Answer answer);
  void run();
  bool accept();

  const UniqueFd listener_;
  const UniqueFd wake_;
  const Answer answer_;
  std::atomic<bool> stopping_ = false;
  std::list<HttpConnection> all_;  // the thread's; oldest first
  Thread thread_;
};

}  // namespace brickfs
