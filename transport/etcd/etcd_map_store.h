// SPDX-License-Identifier: Apache-2.0
// The map of a set in etcd, in two keys (docs/sets.md, "The map in etcd"):
//
//   /brickfs/names/VOLUME   the set's id
//   /brickfs/ID/map         the map as JSON (set_map_json.h); the store's version is this key's mod_revision
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/source.h"
#include "transport/etcd/etcd_client.h"
#include "transport/etcd/etcd_options.h"
#include "transport/membership/set_map.h"

namespace brickfs {

constexpr std::string_view kSetNames = "/brickfs/names/";

// The map of the set `volume`, whose id is what its name's key has. As MapStore::load(), with one line in `why`.
Result<MapStore::Stored> load_map(EtcdClient& client, const std::string& volume, const std::string& id,
                                  std::string* why);

class EtcdMapStore final : public MapStore {
 public:
  // `source` is an etcd:// one. Nothing is asked yet. Errors as EtcdClient::open, with one line in `why`.
  static Result<std::unique_ptr<EtcdMapStore>> open(const Source& source, const EtcdOptions& options, std::string* why);

  Result<Stored> load() override;
  // With version 0 neither the volume's name nor the set may be there. EUCLEAN: check_map() refuses it. E2BIG.
  Result<uint64_t> replace(const SetMap& map, uint64_t version) override;
  // The maps of other sets, by their names, as far as they can be read. Errors as EtcdClient::list, told by trouble().
  Result<std::map<std::string, SetMap>> others();
  std::string trouble() const override;

 private:
  EtcdMapStore(std::unique_ptr<EtcdClient> client, std::string volume)
      : client_(std::move(client)), volume_(std::move(volume)) {}

  Result<Stored> try_load(std::string* why);
  Result<uint64_t> try_replace(const SetMap& map, uint64_t version, std::string* why);
  void keep_trouble(std::string why);

  const std::unique_ptr<EtcdClient> client_;
  const std::string volume_;
  mutable Mutex mutex_;
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
