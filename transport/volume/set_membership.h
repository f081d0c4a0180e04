// SPDX-License-Identifier: Apache-2.0
// Which bricks a set has, as it stands on them (transport/volume/set_format.h, docs/sets.md): the member table on place
// 0, which decides, and the mark on each other place, by which a brick is known that is named in a wrong place or
// alone.
//
// Threads: one, before the volume is served.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/block_set.h"
#include "transport/volume/replica_format.h"
#include "transport/volume/set_format.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

struct MemberTable {
  struct Member {
    MemberId id{};
    std::string name;  // at most 39 bytes of it are kept
  };
  SetId set{};
  uint64_t generation = 0;
  std::vector<Member> members;  // by place
};

struct MemberMark {
  SetId set{};
  MemberId member{};
  uint64_t place = 0;
  bool joined = false;
};

struct CommitRecord {
  uint64_t number = 0;
  uint64_t position = 0;
  std::vector<BootId> boots;     // by place
  std::vector<uint64_t> counts;  // of commits, by place; 0: nobody knows
};

// Errors of all: the volume's. What reads needs the block to be allocated, and answers nothing where nothing verifies.
Result<std::optional<MemberTable>> read_member_table(VolumeClient& first);
// Durable when it returns; raises the generation. The former one stays in the other slot. What a write that was cut off
// has left of one becomes zeros first.
Status write_member_table(VolumeClient& first, MemberTable& table);

// Of the place whose first block it is.
Result<std::optional<MemberMark>> read_member_mark(VolumeClient& member, size_t place);
Status write_member_mark(VolumeClient& member, const MemberMark& mark);  // durable when it returns

Result<std::optional<CommitRecord>> read_commit_record(VolumeClient& first, const SetId& set);
// `counts`: none, or by place as `boots`.
StoredCommitSlot encode_commit_record(const SetId& set, uint64_t number, uint64_t position,
                                      std::span<const BootId> boots, std::span<const uint64_t> counts);
// Zeros, durable, where a commit that was cut off has left part of a record: before the next one, which would be of the
// same number, and could make that one whole if it is cut off, too.
Status clear_torn_commit_record(VolumeClient& first);

// Of a member behind the first (CommitCounter). 0: it has none.
Result<uint64_t> read_commit_count(VolumeClient& member, const SetId& set, size_t place);
// Of a brick whose session has just begun, where nothing is mapped. ENOENT: the block is not there.
Result<uint64_t> read_commit_count(Brick& brick, const SetId& set, size_t place);
StoredCommitCount encode_commit_count(const SetId& set, size_t place, uint64_t number);

// Of a replica, in the first block of its place (transport/volume/replica_format.h).
struct ReplicaMark {
  SetId set{};
  MemberId replica{};
  uint64_t generation = 0;
  uint64_t slot = 0;  // that it was read from
};
// At once: with nothing waited for but the brick's answers, as VolumeClient::try_write().
enum class Pace { kWaits, kAtOnce };
Result<std::optional<ReplicaMark>> read_replica_mark(VolumeClient& replica, size_t place, Pace pace = Pace::kWaits);
// Of a brick whose session has just begun, where nothing is mapped. ENOENT: the block is not there.
Result<std::optional<ReplicaMark>> read_replica_mark(Brick& brick, size_t place);
// Durable with the next commit. The former one stays in the other slot. Of one replica one at a time.
Status write_replica_mark(VolumeClient& replica, size_t place, const ReplicaMark& mark, Pace pace);

// Of a replica: the number of the dirty bitmap that it has, of what others have missed; 0: none (DirtyBitmap).
Result<uint64_t> read_bitmap_number(VolumeClient& replica, const SetId& set, size_t place);
StoredBitmapHeader encode_bitmap_header(const SetId& set, size_t place, uint64_t number);

// Of a replica, whose first block is there: blocks that may have been being written, of whatever place.
Result<BlockSet> read_activity_log(VolumeClient& replica, size_t place);

// A volume that was opened as one of one brick, with these blocks, and is of a set: one line about it, without the
// brick's name. Empty: it is of none.
Result<std::string> describe_membership(VolumeClient& volume, std::span<const BlockRange> listed);

bool contains_block(std::span<const BlockRange> listed, BlockAddress block);
std::string text_of(const SetId& id);

}  // namespace brickfs
