// SPDX-License-Identifier: Apache-2.0
#include "fs/source/source_volume.h"

#include <utility>
#include <vector>

#include "transport/etcd/etcd_map_store.h"

namespace brickfs {
namespace {

// "tcp://b:20470": with the volume it would read as if that could be mounted.
std::string name_of_brick(const Source& brick) {
  const std::string text = format_source(brick);
  return text.substr(0, text.rfind('/'));
}

// The bricks are those that the map says.
Result<std::unique_ptr<VolumeSet>> open_by_map(const Source& source, const SourceAccess& access,
                                               const VolumeOptions& options, SourceFailure& failure) {
  auto store = TRY(EtcdMapStore::open(source, access.etcd, &failure.why));
  const auto make = [secret = access.secret](const std::string& replica,
                                             std::string* why) -> Result<std::unique_ptr<Brick>> {
    return make_brick(TRY(parse_source(replica, why)), secret, why);
  };
  SetRefusal refusal;
  auto set = VolumeSet::open(std::move(store), make, options, &refusal);
  failure.holder = refusal.holder;
  failure.why = refusal.why;
  return set;
}

}  // namespace

Result<std::unique_ptr<VolumeSet>> open_source(const Source& source, const std::string& name,
                                               const SourceAccess& access, const VolumeOptions& options, bool grow,
                                               SourceFailure& failure) {
  failure = {source.brick(0), name, {}, {}};
  if (source.kind == SourceKind::kEtcd) return open_by_map(source, access, options, failure);
  std::vector<SetBrick> bricks;
  for (size_t place = 0; place < source.bricks(); ++place) {
    const Source one = source.brick(place);
    if (source.is_set()) failure = {one, name_of_brick(one), {}, {}};
    auto brick = TRY(make_brick(one, access.secret, &failure.why));
    bricks.push_back({source.is_set() ? name_of_brick(one) : name, std::move(brick)});
  }
  SetRefusal refusal;
  auto set = VolumeSet::open(std::move(bricks), options, grow, &refusal);
  if (set.ok()) return set;
  const Source one = source.brick(refusal.place);
  failure = {one, source.is_set() ? name_of_brick(one) : name, refusal.holder, refusal.why};
  return set;
}

}  // namespace brickfs
