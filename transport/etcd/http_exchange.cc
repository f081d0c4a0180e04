// SPDX-License-Identifier: Apache-2.0
#include "transport/etcd/http_exchange.h"

#include <curl/curl.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <new>

namespace brickfs {
namespace {

template <auto destroy>
struct Destroy {
  template <typename T>
  void operator()(T* object) const {
    destroy(object);
  }
};
using Exchange = std::unique_ptr<CURL, Destroy<curl_easy_cleanup>>;
using Url = std::unique_ptr<CURLU, Destroy<curl_url_cleanup>>;
using Headers = std::unique_ptr<curl_slist, Destroy<curl_slist_free_all>>;

struct Taken {
  size_t bytes = 0;  // of all that came
  std::string body;
  bool is_too_long() const { return bytes > kExchangeBytes; }
};

// All that comes is shown to this one, as it comes: the library's other functions do not see what it throws away.
int count(CURL*, curl_infotype kind, char*, size_t bytes, void* to) {
  if (kind == CURLINFO_HEADER_IN || kind == CURLINFO_DATA_IN) static_cast<Taken*>(to)->bytes += bytes;
  return 0;
}

int go_on(void* with, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Taken*>(with)->is_too_long() ? 1 : 0;
}

size_t take_head(char*, size_t size, size_t count, void* to) {
  return static_cast<Taken*>(to)->is_too_long() ? 0 : size * count;
}

size_t take_body(char* bytes, size_t size, size_t count, void* to) try {
  Taken& taken = *static_cast<Taken*>(to);
  if (taken.is_too_long() || taken.body.size() + size * count > kExchangeBytes) return 0;
  taken.body.append(bytes, size * count);
  return size * count;
} catch (const std::bad_alloc&) {
  return 0;
}

// For a secret body. The buffer is the library's, which asks again once all of it has been sent: then, too, it is
// overwritten. Of a body whose length is known it would make a copy behind the head.
size_t give_body(char* to, size_t size, size_t count, void* from) {
  auto& left = *static_cast<std::string_view*>(from);
  const size_t bytes = std::min(size * count, left.size());
  explicit_bzero(to, size * count);
  left.copy(to, bytes);
  left.remove_prefix(bytes);
  return bytes;
}

// Once in the process, before the first handle.
bool is_ready() {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return ready;
}

Url url_of(const HostPort& endpoint, bool tls, const std::string& path) {
  Url url(curl_url());
  const bool is_v6 = endpoint.host.find(':') != endpoint.host.npos;
  const std::string host = is_v6 ? "[" + endpoint.host + "]" : endpoint.host;
  const auto set = [&url](CURLUPart part, const std::string& text) {
    return curl_url_set(url.get(), part, text.c_str(), 0) == CURLUE_OK;
  };
  const bool is_set = url && set(CURLUPART_SCHEME, tls ? "https" : "http") && set(CURLUPART_HOST, host) &&
                      set(CURLUPART_PORT, std::to_string(endpoint.port)) && set(CURLUPART_PATH, path);
  return is_set ? std::move(url) : nullptr;
}

// "Expect:" is left out: a body that waits for leave would wait out of any deadline of etcd's.
Headers headers_of(const HttpPost& request) {
  Headers headers;
  const auto add = [&headers](const std::string& line) {
    curl_slist* const longer = curl_slist_append(headers.get(), line.c_str());
    if (longer == nullptr) return false;
    static_cast<void>(headers.release());
    headers.reset(longer);
    return true;
  };
  const bool is_whole = add("Content-Type: application/json") && add("Expect:") &&
                        (!request.is_secret || add("Transfer-Encoding: chunked")) &&
                        (request.authorization.empty() || add("Authorization: " + request.authorization));
  return is_whole ? std::move(headers) : nullptr;
}

template <typename T>
void set(const Exchange& handle, CURLoption option, T value) {
  static_cast<void>(curl_easy_setopt(handle.get(), option, value));
}

void set_bounds(const Exchange& handle, const HttpPost& request, Taken& taken) {
  set(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
  set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout.count()));
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_QUICK_EXIT, 1L);  // a name that is still being looked up is not waited for
  set(handle, CURLOPT_VERBOSE, 1L);     // else nothing is counted
  set(handle, CURLOPT_DEBUGFUNCTION, count);
  set(handle, CURLOPT_DEBUGDATA, &taken);
  set(handle, CURLOPT_NOPROGRESS, 0L);
  set(handle, CURLOPT_XFERINFOFUNCTION, go_on);
  set(handle, CURLOPT_XFERINFODATA, &taken);
  set(handle, CURLOPT_HEADERFUNCTION, take_head);
  set(handle, CURLOPT_HEADERDATA, &taken);
  set(handle, CURLOPT_WRITEFUNCTION, take_body);
  set(handle, CURLOPT_WRITEDATA, &taken);
}

// No other file of the system, and nothing of the environment, has a say.
void set_peer(const Exchange& handle, const Url& url, const EtcdOptions& options) {
  set(handle, CURLOPT_CURLU, url.get());
  set(handle, CURLOPT_PROTOCOLS_STR, options.tls() ? "https" : "http");
  set(handle, CURLOPT_PROXY, "");
  set(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  if (!options.tls()) return;
  set(handle, CURLOPT_CAINFO, options.ca_path.c_str());
  set(handle, CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  if (options.cert_path.empty()) return;
  set(handle, CURLOPT_SSLCERT, options.cert_path.c_str());
  set(handle, CURLOPT_SSLKEY, options.key_path.c_str());
}

// `left` lasts as long as the exchange.
void set_body(const Exchange& handle, const HttpPost& request, std::string_view& left) {
  set(handle, CURLOPT_POST, 1L);
  if (request.is_secret) {
    set(handle, CURLOPT_READFUNCTION, give_body);
    set(handle, CURLOPT_READDATA, &left);
  } else {
    set(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(handle, CURLOPT_POSTFIELDS, request.body.data());
  }
}

HttpFailure failure_before_sending(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      return HttpFailure::kNotReached;
    case CURLE_OPERATION_TIMEDOUT:
      return HttpFailure::kNotConnected;
    case CURLE_SSL_CACERT_BADFILE:
      return HttpFailure::kNoTrusted;
    case CURLE_PEER_FAILED_VERIFICATION:
      return HttpFailure::kNotTrusted;
    case CURLE_SSL_CERTPROBLEM:
      return HttpFailure::kOwnNotUsable;
    case CURLE_OUT_OF_MEMORY:
      return HttpFailure::kNoMemory;
    default:
      return HttpFailure::kNoTls;
  }
}

HttpFailure failure_of(const Exchange& handle, CURLcode code, const Taken& taken) {
  if (code == CURLE_OK) return HttpFailure::kNone;
  curl_off_t sent_after = 0;  // 0: never
  curl_easy_getinfo(handle.get(), CURLINFO_PRETRANSFER_TIME_T, &sent_after);
  if (sent_after == 0) return failure_before_sending(code);
  if (code == CURLE_OPERATION_TIMEDOUT) return HttpFailure::kNoAnswer;
  // The library has a bound of its own for a line of the head.
  return taken.is_too_long() || code == CURLE_OUT_OF_MEMORY ? HttpFailure::kTooLong : HttpFailure::kClosed;
}

}  // namespace

HttpAnswer post(const HostPort& endpoint, const EtcdOptions& options, const HttpPost& request) {
  HttpAnswer answer;
  const Exchange handle(is_ready() ? curl_easy_init() : nullptr);
  const Url url = url_of(endpoint, options.tls(), request.path);
  const Headers headers = headers_of(request);
  if (!handle || !url || !headers) {
    answer.failure = handle && headers ? HttpFailure::kNotReached : HttpFailure::kNoMemory;
    return answer;
  }
  Taken taken;
  set_bounds(handle, request, taken);
  set_peer(handle, url, options);
  set(handle, CURLOPT_HTTPHEADER, headers.get());
  std::string_view left = request.body;
  set_body(handle, request, left);
  answer.failure = failure_of(handle, curl_easy_perform(handle.get()), taken);
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  answer.body = std::move(taken.body);
  return answer;
}

}  // namespace brickfs
