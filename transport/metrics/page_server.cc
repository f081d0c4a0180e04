// SPDX-License-Identifier: Apache-2.0
#include "transport/metrics/page_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

#include "transport/base/thread.h"

namespace brickfs {
namespace {

constexpr size_t kThreads = 4;
constexpr std::chrono::seconds kPeerMayTake{5};
constexpr std::chrono::milliseconds kLook{1};
constexpr size_t kRequestBytes = 4096;
// A page has all that it needs in it, and is in nobody else's frame.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

}  // namespace

Result<PageAddress> parse_page_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos) return Error(EINVAL, "ADDR:PORT is wanted");
  PageAddress address{text.substr(0, colon), 0};
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data() + colon + 1, end, address.port);
  if (status != std::errc() || stop != end) return Error(EINVAL, "the port is a number up to 65535");
  const bool in_brackets = address.host.starts_with('[') && address.host.ends_with(']');
  if (in_brackets) address.host = address.host.substr(1, address.host.size() - 2);
  if (address.host.empty() || (!in_brackets && address.host.find(':') != text.npos))
    return Error(EINVAL, "ADDR:PORT is wanted, and [ADDR]:PORT for IPv6");
  return address;
}

class PageServer::Impl {
 public:
  explicit Impl(std::vector<Page> pages) : pages_(std::move(pages)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_read_timeout(kPeerMayTake);
    server_.set_write_timeout(kPeerMayTake);
    server_.set_payload_max_length(kRequestBytes);
    // Not the library's SO_REUSEPORT, with which two servers may have one port.
    server_.set_socket_options([](int fd) {
      const int on = 1;
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    server_.set_default_headers(
        {{"Content-Security-Policy", kPolicy}, {"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"}});
    for (const Page& page : pages_) {
      server_.Get(page.path, [&page](const httplib::Request&, httplib::Response& response) {
        response.set_content(page.content(), page.type);
      });
    }
  }
  ~Impl() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status start(const PageAddress& address) {
    errno = 0;
    const int port = address.port == 0                                  ? server_.bind_to_any_port(address.host)
                     : server_.bind_to_port(address.host, address.port) ? address.port
                                                                        : -1;
    if (port < 0) return Error(errno != 0 ? errno : EADDRNOTAVAIL, "listening for HTTP");
    port_ = static_cast<uint16_t>(port);
    thread_ = Thread([this] {
      server_.listen_after_bind();
      ended_ = true;
    });
    while (!server_.is_running() && !ended_) std::this_thread::sleep_for(kLook);  // stop() stops what runs only
    return {};
  }
  uint16_t port() const { return port_; }

 private:
  const std::vector<Page> pages_;  // stay where they are
  httplib::Server server_;
  uint16_t port_ = 0;
  std::atomic<bool> ended_{false};
  Thread thread_;
};

PageServer::PageServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PageServer::~PageServer() = default;
uint16_t PageServer::port() const { return impl_->port(); }

Result<std::unique_ptr<PageServer>> PageServer::start(const PageAddress& address, std::vector<Page> pages) {
  auto impl = std::make_unique<Impl>(std::move(pages));
  TRY(impl->start(address));
  return std::unique_ptr<PageServer>(new PageServer(std::move(impl)));
}

}  // namespace brickfs
