// SPDX-License-Identifier: Apache-2.0
// The life of a mounted file system behind mount(), and what concerns all of it.
#include "fs/operations/filesystem.h"

#include "fs/operations/filesystem_state.h"
#include "fs/persistence/checkpoint_thread.h"
#include "fs/persistence/volume_mark.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

// The first failure counts; what follows is done all the same.
void keep_first(Status& kept, const Status& status) {
  if (kept.ok()) kept = status;
}

}  // namespace

Filesystem::Filesystem(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Filesystem::~Filesystem() = default;

// As a crash: nothing more leaves for the brick. Threads end before what they use goes.
Filesystem::Impl::~Impl() {
  if (volume) volume->interrupt();
  if (checkpoints) checkpoints->stop();
  if (space) static_cast<void>(space->stop());
  journal.reset();
}

WakeLater Filesystem::answer_first() { return WakeLater(impl_->journal ? &impl_->journal->committer() : nullptr); }

Status Filesystem::unmount() {
  Status result;
  if (!impl_->read_only) result = impl_->end_changes();
  if (!result.ok()) impl_->volume->interrupt();
  keep_first(result, impl_->volume->close());
  if (!result.ok() && uncommitted().operations > 0)
    log::error("unmount: not everything was written: {}", result.error().what());
  return result;
}

// Only a step that leaves changes not durable is a failure; whatever else is left undone the next mount settles. What
// fails because the brick is away (a soft mount) is made good by a later step, if it is back by then.
Status Filesystem::Impl::end_changes() {
  Status tidy = journal->sync();
  keep_first(tidy, checkpoints->run());
  checkpoints->stop();
  keep_first(tidy, space->trim());
  Status result = journal->stop();
  keep_first(tidy, space->stop());
  keep_first(result, volume->commit());
  if (result.ok() && tidy.ok()) return write_mark(*volume, Mark::kClean);
  if (result.ok()) log::warn("unmount: everything is written, but not tidied up: {}", tidy.error().what());
  return result;
}

const std::string& Filesystem::uuid() const { return impl_->uuid; }
Lsn Filesystem::found_through() const { return impl_->found_through; }
bool Filesystem::was_unmounted() const { return impl_->was_unmounted; }
Lsn Filesystem::durable_through() const { return impl_->journal ? impl_->journal->durable() : impl_->found_through; }
bool Filesystem::read_only() const { return impl_->read_only; }
std::string Filesystem::why_read_only() const { return impl_->why_read_only; }
std::string Filesystem::store_trouble() const { return impl_->space ? impl_->space->store_trouble() : ""; }
VolumeAccess& Filesystem::volume() { return *impl_->volume; }

void Filesystem::want_commit() {
  if (impl_->journal) impl_->journal->want_commit();
}

Status Filesystem::sync(Ino ino, const OperationContext& context) {
  if (impl_->read_only) return {};
  TRY(impl_->journal_read_time(ino, context));
  return impl_->journal->sync(context.interruption);
}

Status Filesystem::sync_all(const OperationContext& context) {
  if (impl_->read_only) return {};
  for (const Ino ino : impl_->read_times.all()) TRY(impl_->journal_read_time(ino, context));
  return impl_->journal->sync(context.interruption);
}

Status Filesystem::await_written(const OperationContext& context) {
  if (impl_->read_only) return {};
  return impl_->journal->await_written(context.interruption);
}

Status Filesystem::checkpoint() {
  if (impl_->read_only) return {};
  return impl_->checkpoints->run();
}

void Filesystem::ask_before_touching(std::function<bool()> may_touch) { impl_->may_touch = std::move(may_touch); }

Uncommitted Filesystem::uncommitted() const {
  if (impl_->read_only) return {};
  const Lsn durable = impl_->journal->durable();  // first: it never passes the other
  return {.operations = raw(impl_->journal->last()) - raw(durable),
          .bytes = impl_->volume->uncommitted_bytes(),
          .committed = raw(durable)};
}

void Filesystem::reserve_for_writeback(uint64_t bytes, std::function<void()> on_short) {
  if (!impl_->read_only) impl_->space->reserve_for_writeback(divide_up(bytes, kUnitBytes), std::move(on_short));
}

void Filesystem::settle_writeback() { impl_->space->settle_writeback(); }

bool Filesystem::is_short_for_writeback() const { return !impl_->read_only && impl_->space->is_short_for_writeback(); }

Filesystem::KnownFiles Filesystem::known_files(Ino from, size_t most) const {
  KnownFiles known;
  const std::vector<Ino> numbers = impl_->inodes.numbers_from(from, most);
  for (const Ino ino : numbers) {
    const InodeLocks lock(impl_->inodes, {ino}, InodeLocks::Mode::kShared);
    const Inode* const inode = impl_->inodes.find(ino);
    if (inode != nullptr && inode->is_regular() && inode->references > 0) known.files.push_back(ino);
  }
  if (!numbers.empty()) known.next = Ino{raw(numbers.back()) + 1};
  return known;
}

PersistenceStat Filesystem::persistence() const {
  if (impl_->read_only) return {};
  const CheckpointStat checkpoint = impl_->checkpoints->stat();
  PersistenceStat stat;
  stat.journal_bytes = impl_->journal->chain_blocks() * kBlockBytes;
  stat.checkpoint_bytes = checkpoint.blocks * kBlockBytes;
  if (checkpoint.began != std::chrono::steady_clock::time_point())
    stat.checkpoint_age = std::chrono::steady_clock::now() - checkpoint.began;
  stat.checkpoint_took = checkpoint.took;
  return stat;
}

FilesystemStat Filesystem::stat() const {
  const SpaceUsage usage = impl_->read_only ? impl_->read_only_usage : impl_->space->usage();
  FilesystemStat stat;
  stat.total_units = usage.total_units;
  stat.free_units = usage.free_units;
  stat.inodes = impl_->inodes.size();
  stat.free_inodes = usage.free_units;  // a file that holds anything takes a unit
  stat.metadata_bytes = impl_->inodes.memory_bytes();
  if (const uint64_t most = impl_->options.max_metadata_bytes; most > 0) {
    const uint64_t each = stat.metadata_bytes / std::max<uint64_t>(1, stat.inodes) + 1;
    stat.free_inodes = std::min(stat.free_inodes, (most - std::min(most, stat.metadata_bytes)) / each);
  }
  return stat;
}

}  // namespace brickfs
