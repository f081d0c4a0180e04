// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_listeners.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#ifdef BRICKFS_FABRIC
#include "server/fabric/listener.h"
#endif
#include "server/tcp/listener.h"
#include "server/verbs/listener.h"

namespace brickfs {
namespace {

void use_in(Listener& listener, const BrickSecrets& secrets) {
  listener.use_secrets(secrets.clients);
  listener.use_admin_secrets(secrets.administrators);
}

Result<std::unique_ptr<Listener>> listen_tcp(BrickService& service, ListenUrl& url, const BrickSecrets& secrets,
                                             TlsMode tls, std::string* why) {
  auto listener = TcpListener::open(service, url, secrets.clients.front(), tls);
  if (!listener.ok()) {
    *why = fmt::format("cannot listen on {}: {}", format_listen_url(url), std::strerror(listener.code()));
    return listener.error();
  }
  use_in(**listener, secrets);
  url.port = (*listener)->port();
  return std::unique_ptr<Listener>(std::move(*listener));
}

// One listener for all its URLs: what a client has of a session may come by several addresses.
template <typename OfTransport, typename... Further>
Result<std::unique_ptr<Listener>> listen_at_all(BrickService& service, const std::vector<ListenUrl*>& urls,
                                                const BrickSecrets& secrets, std::string* why, Further... further) {
  std::vector<ListenUrl> asked;
  for (const ListenUrl* const url : urls) asked.push_back(*url);
  auto listener = TRY(OfTransport::open(service, asked, secrets.clients.front(), why, further...));
  use_in(*listener, secrets);
  for (size_t number = 0; number < urls.size(); ++number) urls[number]->port = listener->port(number);
  return std::unique_ptr<Listener>(std::move(listener));
}

Result<std::unique_ptr<Listener>> listen_fabric(BrickService& service, const std::vector<ListenUrl*>& urls,
                                                const BrickSecrets& secrets, [[maybe_unused]] TlsMode tls,
                                                std::string* why) {
#ifdef BRICKFS_FABRIC
  return listen_at_all<FabricListener>(service, urls, secrets, why, tls);
#else
  *why = "built without libfabric: listen on tcp:// or rdma://";
  return Error(ENODEV, "no libfabric here");
#endif
}

}  // namespace

Result<BrickListeners> BrickListeners::open(BrickService& service, std::vector<ListenUrl> urls,
                                            const BrickSecrets& secrets, TlsMode tls, std::string* why) {
  BrickListeners made;
  made.urls_ = std::move(urls);
  std::vector<ListenUrl*> rdma;
  std::vector<ListenUrl*> fabric;
  for (ListenUrl& url : made.urls_) {
    if (url.kind == SourceKind::kRdma) {
      rdma.push_back(&url);
    } else if (url.kind == SourceKind::kFabric) {
      fabric.push_back(&url);
    } else {
      made.listeners_.push_back(TRY(listen_tcp(service, url, secrets, tls, why)));
    }
  }
  if (!rdma.empty()) made.listeners_.push_back(TRY(listen_at_all<VerbsListener>(service, rdma, secrets, why)));
  if (!fabric.empty()) made.listeners_.push_back(TRY(listen_fabric(service, fabric, secrets, tls, why)));
  return made;
}

void BrickListeners::use(const BrickSecrets& secrets) {
  for (const auto& listener : listeners_) use_in(*listener, secrets);
}

std::vector<const Listener*> BrickListeners::all() const {
  std::vector<const Listener*> all;
  for (const auto& listener : listeners_) all.push_back(listener.get());
  return all;
}

}  // namespace brickfs
