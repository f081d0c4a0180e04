// SPDX-License-Identifier: Apache-2.0
#include "transport/etcd/json_gateway.h"

#include <fmt/core.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "transport/base/printable.h"
#include "transport/etcd/bounded_json.h"
#include "transport/etcd/http_exchange.h"

namespace brickfs {
namespace {

constexpr size_t kQuotedBytes = 200;  // of what a peer says, in a line

// gRPC's codes: https://grpc.github.io/grpc/core/md_doc_statuscodes.html
constexpr int kInvalidArgument = 3;
constexpr int kPermissionDenied = 7;
constexpr int kResourceExhausted = 8;
constexpr int kFailedPrecondition = 9;
constexpr int kUnauthenticated = 16;

std::string name_of(const HostPort& endpoint) { return "etcd at " + format_address(endpoint); }

GatewayAnswer failed(const HostPort& endpoint, int code, const std::string& text) {
  GatewayAnswer answer;
  answer.status = Error(code, "a call of etcd");
  answer.why = printable(name_of(endpoint) + ": " + text);
  return answer;
}

GatewayAnswer lost(const HostPort& endpoint, const std::string& text, int code = ETIMEDOUT) {
  GatewayAnswer answer = failed(endpoint, code, text);
  answer.may_be_done = true;
  return answer;
}

GatewayAnswer refused(const HostPort& endpoint, int code, const std::string& text) {
  GatewayAnswer answer = failed(endpoint, code, text);
  answer.is_refusal = true;
  return answer;
}

// No HTTP answer.
GatewayAnswer explain_failure(const HostPort& endpoint, const EtcdOptions& options, HttpFailure failure) {
  switch (failure) {
    case HttpFailure::kNotReached:
      return failed(endpoint, EHOSTUNREACH, "cannot be reached: nobody listens there, or there is no such host");
    case HttpFailure::kNotConnected:
      return failed(endpoint, EHOSTUNREACH, "no answer to a connection");
    case HttpFailure::kNoTls:  // also while etcd stops: it may pass
      return failed(endpoint, EHOSTUNREACH, "no TLS there, or not with this client's certificate");
    case HttpFailure::kNoTrusted:
      return failed(endpoint, EACCES, fmt::format("{} has no certificates to trust", options.ca_path));
    case HttpFailure::kNotTrusted:
      return failed(endpoint, EACCES,
                    fmt::format("its certificate is for another host, or nobody in {} has signed it", options.ca_path));
    case HttpFailure::kOwnNotUsable:
      return failed(endpoint, EACCES, "the client's certificate or key cannot be used");
    case HttpFailure::kNoMemory:
      return failed(endpoint, EHOSTUNREACH, "there is no memory to ask with");
    case HttpFailure::kNoAnswer:
      return lost(endpoint, "no answer in time");
    case HttpFailure::kTooLong:
      return lost(endpoint, "what answers there sends more than etcd would");
    case HttpFailure::kClosed:
    case HttpFailure::kNone:
      break;
  }
  return lost(endpoint, options.tls()
                            ? "the connection was closed without an answer; is a client's certificate missing?"
                            : "the connection was closed without an answer");
}

std::string quote(std::string_view text) {
  std::string line(cut_text(text, kQuotedBytes));
  std::ranges::replace(line, '\n', ' ');
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

// What etcd says in place of a result.
GatewayAnswer explain_error(const HostPort& endpoint, int code, const std::string& message) {
  const auto says = [&message](const char* words) { return message.find(words) != message.npos; };
  switch (code) {
    case kUnauthenticated: {
      GatewayAnswer answer = refused(endpoint, EACCES, quote(message));
      answer.token_is_void = true;
      return answer;
    }
    case kPermissionDenied:
      return refused(endpoint, EACCES, "the user may not read and write /brickfs/ there (permission denied)");
    case kResourceExhausted:  // nothing is done, and may be later
      if (!says("space exceeded")) return failed(endpoint, ETIMEDOUT, quote(message));
      return refused(endpoint, ETIMEDOUT,
                     "its database is full: compact and defragment it, then `etcdctl alarm disarm`");
    case kFailedPrecondition:
      return refused(endpoint, EACCES, says("not enabled") ? "it knows no users: name none" : quote(message));
    case kInvalidArgument: {
      if (says("user name is empty")) return refused(endpoint, EACCES, "it asks for a user and a password");
      if (says("authentication failed")) return refused(endpoint, EACCES, "wrong user or password");
      GatewayAnswer answer = refused(endpoint, EPROTO, quote(message));
      answer.token_is_void = says("revision of auth store");
      return answer;
    }
    default:  // no leader, no answer from the others in time ...: the call may have begun
      return lost(endpoint, quote(message));
  }
}

GatewayAnswer explain_answer(const HostPort& endpoint, int status, const std::string& text) {
  GatewayAnswer answer;
  if (is_bounded_json(text)) answer.body = nlohmann::json::parse(text, nullptr, false);
  const nlohmann::json& body = answer.body;
  if (status == 200) {
    if (body.is_object() && body.contains("header") && body["header"].is_object()) return answer;
    return lost(endpoint, "what answers there is not etcd", EPROTO);
  }
  if (body.is_object() && body.contains("code") && body["code"].is_number_integer()) {
    const char* const key = body.contains("message") ? "message" : "error";
    if (body.contains(key) && body[key].is_string())
      return explain_error(endpoint, body["code"].get<int>(), body[key].get<std::string>());
  }
  if (text.find("HTTPS server") != text.npos)
    return failed(endpoint, EPROTO, "it asks for TLS: name the file of its CA");
  if (status >= 502 && status <= 504) return lost(endpoint, fmt::format("HTTP status {}", status));  // a proxy's
  answer = failed(endpoint, EPROTO,
                  fmt::format("what answers there is not etcd, or has no JSON gateway (HTTP status {})", status));
  answer.may_be_done = status >= 500;
  return answer;
}

}  // namespace

GatewayAnswer call_gateway(const HostPort& endpoint, const EtcdOptions& options, const GatewayCall& call) {
  const HttpPost request{.path = call.path,
                         .body = call.body,
                         .is_secret = call.is_secret,
                         .authorization = call.token,
                         .connect_timeout = std::min(call.timeout, kEtcdConnectTimeout),
                         .timeout = call.timeout};
  const HttpAnswer answer = post(endpoint, options, request);
  if (answer.failure != HttpFailure::kNone) return explain_failure(endpoint, options, answer.failure);
  return explain_answer(endpoint, answer.status, answer.body);
}

Status check_etcd_files(const EtcdOptions& options, std::string* why) {
  const auto refuse = [why](std::string text) -> Status {
    *why = std::move(text);
    return Error(EINVAL, "options of etcd");
  };
  if (options.cert_path.empty() != options.key_path.empty())
    return refuse("a client's certificate and its key go together");
  if (!options.cert_path.empty() && !options.tls())
    return refuse("a client's certificate is for TLS: name the file of etcd's CA, too");
  if (options.user.empty() != options.password_path.empty()) return refuse("a user and a password file go together");
  for (const std::string* path : {&options.ca_path, &options.cert_path, &options.key_path}) {
    if (!path->empty() && ::access(path->c_str(), R_OK) != 0)
      return refuse(fmt::format("cannot read {}: {}", *path, std::strerror(errno)));
  }
  if (!options.tls()) return {};
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (context == nullptr) return refuse("there is no memory for TLS");
  if (!options.cert_path.empty() &&
      (SSL_CTX_use_certificate_chain_file(context.get(), options.cert_path.c_str()) != 1 ||
       SSL_CTX_use_PrivateKey_file(context.get(), options.key_path.c_str(), SSL_FILETYPE_PEM) != 1))
    return refuse(fmt::format("{} and {} are no certificate and its key", options.cert_path, options.key_path));
  if (SSL_CTX_load_verify_locations(context.get(), options.ca_path.c_str(), nullptr) != 1)
    return refuse(fmt::format("{} has no certificates", options.ca_path));
  return {};
}

}  // namespace brickfs
