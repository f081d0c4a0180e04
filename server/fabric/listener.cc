// SPDX-License-Identifier: Apache-2.0
#include "server/fabric/listener.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "transport/base/log.h"
#include "transport/base/random.h"

namespace brickfs {
namespace {

struct ListenedAt {
  std::string host;  // in numbers
  bool any = false;  // all addresses of this host
};

Result<ListenedAt> resolve_listened(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return Error(EHOSTUNREACH, "no such host");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(list->ai_addr, list->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return Error(EHOSTUNREACH, "no such host");
  const std::string numbers = text.data();
  return ListenedAt{numbers, numbers == "0.0.0.0" || numbers == "::"};
}

}  // namespace

// Whether what clients will ask for can be had there at all, tried on an endpoint that nobody hears of.
Result<FabricListener::Served> FabricListener::try_out(const ListenUrl& url, std::string* why) {
  const auto at = resolve_listened(url.host);
  if (!at.ok()) {
    *why = fmt::format("cannot listen on {}: no such host", format_listen_url(url));
    return at.error();
  }
  const std::string host = !at->any ? at->host : at->host == "::" ? "::1" : "127.0.0.1";
  std::string reason;
  const auto tried = FabricServedEndpoint::open(url.provider, host, &reason);
  if (!tried.ok()) {
    *why = fmt::format("cannot listen on {}: {}", format_listen_url(url),
                       reason.empty() ? describe(tried.error()) : reason);
    return Error(EPROTONOSUPPORT, "no provider of libfabric that can be used there");
  }
  const fabric::Provider& provider = (*tried)->provider();
  log::info("{}: provider {}; writes are {}; keys are {}", format_listen_url(url), provider.device(),
            provider.delivers() ? "complete when they are in memory" : "flushed by a read",
            provider.chooses_keys() ? "the provider's" : "random");
  return Served{at->any ? "" : at->host, provider.name()};
}

Result<std::unique_ptr<FabricListener>> FabricListener::open(BrickService& service, const std::vector<ListenUrl>& urls,
                                                             Secret secret, std::string* why, TlsMode tls) {
  std::vector<Served> served;
  std::vector<std::unique_ptr<TcpAcceptor>> acceptors;
  for (const ListenUrl& url : urls) {
    served.push_back(TRY(try_out(url, why)));
    auto acceptor = TcpAcceptor::open(url.host, url.port);
    if (!acceptor.ok()) {
      *why = fmt::format("cannot listen on {}: {}", format_listen_url(url), std::strerror(acceptor.code()));
      return acceptor.error();
    }
    served.back().port = (*acceptor)->port();
    acceptors.push_back(std::move(*acceptor));
  }
  service.announce_device();
  std::unique_ptr<FabricListener> listener(
      new FabricListener(service, std::move(secret), std::move(acceptors), tls, std::move(served)));
  listener->accept();
  return listener;
}

std::shared_ptr<RemoteAccess> FabricListener::make_access() {
  // The first key is anything, so that a handle of a former session is none of this one.
  return std::make_shared<FabricAccess>([this](const calls::Endpoint& asked) { return open_endpoint(asked); },
                                        random_id<uint32_t>());
}

Result<std::unique_ptr<FabricServedEndpoint>> FabricListener::open_endpoint(const calls::Endpoint& asked) const {
  const auto serves = [&](const Served& at) {
    const bool here = at.host.empty() || at.host == asked.host;
    return here && (asked.provider.empty() || asked.provider == at.provider);
  };
  // Between host and client may be what changes ports.
  auto found = std::ranges::find_if(served_, [&](const Served& at) { return at.port == asked.port && serves(at); });
  if (found == served_.end()) found = std::ranges::find_if(served_, serves);
  if (found == served_.end()) return Error(EPROTONOSUPPORT, "this brick does not serve by that provider");
  return FabricServedEndpoint::open(found->provider, asked.host, nullptr);
}

}  // namespace brickfs
