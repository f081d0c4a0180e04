// SPDX-License-Identifier: Apache-2.0
// A client of etcd v3 (JSON gateway), for few and small calls: reads, and transactions of comparisons and puts.
//
// Of several endpoints the one that answered last is asked first, or the one behind that which did not. A read goes on
// to the next one if there is no answer within its share of the time; a transaction only if there was no connection:
// one whose answer is lost may have been done. Reads are linearizable. A call takes some kEtcdCallTimeout at most.
//
// Errors of calls, each with one line in `why` that names the endpoint. EHOSTUNREACH: no endpoint can be reached.
// ETIMEDOUT: no answer in time, or none that can be understood: a transaction may have been done, or not, now or later;
// or etcd's database is full.
// EACCES: wrong user or password, no permission, no certificate to trust. EPROTO: what answers is no etcd.
//
// Threads: all calls may be made from any thread at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/source.h"
#include "transport/etcd/etcd_options.h"
#include "transport/etcd/json_gateway.h"

namespace brickfs {

constexpr std::chrono::milliseconds kEtcdCallTimeout{6'000};

struct EtcdValue {
  std::string value;
  uint64_t mod_revision = 0;  // of the store, when it was written; not 0
};

struct EtcdCompare {
  std::string key;
  uint64_t mod_revision = 0;  // what it must be; 0: there is no such key
};

struct EtcdPut {
  std::string key;
  std::string value;
};

class EtcdClient {
 public:
  // At least one endpoint. Nothing is asked yet. EINVAL, EACCES ..., with one line in `why`: the options.
  static Result<std::unique_ptr<EtcdClient>> open(std::vector<HostPort> endpoints, EtcdOptions options,
                                                  std::string* why);

  // ENOENT: no such key.
  Result<EtcdValue> get(const std::string& key, std::string* why);
  // All keys that begin with `prefix`, which ends with a '/', and their values.
  Result<std::map<std::string, std::string>> list(const std::string& prefix, std::string* why);
  // All puts, if all comparisons hold. The mod_revision of what was put. EAGAIN: one of them does not hold.
  Result<uint64_t> put_if(const std::vector<EtcdCompare>& comparisons, const std::vector<EtcdPut>& puts,
                          std::string* why);

 private:
  EtcdClient(std::vector<HostPort> endpoints, EtcdOptions options, ClientSecret password)
      : endpoints_(std::move(endpoints)), options_(std::move(options)), password_(std::move(password)) {}

  Result<nlohmann::json> call(std::string_view path, const nlohmann::json& request, bool repeatable, std::string* why);
  GatewayAnswer call_at(const HostPort& endpoint, GatewayCall& call,
                        std::chrono::steady_clock::time_point token_deadline,
                        std::chrono::steady_clock::time_point deadline);
  GatewayAnswer authenticate(const HostPort& endpoint, std::chrono::steady_clock::time_point deadline,
                             std::string& token);
  GatewayAnswer authenticate_with(const Secret& password, const HostPort& endpoint,
                                  std::chrono::steady_clock::time_point deadline);
  void ask_first(size_t endpoint);

  const std::vector<HostPort> endpoints_;
  const EtcdOptions options_;
  const ClientSecret password_;

  Mutex mutex_;
  size_t first_ ABSL_GUARDED_BY(mutex_) = 0;  // of endpoints_, to be asked before the others
  std::string token_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
