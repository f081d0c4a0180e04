// SPDX-License-Identifier: Apache-2.0
// What a place with copies does about blocks that others write to (transport/volume/lent_bytes.h). They post the same
// bytes to each replica, in no order with the writes here, so what could be different then is seen to otherwise: lent
// blocks have rows; what was written to others than the replicas of now, or in another life of one, is not adopted;
// nor is what could have met a copy from replica to replica.
#include <algorithm>

#include "transport/volume/mirror.h"

namespace brickfs {
namespace {

// Of a range, without the bytes.
std::vector<Piece> pieces_of(std::span<const LentRange> ranges) {
  std::vector<Piece> pieces;
  for (const LentRange& range : ranges)
    pieces.push_back({range.address, {{nullptr, static_cast<uint32_t>(range.length_bytes), 0}}});
  return pieces;
}

bool has_answer(const std::vector<Status>& statuses, int code) {
  return std::ranges::any_of(statuses, [code](const Status& status) { return status.code() == code; });
}

}  // namespace

// What one replica is to get again: another has it, or who wrote it. If neither does, the replicas are made equal.
class Mirror::CopiedBytes final : public LentBytes {
 public:
  CopiedBytes(Mirror& mirror, const VolumeClient& asks, std::shared_ptr<LentBytes> bytes)
      : mirror_(mirror), asks_(asks), bytes_(std::move(bytes)) {}

  Status fetch(uint64_t address, std::span<std::byte> into) override {
    if (mirror_.read_from_another(asks_, address, into).ok()) return {};
    const Status fetched = bytes_->fetch(address, into);
    if (!fetched.ok()) mirror_.note_diverged(std::array{BlockRange{block_of(address), 1}});
    return fetched;
  }
  std::string owner() const override { return bytes_->owner(); }

 private:
  Mirror& mirror_;
  const VolumeClient& asks_;
  const std::shared_ptr<LentBytes> bytes_;
};

// Without waiting.
Status Mirror::read_from_another(const VolumeClient& than, uint64_t address, std::span<std::byte> into) const {
  const Piece piece{address, {{into.data(), static_cast<uint32_t>(into.size()), 0}}};
  const SharedLock roster(roster_mutex_);
  for (const Replica* replica : written()) {
    const bool can_answer = replica->client.get() != &than && has_everything(*replica) &&
                            !is_doubted(replica->phase.load()) && !replica->client->is_away();
    if (can_answer && replica->client->try_read(std::span(&piece, 1)).ok()) return {};
  }
  return Error(EAGAIN, "no other replica is there");
}

Status Mirror::begin_lending(BlockRange blocks, ClientId to, const Interruption* by) {
  if (!settled_.load()) return Error(EAGAIN, "the replicas may differ");
  const Gate::Pass pass(gate_, by);
  TRY(pass.entered());
  const Targets targets = written();
  std::vector<Status> statuses;
  for (Replica* replica : targets) {
    if (replica->client->is_away()) return Error(EAGAIN, "a replica is away");
    statuses.push_back(replica->client->admit(to, by));
  }
  for (const int refused : {EOPNOTSUPP, EUSERS}) {
    if (has_answer(statuses, refused)) return Error(refused, "a replica's brick lets nobody else write");
  }
  TRY(judge(targets, statuses, by));
  {
    MutexLock lock(mutex_);
    writers_.insert(to);
  }
  return activity_log_.lend(blocks, by);
}

// At a replica that joins, with the gate closed. Whom it does not take does not write there.
Status Mirror::admit_writers(VolumeClient& client) {
  std::vector<ClientId> writers;
  {
    MutexLock lock(mutex_);
    writers.assign(writers_.begin(), writers_.end());
  }
  for (const ClientId writer : writers) {
    const Status status = client.admit(writer);
    if (!status.ok() && !status.error().is(EUSERS) && !status.error().is(EOPNOTSUPP)) return status;
  }
  return {};
}

void Mirror::end_lending(BlockRange blocks) {
  activity_log_.end_lending(blocks);
  MutexLock lock(mutex_);
  met_copies_.erase(blocks);
}

// Within a hold of the block: who adopts something there has done so, or does so behind this.
void Mirror::note_copied(BlockAddress block) {
  MutexLock lock(mutex_);
  if (activity_log_.is_lent({block, 1})) met_copies_.insert(BlockRange{block, 1});
}

// In one life all of it, and nothing was copied there since it was lent.
bool Mirror::is_as_told(const Targets& targets, std::span<const ReadableBrick> bricks,
                        std::span<const LentRange> ranges) const {
  if (targets.size() != bricks.size()) return false;
  const bool same = std::ranges::all_of(targets, [&](const Replica* replica) {
    return std::ranges::any_of(bricks,
                               [&](const ReadableBrick& brick) { return brick.source == replica->entry.source; });
  });
  if (!same) return false;
  MutexLock lock(mutex_);
  for (const LentRange& range : ranges) {
    const BlockAddress start = block_of(range.address);
    const uint64_t end = raw(block_of(range.address + range.length_bytes - 1)) + kBlockBytes;
    if (met_copies_.intersects({start, (end - raw(start)) / kBlockBytes})) return false;
  }
  return true;
}

// As write_claimed(), of what is there already.
Status Mirror::adopt_claimed(std::span<const LentRange> ranges, std::span<const ReadableBrick> bricks,
                             const std::shared_ptr<LentBytes>& bytes, const Interruption* by) {
  const Targets targets = written();
  if (!is_as_told(targets, bricks, ranges)) return Error(EAGAIN, "other replicas are written to");
  std::vector<Status> statuses;
  for (Replica* replica : targets) {
    VolumeClient& client = *replica->client;
    const auto told = std::ranges::find(bricks, replica->entry.source, &ReadableBrick::source);
    statuses.push_back(
        client.adopt(ranges, told->boot, told->epoch, std::make_shared<CopiedBytes>(*this, client, bytes), by));
  }
  if (has_answer(statuses, EAGAIN)) return Error(EAGAIN, "a replica is in another life");
  return judge(targets, statuses, by);
}

Status Mirror::adopt(std::span<const LentRange> ranges, std::span<const ReadableBrick> bricks,
                     const std::shared_ptr<LentBytes>& bytes, const Interruption* by) {
  const Gate::Pass pass(gate_, by);
  TRY(pass.entered());
  operations_.fetch_add(1, std::memory_order_relaxed);
  const std::vector<Piece> all = pieces_of(ranges);
  for (std::span<const Piece> pieces = all; !pieces.empty();) {
    const auto part = pieces.first(ActivityLog::claimable(pieces));
    const ActivityLog::Claim claim = TRY(activity_log_.claim(part, by));
    const Status status = adopt_claimed(ranges.subspan(all.size() - pieces.size(), part.size()), bricks, bytes, by);
    if (!status.ok() && status.code() != EAGAIN) note_diverged(part);
    const Status noted = note_missed(part, by);
    TRY(status);
    TRY(noted);
    pieces = pieces.subspan(part.size());
  }
  return {};
}

// What a replica that was left out gets of it meanwhile is of a block with a row, or of one that is noted when it is
// used: it is copied when it comes back, by a session of another lease, which ends those that followed the former.
Status Mirror::expel(ClientId client) {
  const Gate::Pass pass(gate_);
  {
    MutexLock lock(mutex_);
    writers_.erase(client);
  }
  Status status = failure();
  for (Replica* replica : written()) {
    const Status expelled = replica->client->expel(client);
    if (!expelled.ok() && is_written(*replica)) status = expelled;
  }
  return status;
}

}  // namespace brickfs
