// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/served_volume.h"

#include <fmt/core.h>

#include <utility>

#include "fs/mount/mount_source.h"
#include "fs/mount/status/last_seen.h"
#include "transport/base/local_time.h"
#include "transport/base/log.h"
#include "transport/base/progress_bar.h"

namespace brickfs {

Result<std::unique_ptr<ServedVolume>> ServedVolume::open(const MountCommand& command,
                                                         std::function<void(const std::string& why)> waiting,
                                                         std::string* why) {
  std::unique_ptr<ServedVolume> served(new ServedVolume());
  const auto commit_wanted = [target = served->commit_target_] {
    if (Filesystem* const filesystem = *target) filesystem->want_commit();
  };
  MountRetry retry(command, std::move(waiting));
  auto volume = TRY(open_volume(command, commit_wanted, retry, why));
  const MountOptions options{.read_only = command.read_only,
                             .writeback_cache = command.writeback == Writeback::kOn,
                             .no_atime = command.no_atime,
                             .max_metadata_bytes = command.max_metadata_bytes,
                             .progress = progress_for_people(command.log_target())};
  std::string reason;
  auto filesystem = Filesystem::mount(std::move(volume), options, &reason);
  if (!filesystem.ok()) {
    if (reason.empty()) reason = describe(filesystem.error());
    *why = fmt::format("{}: {}", command.source, reason);
    return filesystem.error();
  }
  served->filesystem_ = std::move(*filesystem);
  *served->commit_target_ = served->filesystem_.get();
  served->look_at_last_seen(command.source);
  return served;
}

Status ServedVolume::unmount() {
  *commit_target_ = nullptr;
  const Status unmounted = filesystem_->unmount();
  if (unmounted.ok()) keep_last_seen();
  return unmounted;
}

// An older copy of a store is as sound as the store itself.
void ServedVolume::look_at_last_seen(const std::string& source) const {
  const auto seen = read_last_seen(filesystem_->uuid());
  const uint64_t found = raw(filesystem_->found_through());
  if (!seen || found >= seen->transaction) return;
  log::warn(
      "{} is older than when it was unmounted here at {}: at transaction {}, and it was at {}. An older copy of its "
      "store was put back, or the store has lost what was committed: what was written since is not there",
      source, local_time(seen->at), found, seen->transaction);
}

// What is volatile has nothing that could be put back.
void ServedVolume::keep_last_seen() const {
  if (filesystem_->read_only() || filesystem_->volume().durability() != Durability::kDurable) return;
  brickfs::keep_last_seen(filesystem_->uuid(), raw(filesystem_->durable_through()));
}

}  // namespace brickfs
