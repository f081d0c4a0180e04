// SPDX-License-Identifier: Apache-2.0
#include "transport/etcd/etcd_client.h"

#include <openssl/evp.h>
#include <string.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace brickfs {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

std::optional<std::string> from_base64(const std::string& text) {
  if (text.empty()) return text;
  std::string bytes(text.size(), '\0');
  const int length =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (length < 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  if (static_cast<size_t>(length) < padding) return std::nullopt;
  bytes.resize(static_cast<size_t>(length) - padding);
  return bytes;
}

// 64-bit numbers are strings in protobuf's JSON, and left out if they are 0.
std::optional<uint64_t> number_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return 0;
  if (found->is_number_unsigned()) return found->get<uint64_t>();
  if (!found->is_string()) return std::nullopt;
  const auto& text = found->get_ref<const std::string&>();
  uint64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<EtcdValue> value_of(const Json& pair) {
  if (!pair.is_object()) return std::nullopt;
  const auto text = pair.find("value");  // left out if it is empty
  if (text != pair.end() && !text->is_string()) return std::nullopt;
  auto value = from_base64(text == pair.end() ? std::string() : text->get<std::string>());
  const auto revision = number_of(pair, "mod_revision");
  if (!value || !revision || *revision == 0) return std::nullopt;
  return EtcdValue{std::move(*value), *revision};
}

Error not_understood(std::string* why, int code) {
  *why = "etcd's answer is not understood";
  return Error(code, "a call of etcd");
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Of a text with a secret: its bytes are overwritten as it goes.
class Overwritten {
 public:
  explicit Overwritten(std::string& text) : text_(text) {}
  ~Overwritten() { explicit_bzero(text_.data(), text_.size()); }
  Overwritten(const Overwritten&) = delete;
  Overwritten& operator=(const Overwritten&) = delete;

 private:
  std::string& text_;
};

constexpr size_t kEscapedBytes = 6;  // of one byte, at most: RFC 8259, section 7

void append_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20) {
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 0xf];
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
}

milliseconds time_left(steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  return std::clamp(left, milliseconds{1}, kEtcdRequestTimeout);
}

}  // namespace

Result<std::unique_ptr<EtcdClient>> EtcdClient::open(std::vector<HostPort> endpoints, EtcdOptions options,
                                                     std::string* why) {
  TRY(check_etcd_files(options, why));
  ClientSecret password = TRY(ClientSecret::of_file(options.password_path, why));
  return std::unique_ptr<EtcdClient>(new EtcdClient(std::move(endpoints), std::move(options), std::move(password)));
}

void EtcdClient::ask_first(size_t endpoint) {
  MutexLock lock(mutex_);
  first_ = endpoint % endpoints_.size();
}

GatewayAnswer EtcdClient::authenticate_with(const Secret& password, const HostPort& endpoint,
                                            steady_clock::time_point deadline) {
  GatewayCall call{
      .path = "/v3/auth/authenticate", .body = "", .token = "", .timeout = time_left(deadline), .is_secret = true};
  const Overwritten passing(call.body);
  // In one piece of memory: what a text leaves behind as it grows cannot be overwritten.
  const std::string_view secret = password.bytes.view();
  const std::string head = "{\"name\":" + dump(options_.user) + ",\"password\":\"";
  call.body.reserve(head.size() + kEscapedBytes * secret.size() + 2);
  call.body += head;
  append_escaped(call.body, secret);
  call.body += "\"}";
  return call_gateway(endpoint, options_, call);
}

// A password may have been changed since its file was read, as a brick's secret may.
GatewayAnswer EtcdClient::authenticate(const HostPort& endpoint, steady_clock::time_point deadline,
                                       std::string& token) {
  const Secret known = password_.get();
  GatewayAnswer answer = authenticate_with(known, endpoint, deadline);
  if (answer.status.code() == EACCES && password_.read_again(known))
    answer = authenticate_with(password_.get(), endpoint, deadline);
  answer.may_be_done = false;  // there is one more token then, which does not matter
  if (!answer.status.ok()) return answer;
  const auto found = answer.body.find("token");
  if (found == answer.body.end() || !found->is_string()) {
    answer.status = not_understood(&answer.why, EPROTO);
    return answer;
  }
  token = found->get<std::string>();
  MutexLock lock(mutex_);
  token_ = token;
  return answer;
}

// With a token, if there is a user: the one that there is, or a new one if that is no longer good.
GatewayAnswer EtcdClient::call_at(const HostPort& endpoint, GatewayCall& call, steady_clock::time_point token_deadline,
                                  steady_clock::time_point deadline) {
  if (!options_.user.empty()) {
    MutexLock lock(mutex_);
    call.token = token_;
  }
  for (bool is_new = false;; is_new = true) {
    if (!options_.user.empty() && call.token.empty()) {
      is_new = true;
      GatewayAnswer answer = authenticate(endpoint, token_deadline, call.token);
      if (!answer.status.ok()) return answer;
    }
    call.timeout = time_left(deadline);
    GatewayAnswer answer = call_gateway(endpoint, options_, call);
    if (!answer.token_is_void || options_.user.empty() || is_new) return answer;
    call.token.clear();
  }
}

Result<Json> EtcdClient::call(std::string_view path, const Json& request, bool repeatable, std::string* why) {
  const auto deadline = steady_clock::now() + kEtcdCallTimeout;
  GatewayCall call{std::string(path), dump(request), ""};
  size_t first = 0;
  {
    MutexLock lock(mutex_);
    first = first_;
  }
  why->clear();
  std::optional<Error> error;  // that nobody is there, or answers, may pass: it says more than what else is wrong
  for (size_t i = 0; i < endpoints_.size() && steady_clock::now() < deadline; ++i) {
    const size_t endpoint = (first + i) % endpoints_.size();
    // What is asked elsewhere, too, leaves the others their share of the time.
    const auto now = steady_clock::now();
    const auto share = now + (deadline - now) / static_cast<int64_t>(endpoints_.size() - i);
    GatewayAnswer answer = call_at(endpoints_[endpoint], call, share, repeatable ? share : deadline);
    if (answer.status.ok()) {
      ask_first(endpoint);
      return std::move(answer.body);
    }
    *why += (why->empty() ? "" : "; ") + answer.why;
    if (answer.is_refusal) return answer.status.error();
    ask_first(endpoint + 1);
    if (answer.may_be_done && !repeatable) return Error(ETIMEDOUT, "a transaction of etcd");
    const Error one = answer.status.error();
    if (!error || one.is(ETIMEDOUT) || (one.is(EHOSTUNREACH) && !error->is(ETIMEDOUT))) error = one;
  }
  return *error;
}

Result<EtcdValue> EtcdClient::get(const std::string& key, std::string* why) {
  const Json answer = TRY(call("/v3/kv/range", {{"key", base64(key)}}, true, why));
  const auto pairs = answer.find("kvs");
  if (pairs == answer.end() || (pairs->is_array() && pairs->empty())) {
    *why = "etcd has no key " + key;
    return Error(ENOENT, "a key of etcd");
  }
  auto value = pairs->is_array() ? value_of(pairs->front()) : std::nullopt;
  if (!value) return not_understood(why, EPROTO);
  return std::move(*value);
}

Result<std::map<std::string, std::string>> EtcdClient::list(const std::string& prefix, std::string* why) {
  std::string end = prefix;
  ++end.back();  // the first key behind all that begin with it
  const Json answer = TRY(call("/v3/kv/range", {{"key", base64(prefix)}, {"range_end", base64(end)}}, true, why));
  std::map<std::string, std::string> values;
  const auto pairs = answer.find("kvs");
  if (pairs == answer.end()) return values;
  if (!pairs->is_array()) return not_understood(why, EPROTO);
  for (const Json& pair : *pairs) {
    auto value = value_of(pair);
    const auto key = value ? pair.find("key") : pair.end();
    const auto name =
        value && key != pair.end() && key->is_string() ? from_base64(key->get<std::string>()) : std::nullopt;
    if (!name) return not_understood(why, EPROTO);
    values.emplace(*name, std::move(value->value));
  }
  return values;
}

Result<uint64_t> EtcdClient::put_if(const std::vector<EtcdCompare>& comparisons, const std::vector<EtcdPut>& puts,
                                    std::string* why) {
  Json compare = Json::array();
  for (const EtcdCompare& one : comparisons) {
    const bool is_new = one.mod_revision == 0;
    compare.push_back({{"key", base64(one.key)},
                       {"result", "EQUAL"},
                       {"target", is_new ? "CREATE" : "MOD"},
                       {is_new ? "create_revision" : "mod_revision", std::to_string(one.mod_revision)}});
  }
  Json success = Json::array();
  for (const EtcdPut& put : puts)
    success.push_back({{"request_put", {{"key", base64(put.key)}, {"value", base64(put.value)}}}});
  const Json answer = TRY(call("/v3/kv/txn", {{"compare", compare}, {"success", success}}, false, why));
  const auto succeeded = answer.find("succeeded");  // left out if it is false
  if (succeeded == answer.end() || *succeeded == false) {
    *why = "etcd has another version by now";
    return Error(EAGAIN, "a transaction of etcd");
  }
  const auto revision = number_of(answer["header"], "revision");
  if (*succeeded != true || !revision || *revision == 0) return not_understood(why, ETIMEDOUT);
  return *revision;
}

}  // namespace brickfs
