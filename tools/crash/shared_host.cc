// SPDX-License-Identifier: Apache-2.0
// In brickfs-crash in the place of fs/source, and of what a mount asks its host: each SOURCE is the simulated brick,
// and a host has no mounts and remembers nothing.
#include <string>
#include <utility>

#include "fs/mount/mountpoint.h"
#include "fs/mount/second_mount.h"
#include "fs/mount/status/last_seen.h"
#include "fs/mount/status/mount_state.h"
#include "fs/source/bound_session.h"
#include "fs/source/source_volume.h"
#include "tools/crash/shared_brick.h"
#include "transport/base/local_time.h"
#include "transport/base/progress_bar.h"
#include "transport/membership/client_identity.h"

namespace brickfs {

Result<std::optional<Holder>> find_holder(const Source& source, const SourceAccess&) {
  const auto brick = shared_world::connect_brick();
  return ask_for_holder(*brick, source.volume);
}

Result<std::unique_ptr<VolumeClient>> open_bound(const Source& source, const ClientSecret&, size_t,
                                                 const ReadableBrick& brick, bool writes, ClientId client,
                                                 const std::string& client_name) {
  return VolumeClient::open(shared_world::connect_brick(),
                            options_of_bound(source.volume, brick, writes, client, client_name), nullptr);
}

Result<std::unique_ptr<VolumeSet>> open_source(const Source& source, const std::string& name, const SourceAccess&,
                                               const VolumeOptions& options, bool, SourceFailure& failure) {
  failure = {source, name, {}, {}};
  return VolumeSet::open(shared_world::connect_brick(), options, &failure.holder);
}

std::string describe_open_failure(const Error& error, const std::string&, const Source&, const Holder&, bool,
                                  const OpenWords&) {
  return describe(error);
}

std::chrono::seconds holder_leaves_within(const Source&) { return std::chrono::seconds(10); }

// Of a host whose processes are unknown to others.
ClientId make_client_id() {
  static uint64_t count = 0;
  return ClientId{uint64_t{fibers::machine()} << 32 | ++count};
}
bool has_ended(ClientId) { return false; }
Result<Session> open_past_ended(Brick& brick, OpenRequest request, Holder* holder) {
  return brick.open(request, holder);
}
std::optional<pid_t> local_process(ClientId) { return std::nullopt; }

std::string client_name() { return "machine " + std::to_string(fibers::machine()); }
bool can_mount_once_more(const MountCommand&) { return false; }
bool is_being_mounted_here(const Holder&) { return false; }
std::string describe_first_mount(const MountCommand&, const Holder&) { return {}; }
Status prepare_mountpoint(MountCommand&, std::string*) { return {}; }
std::optional<LastSeen> read_last_seen(const std::string&) { return std::nullopt; }
void keep_last_seen(const std::string&, uint64_t) {}
OperationState operation_state(std::string_view name, const LatencyCounts&) {
  OperationState state;
  state.name = name;
  return state;
}

}  // namespace brickfs
