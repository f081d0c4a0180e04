// SPDX-License-Identifier: Apache-2.0
// What is written to one replica, or from one to another: rows, marks, blocks.
#include <algorithm>

#include "transport/volume/mirror.h"
#include "transport/volume/set_membership.h"

namespace brickfs {
namespace {

constexpr uint64_t kCopyBytes = kMiB;

}  // namespace

Status Mirror::write_rows(std::span<const ActivityLog::Row> rows, const Interruption* by) {
  if (rows.empty()) return {};
  std::vector<uint64_t> values;
  for (const ActivityLog::Row& row : rows) values.push_back(row.value);
  std::vector<Piece> pieces;
  for (size_t i = 0; i < rows.size(); ++i) {
    pieces.push_back({raw(first_block()) + kActivityLogOffset + rows[i].index * sizeof(uint64_t),
                      {{reinterpret_cast<std::byte*>(&values[i]), sizeof(uint64_t), 0}}});
  }
  return write_claimed(written(), pieces, Stage::kData, by);
}

Status Mirror::write_activity_log(VolumeClient& client, const std::vector<uint64_t>& rows) const {
  std::vector<uint64_t> values = rows;
  const Piece piece{raw(first_block()) + kActivityLogOffset,
                    {{reinterpret_cast<std::byte*>(values.data()), static_cast<uint32_t>(kActivityLogBytes), 0}}};
  return client.write(std::span(&piece, 1), Stage::kData);
}

// Durable with the next commit.
Status Mirror::write_mark(VolumeClient& client, const MapReplica& entry, uint64_t generation) {
  // One sync must not have both slots to make durable, or a crash of the brick may leave none. The other one may have
  // been written, and not be durable: by a client that crashed, or by this one, of whose session the end has stored it.
  if (client.session().durability == Durability::kDurable) {
    TRY(client.commit_bytes(raw(first_block()) + kReplicaMarkOffset, 2 * kReplicaMarkSlotBytes));
  }
  return write_replica_mark(client, place_, {set_, entry.id, generation}, Pace::kWaits);
}

// It has everything by now: so says its mark to whoever has lost the map, and that it had this one, the map.
Status Mirror::mark(Replica& replica) {
  const uint64_t generation = keeper_->generation();
  TRY(write_mark(*replica.client, replica.entry, generation));
  TRY(replica.client->commit());
  replica.marked = generation;
  return {};
}

// The same of those in sync in the map, durably, before anything is acknowledged without what has been left out: with
// the map from before nobody mounts. False: some do not answer now, and are waited for, or left out, too.
bool Mirror::mark_remaining() {
  const auto map = keeper_->map();
  Clients remaining;
  for (const auto& [replica, client] : clients_of([](ReplicaPhase) { return true; })) {
    const MapReplica* const entry = find(*map, replica->entry.id);
    if (entry == nullptr || entry->state != ReplicaState::kInSync) continue;
    const ReplicaPhase phase = replica->phase.load();
    if (!brickfs::has_everything(phase)) return false;  // repair() is about to say what it is
    if (is_to_be_left_out(phase) || client->is_away()) return false;
    remaining.emplace_back(replica, client);
  }
  for (const auto& [replica, client] : remaining) {
    const Status status = mark_at_once(*replica, *client, map->generation);
    if (status.code() == ESTALE) fail(status);
    if (!status.ok()) return false;
  }
  return true;
}

// Behind its threads, and nothing is written any more.
bool Mirror::mark_last() {
  const uint64_t generation = keeper_->generation();
  return std::ranges::all_of(written(), [&](Replica* replica) {
    return !may_be_believed(*replica) || mark_at_once(*replica, *replica->client, generation).ok();
  });
}

// Nothing else is waited for than its answer; should it be silent, watch() ends that.
Status Mirror::mark_at_once(Replica& replica, VolumeClient& client, uint64_t generation) {
  marks_ = true;
  const Status marked = write_mark_at_once(replica, client, generation);
  marks_ = false;
  return marked;
}

// Durable, unless the brick's store fails: then nothing is that is written there.
Status Mirror::write_mark_at_once(Replica& replica, VolumeClient& client, uint64_t generation) {
  bool is_durable = true;
  const auto commit = [&] {
    if (client.session().durability != Durability::kDurable) return Status();
    const Status status = client.try_commit_bytes(raw(first_block()) + kReplicaMarkOffset, 2 * kReplicaMarkSlotBytes);
    is_durable &= status.ok();
    return status.code() == EAGAIN || status.code() == ESTALE ? status : Status();
  };
  TRY(commit());
  TRY(write_replica_mark(client, place_, {set_, replica.entry.id, generation}, Pace::kAtOnce));
  TRY(commit());
  if (is_durable) replica.marked = generation;
  return {};
}

// Whatever copy was made of its store while the brick was stopped is older than what it has from now on.
void Mirror::mark_restarted(Replica& replica, VolumeClient& client) {
  const uint64_t generation = keeper_->generation();
  if (generation <= replica.marked.load()) return;
  const Status status = mark_at_once(replica, client, generation);
  if (status.code() == ESTALE) fail(status);
}

// Nothing: it has nothing. EUCLEAN: it has something else.
Result<std::optional<ReplicaMark>> Mirror::own_mark(VolumeClient& client, const MapReplica& entry,
                                                    std::span<const BlockRange> listed) const {
  if (listed.empty()) return std::optional<ReplicaMark>();
  if (!contains_block(listed, first_block())) return Error(EUCLEAN, "it holds something else");
  const auto mark = TRY(read_replica_mark(client, place_));
  // Made by a client that ended before it had marked it.
  if (!mark && listed.size() == 1 && listed[0].count == 1) return std::optional<ReplicaMark>();
  if (!mark || mark->set != set_ || mark->replica != entry.id) return Error(EUCLEAN, "it holds something else");
  return mark;
}

Status Mirror::copy_bytes(VolumeClient& source, VolumeClient& target, uint64_t address, uint64_t length, Stage stage) {
  std::vector<std::byte> bytes(std::min(kCopyBytes, length));
  for (uint64_t done = 0; done < length; done += bytes.size()) {
    const uint64_t part = std::min<uint64_t>(bytes.size(), length - done);
    const Piece piece{address + done, {{bytes.data(), static_cast<uint32_t>(part), 0}}};
    TRY(source.read(std::span(&piece, 1)));
    TRY(target.write(std::span(&piece, 1), stage));
  }
  return {};
}

// All of the block that is the volume's.
Status Mirror::copy_block(VolumeClient& source, VolumeClient& target, BlockAddress block) const {
  if (block != first_block()) return copy_bytes(source, target, raw(block), kBlockBytes, Stage::kData);
  const uint64_t behind = raw(block) + kReplicaAreaEnd;
  TRY(copy_bytes(source, target, raw(block), kReplicaAreaOffset, Stage::kSuperblock));
  return copy_bytes(source, target, behind, raw(block) + kBlockBytes - behind, Stage::kSuperblock);
}

// The same blocks on both; those that are new there are to be copied too.
Status Mirror::make_alike(VolumeClient& source, VolumeClient& target, BlockSet& to_copy) {
  const BlockSet wanted{TRY(source.list())};
  const BlockSet found{TRY(target.list())};
  for (const BlockRange& extra : found.without(wanted).ranges()) TRY(target.free(extra));
  const BlockSet missing = wanted.without(found);
  for (const BlockRange& range : missing.ranges()) TRY(target.alloc(range));
  to_copy.insert(missing);
  to_copy = to_copy.intersection(wanted);
  return {};
}

}  // namespace brickfs
