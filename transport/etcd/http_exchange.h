// SPDX-License-Identifier: Apache-2.0
// One POST over HTTP or HTTPS and its answer, on a connection of its own. The peer may be hostile: one deadline and one
// bound in bytes hold for the whole exchange, whatever it sends: names, heads, interim answers, chunks, trailers.
//
// Threads: any.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "transport/base/bytes.h"
#include "transport/brick/source.h"
#include "transport/etcd/etcd_options.h"

namespace brickfs {

constexpr size_t kExchangeBytes = 4 * kMiB;  // that a peer may send

struct HttpPost {
  std::string path;        // "/v3/kv/range"
  std::string_view body;   // JSON
  bool is_secret = false;  // its body: no copy of that is left behind
  std::string authorization;
  std::chrono::milliseconds connect_timeout{};  // also for TLS
  std::chrono::milliseconds timeout{};          // from the beginning to the end of the answer
};

enum class HttpFailure {
  kNone,
  // Nothing was sent.
  kNotReached,    // nobody listens, or there is no such host
  kNotConnected,  // in time
  kNoTls,         // or the peer refuses this client's certificate
  kNoTrusted,     // the CA's file has no certificate
  kNotTrusted,    // the peer's certificate
  kOwnNotUsable,  // certificate or key
  kNoMemory,
  // The peer may have done what was asked.
  kNoAnswer,  // in time
  kTooLong,   // kExchangeBytes have come, or a line of the head that has no end
  kClosed,    // without an answer, or with none of HTTP
};

struct HttpAnswer {
  HttpFailure failure = HttpFailure::kNone;
  int status = 0;  // 200
  std::string body;
};

HttpAnswer post(const HostPort& endpoint, const EtcdOptions& options, const HttpPost& request);

}  // namespace brickfs
