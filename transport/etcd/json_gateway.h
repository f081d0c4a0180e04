// SPDX-License-Identifier: Apache-2.0
// One call of etcd's JSON gateway: a POST over HTTP or HTTPS to one endpoint, on a connection of its own.
// https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/
//
// Threads: any.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "transport/base/result.h"
#include "transport/brick/source.h"
#include "transport/etcd/etcd_options.h"

namespace brickfs {

constexpr std::chrono::milliseconds kEtcdConnectTimeout{1'000};
constexpr std::chrono::milliseconds kEtcdRequestTimeout{3'000};

struct GatewayCall {
  std::string path;   // "/v3/kv/range"
  std::string body;   // JSON
  std::string token;  // of the user; empty: none
  std::chrono::milliseconds timeout = kEtcdRequestTimeout;
  bool is_secret = false;  // the body, of which no copy is left behind
};

// An answer, or why there is none.
struct GatewayAnswer {
  // EHOSTUNREACH: no connection. ETIMEDOUT: no answer, or one that leaves open what was done, or says that etcd has no
  // room or too much to do. EACCES: refused, by either side. EPROTO: what answers there is no etcd, or does not take
  // this call.
  Status status;
  nlohmann::json body;         // an object
  std::string why;             // one line that names the endpoint
  bool may_be_done = false;    // all the same
  bool is_refusal = false;     // etcd itself says no, and another endpoint would, too
  bool token_is_void = false;  // of these: the call may be made again with a new token
};

GatewayAnswer call_gateway(const HostPort& endpoint, const EtcdOptions& options, const GatewayCall& call);

// EINVAL, with one line in `why`: a file that is not there, or has not what it should.
Status check_etcd_files(const EtcdOptions& options, std::string* why);

}  // namespace brickfs
