// SPDX-License-Identifier: Apache-2.0
// How replicas become equal after the last client, which may have crashed: docs/recovery.md, "Resync after a crash".
#include "transport/base/log.h"
#include "transport/volume/mirror.h"
#include "transport/volume/set_membership.h"

namespace brickfs {

Status Mirror::begin(const SetId& set, bool unclean) {
  set_ = set;
  if (!writable_) return {};
  const BlockRange first_range = first_block_of(place_);
  if (!contains_block(TRY(first().list()), first_range.start)) {
    TRY(first().alloc(first_range));
    unclean = false;  // there was nothing to write to
  }
  TRY(read_bitmap());
  if (!unclean) return make_equal({});
  for (Replica* replica : written()) {
    if (!contains_block(TRY(replica->client->list()), first_range.start)) continue;
    touched_.insert(TRY(read_activity_log(*replica->client, place_)));
  }
  touched_.insert(first_range);
  take_rows_as_missed(touched_);
  settled_ = false;
  return {};
}

Status Mirror::make_equal(const Stages& stages) {
  Replica& source = *first_in_sync(false);
  // Also where no block is suspect: what was allocated there may not be durable, and journals of others refer to it.
  TRY(source.client->commit_blocks(stages[0].ranges(), stages[1].ranges(), stages[2].ranges()));
  TRY(expect_boot(source));
  TRY(resync_others(source, stages));
  do {
    TRY(clear_activity_log());
  } while (!become_settled());
  return {};
}

// Unless one was left out since the others were marked: a mark of the map from before would let that be believed.
bool Mirror::become_settled() {
  MutexLock lock(mutex_);
  if (marked_at_ < left_out_at_) return false;
  touched_.clear();
  settled_ = true;
  return true;
}

// Else it lacks what the last client had not committed, and what was read of that holds no more.
Status Mirror::expect_boot(const Replica& replica) const {
  return settled_.load() || replica.client->session().boot == boot_of(replica)
             ? Status()
             : Error(EIO, "a brick has restarted while it was read: mount again");
}

// One that goes away is left out, as ever, and brought back as a whole. So is one whose brick restarts.
Status Mirror::resync_others(const Replica& source, const Stages& stages) {
  for (Replica* replica : written()) {
    if (replica == &source) continue;
    const Status status = resync_replica(*source.client, *replica, stages);
    if (status.ok() && !expect_boot(*replica).ok()) {
      raise(*replica, ReplicaEvent::kFailed);
      leave_out();
      if (is_written(*replica)) return Error(EIO, "a brick has restarted and cannot be left out: mount again");
    }
    if (!status.ok() && is_written(*replica)) return status;
  }
  return {};
}

Status Mirror::resync_replica(VolumeClient& source, const Replica& replica, const Stages& stages) {
  VolumeClient& target = *replica.client;
  BlockSet differ = touched_;
  TRY(make_alike(source, target, differ));
  const auto copy = [&](const BlockSet& blocks) {
    Status copied;
    blocks.for_each(1, [&](BlockRange block) {
      copied = copy_block(source, target, block.start);
      return copied.ok();
    });
    return copied;
  };
  BlockSet rest = differ;  // that nothing refers to
  for (const BlockSet& stage : stages) rest.erase(stage);
  TRY(copy(rest));
  for (const BlockSet& stage : stages) {
    TRY(copy(differ.intersection(stage)));
    TRY(target.commit_blocks(stage.ranges(), {}, {}));
  }
  if (differ.count() > 0) log::info("{}: {} block(s) made as they are elsewhere", replica.name, differ.count());
  return {};
}

// All are equal. What rows said is in the dirty bitmap, if somebody may have missed it.
Status Mirror::clear_activity_log() {
  marked_at_ = keeper_->generation();  // at least
  for (Replica* replica : written()) {
    Status status = write_bitmap(*replica->client);
    if (status.ok()) status = write_activity_log(*replica->client, std::vector<uint64_t>(kActivityRows));
    if (status.ok()) status = mark(*replica);
    if (!status.ok() && is_written(*replica)) return status;
    MutexLock lock(mutex_);
    if (status.ok() && is_written(*replica)) replica->missed_all = false;
  }
  return {};
}

Status Mirror::clear_torn_commit_record() {
  for (Replica* replica : written()) {
    const Status status = brickfs::clear_torn_commit_record(*replica->client);
    if (!status.ok() && is_written(*replica)) return status;
  }
  return {};
}

}  // namespace brickfs
