// SPDX-License-Identifier: Apache-2.0
// What a brickfs says of its mount when it is asked over its socket (brickfs_end.h): as it is now, with nothing waited
// for. On the way it is one object of JSON, whose fields have these names (docs/json.md, "state"); fields that the
// other end does not know are passed over, those that it lacks are as here.
//
// And what it reports, over the same socket, to those who wait for its end (UmountReport).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/latency_counters.h"
#include "transport/membership/set_map.h"
#include "transport/volume/link_state.h"

namespace brickfs {

// Of one kind, since the mount.
struct OperationState {
  std::string name;
  uint64_t count = 0;
  uint64_t failures = 0;
  uint64_t bytes = 0;
  double seconds = 0;             // of all together
  std::vector<uint64_t> buckets;  // number n: took less than 2^n microseconds, and is in no other; the last: the rest
};

OperationState operation_state(std::string_view name, const LatencyCounts& counts);

// Of a replicated set: what the map says of one copy of a place.
struct CopyState {
  uint64_t place = 0;
  std::string source;
  std::string state;           // "in sync", "syncing", "stale" (ReplicaState)
  bool leaving = false;        // its part is given to others
  uint64_t copied_blocks = 0;  // while it is brought up to date
  uint64_t total_blocks = 0;
  bool away = false;      // it cannot be read or written now; only a mount knows that
  std::string trouble{};  // not in sync: why it could not be brought up to date last
  bool can_be_read() const { return !away && state == name_of(ReplicaState::kInSync); }
};

// Of a shared volume: a machine that has it through this one.
struct MemberState {
  std::string name;           // of its client: host and process
  double silent_seconds = 0;  // since it was heard of
  uint64_t calls = 0;         // that were done for it
  double seconds = 0;         // that all these took
  uint64_t bytes = 0;         // of files, that went along
  bool read_only = false;
};
constexpr size_t kMostMembersTold = 64;

// `absent`: those that are away.
std::vector<CopyState> copies_of(const SetMap& map, const std::vector<MemberId>& absent = {});

struct MountState {
  std::string version;  // of brickfs
  int64_t pid = 0;
  std::string source;
  std::string mountpoint;
  int64_t mounted_since = 0;  // seconds since 1970
  std::string secret_file;    // empty: none

  std::string link;             // "connected", "silent", "waiting", "failed" (LinkState::Kind)
  std::string link_text;        // for people: LinkState::text
  double link_for_seconds = 0;  // it has been so, not counting another text
  uint64_t link_changes = 0;    // since the mount
  std::string store_trouble;    // store_trouble.h; empty: none

  bool durable = false;
  bool soft = false;
  int64_t soft_seconds = 0;  // timeo=
  bool read_only = false;
  std::string read_only_reason;   // for people; empty: it was asked for
  bool io_uring = false;          // requests come over it; else over /dev/fuse
  std::string io_uring_obstacle;  // why not, if it was wanted where there is one
  bool writeback = false;
  std::string writeback_obstacle;          // likewise
  std::string sharing;                     // "coordinator" or "member" (-o shared); empty: neither
  uint64_t member_count = 0;               // of a coordinator
  std::vector<MemberState> members;        // the first kMostMembersTold of them
  uint64_t members_expelled = 0;           // so far
  uint64_t leases = 0;                     // inodes that members rely on, of each member
  uint64_t recalls = 0;                    // of leases, so far
  uint64_t recalls_lapsed = 0;             // of these: that were not answered, but waited out
  uint64_t direct_read_bytes = 0;          // of a member: that it has read from the bricks itself
  uint64_t direct_write_bytes = 0;         // likewise: written; all others went through the coordinator
  std::vector<OperationState> calls;       // of its members that a coordinator did; that a member made to its own one
  bool has_rings = false;                  // ring=on: programs may have rings (fs/shm_queue)
  uint64_t rings = 0;                      // that programs have now
  uint64_t most_rings = 0;                 // that they may have
  int64_t request_limit_seconds = 0;       // the kernel ends the mount when a request takes longer; 0: it does not
  uint64_t capacity_bytes = 0;             // of the volume, for files
  uint64_t free_bytes = 0;                 // of these
  uint64_t inodes = 0;                     // in use
  uint64_t free_inodes = 0;                // may be made
  uint64_t metadata_bytes = 0;             // of memory, for inodes and names
  uint64_t max_metadata_bytes = 0;         // max_metadata=; 0: no bound
  uint64_t uncommitted_operations = 0;     // answered for, and a crash of the brick would undo them
  uint64_t uncommitted_bytes = 0;          // of data and journal, kept for that
  uint64_t journal_bytes = 0;              // on the brick
  uint64_t checkpoint_bytes = 0;           // likewise
  double checkpoint_age_seconds = -1;      // since its writing began; -1: it is a former mount's
  double checkpoint_seconds = 0;           // that its writing took
  uint64_t kernel_waiting = 0;             // requests that the kernel has made and not got answered
  std::vector<OperationState> operations;  // of the kernel and of rings, by name, until answered
  std::vector<OperationState> volume;      // of brickfs with its volume (VolumeCall)
  double uncommitted_for_seconds = 0;      // nothing of them has been committed for so long
  uint64_t copies_wanted = 0;              // of each place; 0: it is no replicated set
  std::vector<CopyState> copies;           // by place
  std::string etcd_trouble;                // of such a set: why etcd does not answer; empty: it does
  double etcd_trouble_for_seconds = 0;
};

// Packets that begin with this are states; others are reports (UmountReport).
constexpr char kStateBegins = '{';
constexpr size_t kStatePacketBytes = 64 * 1024;

std::string encode(const MountState& state);
std::optional<MountState> decode_mount_state(std::string_view packet);  // nothing: it is none

// What a brickfs says to the umount helper (tools/umount), to another brickfs that is to mount its volume
// (second_mount.h), and to brickctl, over a socket that no FUSE request is needed for: so that none of them ever waits
// for one. Each packet of brickfs is a report, or a state (MountState) if one was asked for; what the others send is
// one word.
struct UmountReport {
  LinkState::Kind link = LinkState::Kind::kConnected;
  bool serving = false;         // the kernel has not ended the connection
  bool ended = false;           // the last one: the volume has been let go, or given up
  pid_t pid = 0;                // of brickfs
  uint64_t linger_seconds = 0;  // that it goes on for after an unmount, if the brick stays away
  uint64_t progress = 0;        // another number: something has got on
  // Not told by an older brickfs, which counts as none.
  uint64_t uncommitted_operations = 0;
  uint64_t uncommitted_bytes = 0;
  std::string uncommitted;  // for people; empty: nothing
  std::string text;         // of the link, or what there is to say in the end
  std::string options;      // that hold for all mounts of the volume, with spaces between
};

// The others' words. The mount was cut off by force: no more time for a brick that is away than a signal gives.
constexpr std::string_view kUmountForced = "forced";
// What is your state?
constexpr std::string_view kAskState = "state";

constexpr size_t kUmountPacketBytes = 4096;

std::string encode(const UmountReport& report);  // at most kUmountPacketBytes
std::optional<UmountReport> decode_umount_report(std::string_view packet);

// The socket of the mount with this device number ("MAJOR:MINOR"), in a directory that only root may enter.
constexpr const char* kUmountDirectory = "/run/brickfs";
std::string umount_socket(std::string_view device_number);

}  // namespace brickfs
