// SPDX-License-Identifier: Apache-2.0
#include "fs/library/open_shared.h"

#include "fs/mount/mount_options.h"
#include "fs/mount/mount_source.h"
#include "fs/served/served_volume.h"

namespace brickfs::library {
namespace {

MountCommand command_of(const OpenPlan& plan) {
  const Options& options = plan.options;
  MountCommand command;
  command.source = plan.name;
  command.mountpoint = kNoMountpoint;
  command.shared = true;
  command.read_only = options.read_only;
  command.steal = options.steal;
  command.require_durable = options.require_durable;
  command.no_atime = options.no_atime;
  command.soft = options.soft.has_value();
  command.soft_timeout = options.soft_timeout;
  command.secret_path = options.secret_path;
  command.etcd = options.etcd;
  return command;
}

}  // namespace

Result<brickfs_fs::Shared> open_shared(const OpenPlan& plan, std::string* why) {
  MountCommand command = command_of(plan);
  if (!plan.options.listen.empty()) TRY(parse_mount_options("listen=" + plan.options.listen, command, why));
  TRY(prepare_source(command, why));
  std::shared_ptr<ServedVolume> served = TRY(ServedVolume::open(
      command, [](const std::string&) {}, why));
  served->start_sharing(nullptr);
  return brickfs_fs::Shared{served->files(),
                            [served = served.get()] {
                              served->stop_sharing();
                              return served->unmount();
                            },
                            served};
}

}  // namespace brickfs::library
