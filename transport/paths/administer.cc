// SPDX-License-Identifier: Apache-2.0
#include "transport/paths/administer.h"

#include <chrono>

#include "transport/brick/brick.h"
#include "transport/remote/handshake.h"
#include "transport/tcp/greet.h"
#include "transport/verbs/device.h"
#include "transport/verbs/greet.h"

namespace brickfs {
namespace {

// On a connection that has been greeted. What is long is the work, not the way.
template <typename Kind>
Result<AdminAnswer> ask(Result<Greeted<Kind>> greeted, const Secret& secret, const AdminRequest& request) {
  if (!greeted.ok()) return greeted.error();
  return administer(*greeted->channel, greeted->nonces, secret, request,
                    std::chrono::steady_clock::now() + limits::kAdministrationTimeout);
}

Result<AdminAnswer> ask_at(const HostPort& address, SourceKind kind, TlsMode tls, const Secret& secret,
                           const AdminRequest& request) {
  const Deadline connected_by = std::chrono::steady_clock::now() + limits::kConnectTimeout + limits::kHandshakeTimeout;
  if (kind != SourceKind::kRdma) return ask(tcp::greet(address, connected_by, tls, secret), secret, request);
  return ask(verbs::greet(address, connected_by), secret, request);
}

// Nobody there heard the call, so another address may be tried: it is not done twice.
bool was_not_heard(Error error) {
  return error.is(ECONNREFUSED) || error.is(EHOSTUNREACH) || error.is(ENETUNREACH) || error.is(ENODEV);
}

}  // namespace

Result<AdminAnswer> administer_remote(const Source& source, const ClientSecret& secret, const AdminRequest& request) {
  if (source.kind == SourceKind::kRdma && !verbs::why_no_device().empty()) return Error(ENODEV, "no RDMA device here");
  Result<AdminAnswer> answer = Error(EHOSTUNREACH, "no address");
  for (const HostPort& address : source.addresses) {
    answer = ask_at(address, source.kind, secret.tls(), secret.get(), request);
    if (answer.ok() || !was_not_heard(answer.error())) break;
  }
  return answer;
}

}  // namespace brickfs
