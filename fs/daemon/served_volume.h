// SPDX-License-Identifier: Apache-2.0
// The volume that a mount serves, from its SOURCE to its end: what only its owner does. All others go by files(). Its
// tree is in this process, or, of a shared one, with the coordinator that others have become (docs/shared.md).
//
// Threads: one, but for files() and members().
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fs/mount/mount_options.h"
#include "fs/mount/status/mount_state.h"
#include "fs/operations/filesystem.h"
#include "fs/shared/coordinator.h"
#include "fs/shared/leased_files.h"
#include "fs/shared/member_files.h"
#include "transport/base/result.h"
#include "transport/membership/client_identity.h"

namespace brickfs {

class ServedVolume {
 public:
  // Opens the volume, which is tried again as the command says (MountRetry, `waiting`), and mounts its file system; or
  // becomes a member of who shares it. With a durable one that is older than this host has seen it, the log says so.
  // Errors as open_volume(), Filesystem::mount() and CoordinatorLink::join(), with one line in `why`.
  static Result<std::unique_ptr<ServedVolume>> open(const MountCommand& command,
                                                    std::function<void(const std::string& why)> waiting,
                                                    std::string* why);

  // Until this goes, also behind unmount().
  FileOperations& files();
  bool is_member() const { return member_ != nullptr; }
  // Members get in from now on, if this coordinates; `kernel`, null where nothing is mounted, outlives stop_sharing().
  void start_sharing(shared::OwnKernel* kernel);
  // Members are cut off.
  void stop_sharing();
  std::vector<MemberState> members() const;
  // As Filesystem::unmount(), and this host remembers how far a durable one was; or as MemberFiles::unmount().
  Status unmount();

 private:
  ServedVolume() = default;
  Status open_shared(const MountCommand& command, std::function<void(const std::string& why)> waiting,
                     std::string* why);
  Status join(const MountCommand& command, const Holder& holder, std::string* why);
  Status coordinate(const MountCommand& command, const std::function<void(const std::string& why)>& waiting,
                    std::string* why);
  Status open_own(const MountCommand& command, const std::function<void(const std::string& why)>& waiting,
                  std::string client_name, std::string* why);
  void look_at_last_seen(const std::string& source) const;
  void keep_last_seen() const;

  const ClientId client_ = make_client_id();
  // Whom the volume asks to commit: null before it is mounted, and from unmount() on.
  const std::shared_ptr<std::atomic<Filesystem*>> commit_target_ = std::make_shared<std::atomic<Filesystem*>>(nullptr);
  std::unique_ptr<Filesystem> filesystem_;
  std::unique_ptr<shared::LeasedFiles> leased_;  // filesystem_, with coordinator_ alone
  std::unique_ptr<shared::Coordinator> coordinator_;
  std::unique_ptr<shared::MemberFiles> member_;  // instead of it
};

}  // namespace brickfs
