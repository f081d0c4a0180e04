// SPDX-License-Identifier: Apache-2.0
// What operations on files (file_operations.h) are asked with, and what they answer.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "fs/base/ids.h"
#include "fs/base/wake_later.h"
#include "transport/base/interruption.h"

namespace brickfs {

// Groups that somebody is in.
struct Groups {
  bool all = false;  // or may act as if
  std::vector<uint32_t> some = {};
};

// Who asks.
struct Caller {
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t umask = 0;
  // True if the caller is in group `gid` (supplementary ones too) or may act as if (CAP_FSETID).
  std::function<bool(uint32_t gid)> in_group;
  // Those groups, for who asks on his behalf elsewhere; empty: none but `gid`.
  std::function<Groups()> groups = {};
  // True if the caller has CAP_SYS_ADMIN; empty: it has not.
  std::function<bool()> is_administrator;
};

// A call of a member of a shared volume: which one on which of its slots, as it may be sent again. 0: none.
struct MemberCall {
  uint32_t slot = 0;
  uint64_t number = 0;
};

// For whom an operation is done: an argument of each that waits, changes anything or tells attributes. The default: for
// nobody who waits.
struct OperationContext {
  // Of an application, which waits for each of its answers; numbered as by gettid(2). 0: not known.
  uint32_t thread = 0;
  // The operation ends with EINTR soon after it was raised, if it waits then. Outlives the operation. Null: none.
  const Interruption* interruption = nullptr;
  // Of FileOperations::answer_first(). Null: whoever changes something wakes up at once who is to write it down.
  WakeLater* wake_later = nullptr;
  // Whose program it is, of those that have a shared volume: a member's session; 0: the own one's.
  uint64_t machine = 0;
  // Of that machine: the journal says, with what the operation changes, that it was done (fs/inode/member_register.h).
  MemberCall call = {};
  // Inodes of which that machine keeps nothing, of those that the operation finds by their names.
  std::span<const Ino> dropped = {};
};

struct Attributes {
  Ino ino{};
  uint32_t mode = 0;
  uint32_t nlink = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t rdev = 0;  // as Linux encodes it
  uint64_t size_bytes = 0;
  uint64_t blocks_512 = 0;  // st_blocks
  TimeNs atime{};
  TimeNs mtime{};
  TimeNs ctime{};
  TimeNs btime{};
};

// What setattr changes: the members that are set.
struct AttributeChange {
  std::optional<uint32_t> mode = {};
  std::optional<uint32_t> uid = {};
  std::optional<uint32_t> gid = {};
  std::optional<uint64_t> size_bytes = {};
  std::optional<TimeNs> atime = {};
  std::optional<TimeNs> mtime = {};
  std::optional<TimeNs> ctime = {};
  bool kill_privileges =
      false;  // clear set-uid/-gid as a write by a not privileged caller does; a new owner does so anyway
  bool kill_if_owner = false;  // the same if the caller owns the file, and is not root
};

struct DirectoryEntry {
  std::string_view name;  // valid during the callback
  Ino ino{};
  uint8_t type = 0;          // DT_*
  uint64_t next_offset = 0;  // where to go on behind this entry
  const Attributes* attributes =
      nullptr;  // with readdirplus; null for "." and "..", and where a damaged volume has none
};
// False: no room, stop before this entry. Runs under inode locks: must not call the file system.
using EntryVisitor = std::function<bool(const DirectoryEntry&)>;

// What reading does to what is read.
enum class Touch { kAtime, kNothing };

enum class Rename : uint32_t { kReplace = 0, kNoReplace = 1, kExchange = 2 };

// What was stamped: that to which the name belonged, and what it was exchanged with. kNoIno: nothing.
struct Renamed {
  Ino moved = kNoIno;
  Ino exchanged = kNoIno;
};

struct FilesystemStat {
  uint64_t unit_bytes = kUnitBytes;
  uint64_t total_units = 0;
  uint64_t free_units = 0;
  uint64_t inodes = 0;  // in use
  uint64_t free_inodes = 0;
  uint64_t metadata_bytes = 0;  // of memory, that inodes and names take
};

// What was answered for and a crash of the brick would undo.
struct Uncommitted {
  uint64_t operations = 0;  // transactions of the journal; 0: nothing would be lost
  uint64_t bytes = 0;       // of data and journal, where they are kept for replay
  uint64_t committed = 0;   // transactions that a crash of the brick does not undo, since the file system was made
};

// What holds the metadata on the brick.
struct PersistenceStat {
  uint64_t journal_bytes = 0;
  uint64_t checkpoint_bytes = 0;
  std::optional<std::chrono::nanoseconds> checkpoint_age;  // none: it is a former mount's
  std::chrono::nanoseconds checkpoint_took{};              // likewise
};

}  // namespace brickfs
