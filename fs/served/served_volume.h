// SPDX-License-Identifier: Apache-2.0
// The volume that a mount serves, from its SOURCE to its end: what only its owner does. All others go by files(). Its
// tree is in this process, or, of a shared one, with the coordinator that another has become (docs/shared.md). When
// that one goes, a member takes its place, and is a member of itself from then on: what it serves is asked as before,
// and answered here. Who has coordinated from the start and hands the volume over is a member from then on: what it
// serves is switched to that.
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
#include "fs/shared/handover.h"
#include "fs/shared/leased_files.h"
#include "fs/shared/member_files.h"
#include "fs/shared/switched_files.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"
#include "transport/brick/source.h"
#include "transport/membership/client_identity.h"

namespace brickfs {

class ServedVolume : private shared::HandsOver {
 public:
  // Opens the volume, which is tried again as the command says (MountRetry, `waiting`), and mounts its file system; or
  // becomes a member of who shares it. With a durable one that is older than this host has seen it, the log says so.
  // Errors as open_volume(), Filesystem::mount() and CoordinatorLink::join(), with one line in `why`.
  static Result<std::unique_ptr<ServedVolume>> open(const MountCommand& command,
                                                    std::function<void(const std::string& why)> waiting,
                                                    std::string* why);

  ~ServedVolume() override;
  // Until this goes, also behind unmount().
  FileOperations& files();
  bool is_member() const { return member() != nullptr; }
  // This mounts nothing: a coordinator that hands the volume over ends, by this, which is called by any thread. Before
  // start_sharing().
  void end_with_handover(std::function<void()> end) { end_ = std::move(end); }
  // Members get in from now on, if this coordinates; `kernel`, null where nothing is mounted, outlives stop_sharing().
  void start_sharing(shared::OwnKernel* kernel);
  // Members are cut off, unless this is one itself, and has calls yet to make.
  void stop_sharing();
  std::vector<MemberState> members() const;
  // What a mount says of that: who the members are, and their calls.
  void tell_sharing(MountState& state) const;
  // As Filesystem::unmount(), and this host remembers how far a durable one was; or as MemberFiles::unmount().
  Status unmount();

 private:
  ServedVolume() = default;
  Status open_shared(const MountCommand& command, std::function<void(const std::string& why)> waiting,
                     std::string* why);
  void serve_switched(const MountCommand& command);
  Status join(const MountCommand& command, const Holder& holder, std::string* why);
  // Listens at the address, which becomes known to others with the volume.
  Status coordinate(const MountCommand& command, const std::function<void(const std::string& why)>& waiting,
                    std::string* why);
  Status open_own(const MountCommand& command, const std::function<void(const std::string& why)>& waiting,
                  std::string client_name, std::string* why);
  Result<shared::CoordinatorLink::Sought> seek(const shared::CoordinatorLink::Lost& lost);
  shared::CoordinatorLink::Sought seek_here(const shared::CoordinatorLink::Lost& lost) const;
  Holder this_coordinator() const;
  Status take_over(const shared::CoordinatorLink::Lost& lost, bool was_let_go);
  void serve_after(bool is_over);
  Status follow(const MountCommand& command, bool is_over, std::string* why);
  void let_go_of_lost();
  Status be_own_member();
  void take_up();
  void interrupt_own();
  shared::SessionId own_session() const override { return own_session_; }
  std::string own_name() const override;
  Status hand_over(const shared::HandoverAnswer& to) override;
  Status begin_handover();
  void end_handover();
  void tell_and_let_go(const shared::HandoverAnswer& to);
  void await_handover();  // the last one
  Status end_filesystem();
  std::shared_ptr<shared::Coordinator> coordinator() const;
  shared::MemberFiles* member() const;
  bool coordinates() const { return coordinator() != nullptr; }
  void look_at_last_seen(const std::string& source) const;
  void keep_last_seen() const;

  std::atomic<ClientId> client_ = make_client_id();  // as the bricks know us
  MountCommand command_;                             // of a shared volume
  bool takes_over_ = false;                          // the keeper's
  // Whom the volume asks to commit: null before it is mounted, and from unmount() on.
  const std::shared_ptr<std::atomic<Filesystem*>> commit_target_ = std::make_shared<std::atomic<Filesystem*>>(nullptr);
  // The one that serves; a member's, once it has taken the place of its coordinator.
  std::unique_ptr<Filesystem> filesystem_;
  std::unique_ptr<shared::LeasedFiles> leased_;  // filesystem_, with coordinator_ alone
  // Of a coordinator that has been one from the start: what it serves, also as the member that it is behind a handover.
  // The tree of before stays, since memory is registered with its volume.
  std::unique_ptr<shared::SwitchedFiles> switched_;
  std::unique_ptr<Filesystem> first_filesystem_;
  std::unique_ptr<shared::LeasedFiles> first_leased_;
  shared::OwnKernel* kernel_ = nullptr;  // null: nothing is mounted
  Mutex changing_role_;  // before mutex_: held by whoever takes the volume, or lets go of it, while others are served
  mutable Mutex mutex_;
  HostPort address_ ABSL_GUARDED_BY(mutex_);                                  // coordinator_'s
  std::shared_ptr<shared::Coordinator> coordinator_ ABSL_GUARDED_BY(mutex_);  // with filesystem_ alone
  VolumeAccess* own_volume_ ABSL_GUARDED_BY(mutex_) = nullptr;                // filesystem_'s, of a shared volume
  std::unique_ptr<shared::MemberFiles> member_ ABSL_GUARDED_BY(mutex_);
  std::atomic<shared::SessionId> own_session_{0};  // member_'s

  std::function<void()> end_;
  CondVar handed_over_;
  bool hands_over_ ABSL_GUARDED_BY(mutex_) = false;  // from when it is asked to
  Thread handing_over_ ABSL_GUARDED_BY(mutex_);
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;  // nothing is handed over any more
};

}  // namespace brickfs
