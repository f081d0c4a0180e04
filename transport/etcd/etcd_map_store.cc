// SPDX-License-Identifier: Apache-2.0
#include "transport/etcd/etcd_map_store.h"

#include <fmt/core.h>

#include "transport/etcd/set_map_json.h"

namespace brickfs {
namespace {

std::string key_of_name(const std::string& volume) { return std::string(kSetNames) + volume; }
std::string key_of_map(const std::string& id) { return "/brickfs/" + id + "/map"; }

}  // namespace

Result<MapStore::Stored> load_map(EtcdClient& client, const std::string& volume, const std::string& id_text,
                                  std::string* why) {
  const auto id = parse_id(id_text);
  if (!id.ok()) {
    *why = fmt::format("what etcd has in {} is no id of a set", key_of_name(volume));
    return Error(EUCLEAN, "name of a set");
  }
  const std::string key = key_of_map(id_text);
  const auto value = client.get(key, why);
  if (value.code() == ENOENT) return Error(EUCLEAN, "map of a set");
  if (!value.ok()) return value.error();
  auto map = parse_map(value->value, why);
  if (map.ok() && map->set != *id) map = (*why = "it is of another set", Error(EUCLEAN, "map of a set"));
  if (!map.ok()) {
    *why = fmt::format("the map in {} is not to be used: {}", key, *why);
    return map.error();
  }
  return MapStore::Stored{std::move(*map), value->mod_revision};
}

Result<std::unique_ptr<EtcdMapStore>> EtcdMapStore::open(const Source& source, const EtcdOptions& options,
                                                         std::string* why) {
  auto client = TRY(EtcdClient::open(source.addresses, options, why));
  return std::unique_ptr<EtcdMapStore>(new EtcdMapStore(std::move(client), source.volume));
}

Result<MapStore::Stored> EtcdMapStore::load() {
  std::string why;
  auto stored = try_load(&why);
  if (!stored.ok()) keep_trouble(std::move(why));
  return stored;
}

Result<uint64_t> EtcdMapStore::replace(const SetMap& map, uint64_t version) {
  std::string why;
  auto replaced = try_replace(map, version, &why);
  if (!replaced.ok()) keep_trouble(std::move(why));
  return replaced;
}

Result<std::map<std::string, SetMap>> EtcdMapStore::others() {
  std::string why;
  const auto names = client_->list(std::string(kSetNames), &why);
  if (!names.ok()) {
    keep_trouble(std::move(why));
    return names.error();
  }
  std::map<std::string, SetMap> maps;
  for (const auto& [key, id] : *names) {
    const std::string name = key.substr(kSetNames.size());
    if (name == volume_) continue;
    auto stored = load_map(*client_, name, id, &why);
    if (stored.ok()) maps.emplace(name, std::move(stored->map));
  }
  return maps;
}

std::string EtcdMapStore::trouble() const {
  MutexLock lock(mutex_);
  return trouble_;
}

void EtcdMapStore::keep_trouble(std::string why) {
  MutexLock lock(mutex_);
  trouble_ = std::move(why);
}

Result<MapStore::Stored> EtcdMapStore::try_load(std::string* why) {
  const auto name = client_->get(key_of_name(volume_), why);
  if (name.code() == ENOENT) *why = fmt::format("etcd knows no set {}", volume_);
  if (!name.ok()) return name.error();
  return load_map(*client_, volume_, name->value, why);
}

Result<uint64_t> EtcdMapStore::try_replace(const SetMap& map, uint64_t version, std::string* why) {
  TRY(check_map(map, why));
  const std::string text = format_map(map);
  if (text.size() > kMapBytes) {
    *why = "the map is too large";
    return Error(E2BIG, "map of a set");
  }
  const std::string id = format_id(map.set);
  std::vector<EtcdCompare> comparisons = {{key_of_map(id), version}};
  std::vector<EtcdPut> puts = {{key_of_map(id), text}};
  if (version == 0) {
    comparisons.push_back({key_of_name(volume_), 0});
    puts.push_back({key_of_name(volume_), id});
  }
  auto revision = client_->put_if(comparisons, puts, why);
  if (revision.code() != EAGAIN) return revision;
  if (version != 0) {
    *why = fmt::format("another has changed the map of {}", volume_);
    return revision;
  }
  *why = fmt::format("etcd knows a set {} already", volume_);
  return Error(EEXIST, "map of a set");
}

}  // namespace brickfs
