// SPDX-License-Identifier: Apache-2.0
// Serves some pages over HTTP, to whoever reaches the port. They are read, and nothing else. What a peer can have of
// this process has a bound: http_connections.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/base/result.h"

namespace brickfs {

// "ADDR:PORT", "[ADDR]:PORT"; port 0: any that is free.
struct PageAddress {
  std::string host;
  uint16_t port = 0;
};
Result<PageAddress> parse_page_address(const std::string& text);  // EINVAL

struct Page {
  std::string path;  // "/metrics"
  std::string type;  // "text/plain"
  // Called by the server's thread: nobody else is answered, and the server does not end, before it returns.
  std::function<std::string()> content;
};

class PageServer {
 public:
  // A thread begins: only once this process has become what it is to be. EADDRINUSE, EADDRNOTAVAIL and others.
  static Result<std::unique_ptr<PageServer>> start(const PageAddress& address, const std::vector<Page>& pages);
  ~PageServer();  // no page's content is asked for any more
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  uint16_t port() const;

 private:
  class Impl;
  explicit PageServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace brickfs
