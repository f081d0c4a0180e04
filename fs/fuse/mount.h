// SPDX-License-Identifier: Apache-2.0
// One mount: a libfuse session over /dev/fuse, attached to a mountpoint.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fs/fuse/extra.h"
#include "fs/fuse/missing_names.h"
#include "fs/fuse/mount_options.h"
#include "fs/fuse/page_dropper.h"
#include "fs/fuse/touch_permission.h"
#include "fs/fuse/writeback_cache.h"
#include "fs/operations/filesystem.h"
#include "transport/base/bytes.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

struct fuse_session;

namespace brickfs {

constexpr size_t kReadAheadBytes = 1 * kMiB;  // the kernel's, of a file that is read in order: some requests at once

// Makes command.mountpoint absolute. A dead brickfs mount there is no obstacle. ENOENT, ENOTDIR, EBUSY (something is
// mounted there), or /dev/fuse is missing or forbidden; with one line in `why`.
Status prepare_mountpoint(MountCommand& command, std::string* why);
// Clears away the dead mounts there. Only when everything is ready to be mounted in their place: nobody is to find the
// directory below, and a mount that fails leaves them. EBUSY.
Status clear_dead_mounts(const std::string& mountpoint, std::string* why);

class FuseMount {
 public:
  // Mounts; requests wait until a FuseLoop serves them. `why`: one line.
  static Result<std::unique_ptr<FuseMount>> attach(Filesystem& filesystem, const MountCommand& command,
                                                   std::string* why);
  // Ends the connection. If it was alive and is mounted still, it is detached. Whoever else ended the connection left a
  // dead mount, which stays: programs are to meet with ENOTCONN, not with the directory below. It is there until
  // somebody unmounts it.
  ~FuseMount();
  FuseMount(const FuseMount&) = delete;
  FuseMount& operator=(const FuseMount&) = delete;

  // Takes the mount, and bind mounts of it, out of the tree, after which nobody new comes in, and has the kernel write
  // back what it holds. The connection ends when the last user has gone. Blocks while requests are being served: not on
  // a serving thread.
  void detach();
  // The kernel has ended the connection.
  bool is_severed() const;
  // In the tree, here or at another place (fs/fuse/second_mount.h), connected or not.
  bool is_mounted() const;
  const std::string& mountpoint() const { return mountpoint_; }
  const std::string& device_number() const { return device_number_; }
  const std::string& listed_source() const { return listed_source_; }
  // Before the answer to a change that stamps an inode without telling the kernel its attributes: it drops those it has
  // by itself, but then takes, and keeps, older ones out of an answer that was under way meanwhile. After this it does
  // not.
  void drop_attributes(Ino ino);
  // The kernel forgets attributes, pages and links' targets of all that it knows, so it has to ask for them, and which
  // names the root has not; other names alone give nothing away. Waits for requests under way: while they are served,
  // and not on a serving thread.
  void drop_everything();
  // A name of the root directory: false if the kernel is not to remember that there is none.
  bool note_missing(std::string_view name) { return missing_.note(name); }
  // Of files' pages in the kernel's cache.
  PageDropper& pages() { return pages_; }
  // Raises the kernel's read-ahead from its 128 KiB to kReadAheadBytes. Best effort: only root may.
  void raise_read_ahead() const;

  Filesystem& filesystem() const { return filesystem_; }
  fuse_session* session() const { return session_; }
  int device() const;
  bool syncs_names() const { return syncs_names_; }
  // Null: it has none.
  WritebackCache* writeback() const { return writeback_.get(); }
  bool kills_privileges() const { return amendment_.kills_privileges(); }

  // Before the first request is served: RequestLimit::ask_seconds.
  void want_request_timeout(uint16_t seconds) { amendment_.want_request_timeout(seconds); }
  // Likewise: FuseRingEntries are at hand, if the kernel wants them; then it waits for them as soon
  // as that request has been answered.
  void want_rings() { amendment_.want_rings(); }
  bool has_rings() const { return amendment_.has_rings(); }
  // The kernel's first request has been answered, or its answer is on its way.
  bool is_initialised() const { return initialised_; }
  // For the serving thread: before libfuse gets the first request.
  void see_request(std::span<const std::byte> message) { amendment_.see_request(message); }
  // Its answer to the request that it serves, or a notice. As writev().
  ssize_t send(std::span<iovec> reply);

 private:
  FuseMount(Filesystem& filesystem, const MountCommand& command);
  Status start_session(const MountCommand& command, std::string* why);
  Status mount_session(std::string* why);
  static ssize_t send_hook(int fd, iovec* parts, int count, void* mount);
  void unmount_lazily() const;
  void keep_room_for_writeback();
  std::vector<std::string> mountpoints() const;

  Filesystem& filesystem_;
  const std::string mountpoint_;
  const bool syncs_names_;
  fuse_session* session_ = nullptr;
  std::string device_number_;             // "MAJOR:MINOR" of the mounted file system
  std::string listed_source_;             // in the table of mounts
  std::atomic<bool> initialised_{false};  // FUSE_INIT has been answered; it comes first and alone
  FuseInitAmendment amendment_;
  std::unique_ptr<TouchPermission> touch_permission_;
  MissingNames missing_;
  PageDropper pages_;
  std::unique_ptr<WritebackCache> writeback_;
  std::array<Mutex, 64> dropping_;  // by inode number: nobody goes on while another has not yet told the kernel
};

}  // namespace brickfs
