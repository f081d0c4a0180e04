// SPDX-License-Identifier: Apache-2.0
#include "transport/metrics/page_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "transport/base/unique_fd.h"
#include "transport/metrics/http_connections.h"

namespace brickfs {
namespace {

// A page has all that it needs in it, and is in nobody else's frame.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

// A request that is there, and room for its answer.
class MemoryStream final : public httplib::Stream {
 public:
  explicit MemoryStream(std::string_view request) : request_(request) {}
  std::string take_answer() { return std::move(answer_); }

  using httplib::Stream::write;
  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* bytes, size_t size) override {
    const size_t taken = request_.copy(bytes, size);
    request_.remove_prefix(taken);
    return static_cast<ssize_t>(taken);
  }
  ssize_t write(const char* bytes, size_t size) override {
    answer_.append(bytes, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

 private:
  std::string_view request_;
  std::string answer_;
};

}  // namespace

// The library finds the page, and words the answer. Connections are not its: it would read a line of any length, and
// wait for each byte anew.
class HttpPages final : public httplib::Server {
 public:
  explicit HttpPages(const std::vector<Page>& pages);

  Result<UniqueFd> listen_at(const PageAddress& address, uint16_t* port);
  std::string answer(const std::string& request_line);
};

HttpPages::HttpPages(const std::vector<Page>& pages) {
  // Not the library's SO_REUSEPORT, with which two servers may have one port.
  set_socket_options([](int fd) {
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  set_default_headers(
      {{"Content-Security-Policy", kPolicy}, {"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"}});
  for (const Page& page : pages) {
    Get(page.path, [page](const httplib::Request&, httplib::Response& response) {
      response.set_content(page.content(), page.type);
    });
  }
}

Result<UniqueFd> HttpPages::listen_at(const PageAddress& address, uint16_t* port) {
  errno = 0;
  const int bound = address.port == 0                          ? bind_to_any_port(address.host)
                    : bind_to_port(address.host, address.port) ? address.port
                                                               : -1;
  const int code = errno;
  UniqueFd listener(svr_sock_.exchange(INVALID_SOCKET));
  if (bound < 0) return Error(code != 0 ? code : EADDRNOTAVAIL, "listening for HTTP");
  *port = static_cast<uint16_t>(bound);
  return listener;
}

// No headers: by them the library could be had to compress the page, or to send it again and again by ranges.
std::string HttpPages::answer(const std::string& request_line) {
  const std::string request = request_line + "\r\n\r\n";
  MemoryStream stream(request);
  bool closes = true;
  static_cast<void>(process_request(stream, closes, closes, nullptr));
  return stream.take_answer();
}

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
  explicit Impl(const std::vector<Page>& pages) : pages_(pages) {}

  Status start(const PageAddress& address) {
    auto listener = TRY(pages_.listen_at(address, &port_));
    connections_ = TRY(HttpConnections::start(
        std::move(listener), [this](const std::string& request_line) { return pages_.answer(request_line); }));
    return {};
  }
  uint16_t port() const { return port_; }

 private:
  HttpPages pages_;
  uint16_t port_ = 0;
  std::unique_ptr<HttpConnections> connections_;  // ask for pages until they end
};

PageServer::PageServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PageServer::~PageServer() = default;
uint16_t PageServer::port() const { return impl_->port(); }

Result<std::unique_ptr<PageServer>> PageServer::start(const PageAddress& address, const std::vector<Page>& pages) {
  auto impl = std::make_unique<Impl>(pages);
  TRY(impl->start(address));
  return std::unique_ptr<PageServer>(new PageServer(std::move(impl)));
}

}  // namespace brickfs
