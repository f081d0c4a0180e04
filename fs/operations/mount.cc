// SPDX-License-Identifier: Apache-2.0
// Mounting, step by step. What each state of the volume leads to: docs/recovery.md, "Decision table".
//
// Until begin_changes() nothing is written to the brick (making a file system on an unused volume aside), and every
// step that writes leaves a state that the next mount takes up in the same way: a crash at any point of a mount is a
// crash.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "fs/operations/filesystem_state.h"
#include "fs/operations/member_journal.h"
#include "fs/persistence/checkpoint_thread.h"
#include "fs/persistence/volume_scan.h"
#include "fs/recovery/make.h"
#include "fs/recovery/recovery.h"
#include "transport/base/log.h"
#include "transport/base/progress.h"

namespace brickfs {

namespace {

std::string name_full(const VolumeSet& volume, Error error) {
  return error.is(ENOSPC) || error.is(EDQUOT) ? volume.name_full() : "";
}

}  // namespace

class Filesystem::Mounting {
 public:
  Mounting(Impl& impl, std::string* why) : impl_(impl), volume_(*impl.volume), why_(why), slots_(volume_) {}
  Status run();

 private:
  Status find_filesystem();
  Status make_where_none_was();
  std::string obstacle_to_changes() const;
  void serve_read_only();
  Status begin_changes();
  Status note_features();
  Status adopt_space();
  Status start_services();
  void insert_root();
  Status make_root();
  void end_sharing();
  Status delete_orphans();
  Status refuse(Error error, std::string why);

  const Superblock& superblock() const { return head_.superblock.superblock; }

  Impl& impl_;
  VolumeSet& volume_;
  std::string* const why_;
  SuperblockSlots slots_;
  std::vector<BlockRange> listed_;
  VolumeHead head_;
  RecoveredVolume recovered_;
};

Status Filesystem::Mounting::run() {
  TRY(find_filesystem());
  if (impl_.options.read_only && head_.mark != Mark::kClean) volume_.expect_no_restart();
  recovered_ = TRY(recover(volume_, superblock(), listed_, impl_.inodes, impl_.options.progress, why_));
  impl_.inodes.count_memory_of_all();
  impl_.uuid = superblock().uuid_text();
  impl_.found_through = Lsn{raw(recovered_.journal.next) - 1};
  impl_.was_unmounted = head_.mark == Mark::kClean;
  impl_.why_read_only = obstacle_to_changes();
  if (!impl_.why_read_only.empty()) volume_.stay_unsettled();
  if (impl_.options.read_only || !impl_.why_read_only.empty()) {
    serve_read_only();
  } else {
    TRY(begin_changes());
  }
  log::info("mounted {}{}: {} inodes, {} transactions replayed", impl_.uuid, impl_.read_only ? " read-only" : "",
            impl_.inodes.size(), recovered_.journal.transactions);
  return {};
}

Status Filesystem::Mounting::find_filesystem() {
  listed_ = TRY(volume_.list());
  head_ = TRY(read_head(volume_, slots_, listed_));
  if (head_.kind == VolumeHead::Kind::kUnmade) TRY(make_where_none_was());
  switch (head_.kind) {
    case VolumeHead::Kind::kMade:
      return {};
    case VolumeHead::Kind::kNewer:
      return refuse(Error(ENOTSUP, "the format is newer"), "this volume was made by a newer brickfs: " + head_.why);
    case VolumeHead::Kind::kUnmade:
    case VolumeHead::Kind::kRefused:
      break;
  }
  return refuse(Error(EUCLEAN, "not a brickfs"), head_.why);
}

Status Filesystem::Mounting::make_where_none_was() {
  if (impl_.options.read_only) {
    return refuse(Error(EROFS, "the volume is empty"),
                  "the volume is empty: mount it once without ro, that makes the file system");
  }
  if (!volume_.is_settled()) TRY(volume_.settle(listed_, {}, {}));  // nothing refers to anything yet
  const Status made = make_filesystem(volume_, slots_, listed_);
  if (!made.ok()) {
    return refuse(made.error(), fmt::format("cannot make a file system: {}{}", made.error().what(),
                                            name_full(volume_, made.error())));
  }
  listed_ = TRY(volume_.list());
  head_ = TRY(read_head(volume_, slots_, listed_));
  return {};
}

// Why it is mounted read-only though it was not asked for; empty: it need not be.
std::string Filesystem::Mounting::obstacle_to_changes() const {
  const Findings& findings = recovered_.findings;
  if (findings.damaged()) {
    std::string why = fmt::format(
        "the file system is damaged, it is mounted read-only: {} ({} findings in all; unmount, `brickctl check "
        "--repair`)",
        findings.first_damage(), findings.damages());
    log::error("{}", why);
    return why;
  }
  if (head_.superblock.read_only) {
    std::string why = "the file system has features that this brickfs does not know: it is mounted read-only";
    log::warn("{}", why);
    return why;
  }
  return "";
}

void Filesystem::Mounting::serve_read_only() {
  impl_.read_only = true;
  if (recovered_.without_root) insert_root();
  const uint64_t metadata_blocks = count_blocks(recovered_.journal_and_checkpoint()) + kSuperblockBlock.count;
  const uint64_t capacity_blocks = volume_.session().capacity_blocks;
  uint64_t used_units = 0;
  for (const UsedRun& used : recovered_.blocks.file_runs) used_units += used.run.count;
  impl_.read_only_usage.total_units = (capacity_blocks - std::min(capacity_blocks, metadata_blocks)) * kUnitsPerBlock;
  impl_.read_only_usage.free_units =
      impl_.read_only_usage.total_units - std::min(impl_.read_only_usage.total_units, used_units);
}

// First of all: nothing may be freed on the word of a journal that a crash of a brick could still take back.
Status Filesystem::Mounting::begin_changes() {
  TRY(settle(volume_, recovered_));
  TRY(slots_.restore_copy(head_.superblock));
  if (head_.mark != Mark::kNone) TRY(write_mark(volume_, Mark::kNone));
  TRY(note_features());
  TRY(adopt_space());
  TRY(start_services());
  if (recovered_.without_root) TRY(make_root());
  end_sharing();
  TRY(delete_orphans());
  impl_.checkpoints->start();
  return {};
}

// Before a block of the volume is on another brick, or a row is of a member: a program that knows nothing of that keeps
// off.
Status Filesystem::Mounting::note_features() {
  Superblock& superblock = head_.superblock.superblock;
  const uint64_t needed = (volume_.is_striped() ? kStriped : 0) | (impl_.options.shared ? kHasMembers : 0);
  if ((superblock.features.incompat & needed) == needed) return {};
  superblock.features.incompat |= needed;
  return slots_.write(superblock);
}

Status Filesystem::Mounting::adopt_space() {
  impl_.space = std::make_unique<Space>(volume_);
  for (const MetadataBlocks& part : recovered_.metadata) TRY(impl_.space->adopt_metadata(part.blocks));
  for (const UsedRun& used : recovered_.blocks.file_runs) TRY(impl_.space->adopt(used.run));
  recovered_.blocks.file_runs = {};
  return {};
}

Status Filesystem::Mounting::start_services() {
  Impl& impl = impl_;
  impl.journal = std::make_unique<Journal>(volume_, *impl.space);
  impl.checkpoints = std::make_unique<CheckpointThread>(
      CheckpointThread::Parts{.volume = volume_,
                              .space = *impl.space,
                              .journal = *impl.journal,
                              .scan = [&impl] { return std::make_unique<VolumeScan>(impl.inodes, impl.members); },
                              .next_ino = [&impl] { return impl.inodes.next_number(); },
                              .read_times = impl.read_times},
      slots_, superblock());
  // What is leaked was allocated and not yet, or no longer, referred to when the former holder ended; or he kept it.
  TRY(impl.space->start(recovered_.blocks.kept,
                        {.blocks = recovered_.blocks.leaked, .are_zeros = head_.mark == Mark::kClean},
                        {.durable = [&impl] { return impl.journal->durable(); },
                         .make_durable = [&impl](const Interruption* by) { return impl.journal->sync(by); }}));
  return impl.journal->start(superblock().seed(), recovered_.journal,
                             {.on_durable = [&impl](Lsn lsn) { impl.space->on_durable(lsn); },
                              .on_block_added = [&impl] { impl.checkpoints->journal_grew(); }});
}

void Filesystem::Mounting::insert_root() {
  auto root = std::make_unique<Inode>(kRootIno);
  root->parent = kRootIno;
  root->mode = S_IFDIR | 0755;
  root->uid = geteuid();
  root->gid = getegid();
  root->nlink = 2;
  root->atime = root->mtime = root->ctime = root->btime = superblock().created;
  root->directory = std::make_unique<Directory>();
  impl_.inodes.insert(std::move(root));
}

Status Filesystem::Mounting::make_root() {
  insert_root();
  Transaction transaction;
  impl_.put_inode(transaction, *impl_.inodes.find(kRootIno));
  impl_.journal->append(transaction);
  return impl_.journal->sync();
}

// Members of a former coordinator find nobody to come back to where others are not let in. What they rely on is over
// before anything is changed.
void Filesystem::Mounting::end_sharing() {
  impl_.members.recovered(std::move(recovered_.members));
  if (impl_.options.shared || impl_.members.all().empty()) return;
  std::this_thread::sleep_for(kMembersRelyFor);  // on what nobody recalls from them any more
  for (const KnownMember& member : impl_.members.all())
    impl_.members.end(member.session, [this](Transaction& rows) { return impl_.journal->append(rows); });
}

// Unlinked files that the former holder still had open. Not synced: until it is durable the next mount does it again.
// What members may have open waits for them.
Status Filesystem::Mounting::delete_orphans() {
  if (!impl_.members.all().empty()) {
    MutexLock lock(impl_.unclaimed_mutex);
    impl_.unclaimed = recovered_.orphans;
    return {};
  }
  for (const Ino ino : recovered_.orphans) {
    TRY(impl_.journal->admit());
    InodeLocks lock(impl_.inodes, {ino}, InodeLocks::Mode::kExclusive);
    impl_.delete_inode(*impl_.inodes.find(ino));
  }
  if (!recovered_.orphans.empty()) log::info("deleted {} unlinked file(s) that were in use", recovered_.orphans.size());
  return {};
}

Status Filesystem::Mounting::refuse(Error error, std::string why) {
  *why_ = std::move(why);
  return error;
}

Result<std::unique_ptr<Filesystem>> Filesystem::mount(std::unique_ptr<VolumeSet> volume, const MountOptions& options,
                                                      std::string* why) {
  auto impl = std::make_unique<Impl>();
  impl->volume = std::move(volume);
  impl->options = options;
  why->clear();
  const Status mounted = Mounting(*impl, why).run();
  if (!mounted.ok()) {
    if (why->empty()) {
      *why = fmt::format("the volume cannot be mounted: {}{}", mounted.error().what(),
                         name_full(*impl->volume, mounted.error()));
    }
    // Nothing was begun that we would have to come back for.
    if (impl->journal == nullptr && !impl->volume->is_away()) static_cast<void>(impl->volume->close());
    return mounted.error();
  }
  return std::unique_ptr<Filesystem>(new Filesystem(std::move(impl)));
}

}  // namespace brickfs
