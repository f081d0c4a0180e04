// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/served_call.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <type_traits>
#include <utility>

namespace brickfs::shared {
namespace {

class Server {
 public:
  Server(FileOperations& files, Leases& leases, UnitLender* lender, const Asker& asker, std::span<const std::byte> data,
         std::span<std::byte> room, const AboutToChange& about_to_change, const OperationContext& context)
      : files_(files),
        leases_(leases),
        lender_(lender),
        asker_(asker),
        member_(context.machine),
        data_(data),
        room_(room),
        about_to_change_(about_to_change),
        context_(context) {}

  template <typename Asked>
  void operator()(const Asked& asked) {
    answer_.may_be_done_again = changes_nothing<Asked>();
    Result<typename Asked::Answer> done = serve(asked);
    answer_.status = done.code();
    if (done.ok()) answer_.fields = encode(*done);
    if (done.ok()) return;
    for (const Ino ino : std::exchange(answer_.given, {})) files_.forget(ino, 1);  // of a listing that was cut off
  }
  ServedAnswer take() { return std::move(answer_); }

 private:
  Touch touch(bool touches) const { return touches ? Touch::kAtime : Touch::kNothing; }
  static Result<Done> done(const Status& status) {
    if (!status.ok()) return status.error();
    return Done{};
  }
  template <typename T>
  Result<Count> count(const Result<T>& result) {
    if (!result.ok()) return result.error();
    return Count{*result};
  }
  // With a lease on them, if nobody is about to change them: as they are behind its grant.
  Result<LeasedAttributes> lease(Ino ino) {
    const Lease granted = leases_.grant(member_, ino, Lease::kAttributes);
    const auto attributes = files_.get_attributes(ino, context_);
    if (attributes.ok()) return LeasedAttributes{*attributes, granted};
    leases_.release(member_, ino);  // there is no such inode
    return attributes.error();
  }
  Result<LeasedAttributes> lease(const Result<Attributes>& attributes) {
    if (!attributes.ok()) return attributes.error();
    return lease(attributes->ino);
  }
  // And a reference.
  Result<LeasedAttributes> give(const Result<Attributes>& attributes) {
    if (attributes.ok()) answer_.given.push_back(attributes->ino);
    return lease(attributes);
  }
  Result<LeasedXattr> lease_xattr(const Result<std::vector<std::byte>>& value, Lease granted) {
    if (value.ok()) return LeasedXattr{*value, granted};
    if (value.error().is(ENODATA) && any(granted)) return LeasedXattr{std::nullopt, granted};
    return value.error();
  }
  // Bytes of a write that failed are undefined: some may be there.
  void changed(Ino ino, uint64_t offset, uint64_t length) {
    answer_.changed.push_back({ino, offset, length});
    about_to_change_(answer_.changed.back());
  }

  // A caller that may be missing, for as long as the call lasts.
  class Optional {
   public:
    explicit Optional(const std::optional<Who>& who) {
      if (who) caller_ = to_caller(*who);
    }
    const Caller* get() const { return caller_ ? &*caller_ : nullptr; }

   private:
    std::optional<Caller> caller_;
  };

  Result<Found> serve(const Lookup& asked) {
    const Lease granted = leases_.grant(member_, asked.directory, Lease::kNames);
    const auto found = files_.lookup(asked.directory, asked.name, context_);
    if (found.code() == ENOENT && any(granted)) return Found{std::nullopt, granted};
    return Found{TRY(give(found)), granted};
  }
  Result<LeasedAttributes> serve(const Make& asked) {
    const Caller who = to_caller(asked.who);
    switch (asked.how) {
      case Make::How::kFile:
        return give(files_.create(asked.directory, asked.name, asked.mode, who, context_));
      case Make::How::kTemporary:
        return give(files_.make_temporary(asked.directory, asked.mode, who, context_));
      case Make::How::kNode:
        return give(files_.make_node(asked.directory, asked.name, asked.mode, asked.rdev, who, context_));
      case Make::How::kDirectory:
        return give(files_.make_directory(asked.directory, asked.name, asked.mode, who, context_));
      case Make::How::kSymlink:
        return give(files_.make_symlink(asked.directory, asked.name, asked.target, who, context_));
    }
    return Error(EPROTO, "no kind of inode");
  }
  Result<LeasedAttributes> serve(const Link& asked) {
    return give(files_.link(asked.ino, asked.directory, asked.name, context_));
  }
  OperationContext dropping(const std::vector<Ino>& dropped) const {
    OperationContext context = context_;
    context.dropped = dropped;
    return context;
  }
  Result<Done> serve(const Unlink& asked) {
    const OperationContext context = dropping(asked.dropped);
    return done(asked.is_directory ? files_.remove_directory(asked.directory, asked.name, context)
                                   : files_.unlink(asked.directory, asked.name, context));
  }
  Result<Renamed> serve(const Move& asked) {
    if (asked.how > Rename::kExchange) return Error(EPROTO, "no way to rename");
    const Optional whiteout(asked.whiteout);
    return files_.rename(asked.directory, asked.name, asked.new_directory, asked.new_name, asked.how, whiteout.get(),
                         dropping(asked.dropped));
  }
  Result<LeasedText> serve(const ReadSymlink& asked) {
    const Lease granted = leases_.grant(member_, asked.ino, Lease::kAttributes);
    return LeasedText{TRY(files_.read_symlink(asked.ino, context_)), granted};
  }
  Result<Entries> serve(const ReadDirectory& asked) {
    Entries entries;
    entries.are_all = true;
    entries.directory = leases_.grant(member_, asked.directory, Lease::kNames);
    const auto visit = [&](const DirectoryEntry& entry) {
      if (entries.entries.size() == std::min(asked.most, kMostEntries)) return entries.are_all = false;
      Entry& copy = entries.entries.emplace_back();
      copy = {std::string(entry.name), entry.ino, entry.type, entry.next_offset, {}};
      if (entry.attributes == nullptr) return true;
      copy.attributes = LeasedAttributes{*entry.attributes, Lease::kNone};
      answer_.given.push_back(entry.ino);
      return true;
    };
    TRY(files_.read_directory(asked.directory, asked.offset, asked.plus, visit, touch(asked.touches), context_));
    for (Entry& entry : entries.entries)
      if (entry.attributes) entry.attributes = TRY(lease(entry.ino));
    return entries;
  }
  Result<LeasedAttributes> serve(const GetAttributes& asked) { return lease(asked.ino); }
  // A shorter file has lost pages, too.
  Result<LeasedAttributes> serve(const SetAttributes& asked) {
    if (asked.change.size_bytes) changed(asked.ino, *asked.change.size_bytes, UINT64_MAX);
    return lease(files_.set_attributes(asked.ino, asked.change, to_caller(asked.who), context_));
  }
  Result<Done> serve(const SetXattr& asked) {
    return done(files_.set_xattr(asked.ino, asked.name, asked.value, asked.flags, to_caller(asked.who), context_));
  }
  Result<LeasedXattr> serve(const GetXattr& asked) {
    const Lease granted = leases_.grant(member_, asked.ino, Lease::kAttributes);
    return lease_xattr(files_.get_xattr(asked.ino, asked.name, context_), granted);
  }
  Result<LeasedXattr> serve(const ListXattr& asked) {
    const Lease granted = leases_.grant(member_, asked.ino, Lease::kAttributes);
    return lease_xattr(files_.list_xattr(asked.ino, to_caller(asked.who), context_), granted);
  }
  Result<Done> serve(const RemoveXattr& asked) { return done(files_.remove_xattr(asked.ino, asked.name, context_)); }

  Result<Count> serve(const Read& asked) {
    if (asked.length > room_.size()) return Error(EPROTO, "a read that is too long");
    const LocalSlice into{room_.data(), asked.length, 0};
    const uint64_t bytes =
        TRY(files_.read(asked.ino, asked.offset, std::span(&into, 1), touch(asked.touches), context_));
    answer_.data = room_.first(bytes);
    return Count{bytes};
  }
  Result<Layout> serve(const GetLayout& asked) {
    Layout answer;
    answer.is_leased = any(leases_.grant(member_, asked.ino, Lease::kData));
    answer.layout = TRY(files_.layout(asked.ino, asked.offset, kMostParts));
    answer.is_atime_due = files_.is_atime_due(asked.ino);
    return answer;
  }
  Result<Written> serve(const Write& asked) {
    // Only read from: LocalSlice is that of reads, too.
    const LocalSlice from{const_cast<std::byte*>(data_.data()), static_cast<uint32_t>(data_.size()), 0};
    const Optional unprivileged(asked.unprivileged);
    // Where it went, who appends is not told.
    asked.appends ? changed(asked.ino, 0, UINT64_MAX) : changed(asked.ino, asked.offset, data_.size());
    const uint64_t bytes =
        TRY(asked.overwrites ? files_.overwrite(asked.ino, asked.offset, std::span(&from, 1), context_)
                             : files_.write(asked.ino, asked.offset, std::span(&from, 1), asked.appends,
                                            unprivileged.get(), asked.mapped, context_));
    Written written{bytes, {}};
    if (auto now = lease(asked.ino); now.ok()) written.inode = *now;
    return written;
  }
  Result<Lent> serve(const GetUnits& asked) {
    if (lender_ == nullptr) return Error(EOPNOTSUPP, "nothing is lent");
    return lender_->lend(member_, asker_.client, asked.blocks, context_.interruption);
  }
  Result<WrittenUnits> serve(const WriteUnits& asked) {
    if (lender_ == nullptr) return Error(EAGAIN, "nothing is lent");
    auto units = TRY(lender_->take(member_, asked.lender, asked.runs));
    const Optional unprivileged(asked.unprivileged);
    asked.appends ? changed(asked.ino, 0, UINT64_MAX) : changed(asked.ino, asked.offset, asked.length);
    auto kept = lender_->bytes().keep(member_, asker_.name, asked.tag, asked.runs);
    const FilledRange filled{asked.offset, asked.length, asked.appends, asked.mapped,
                             asked.runs,   asked.places, kept.bytes()};
    const uint64_t bytes = TRY(files_.write_units(asked.ino, filled, unprivileged.get(), context_));
    units.are_a_files();
    kept.are_a_files();
    WrittenUnits written{{bytes, {}}, kept.number()};
    if (auto now = lease(asked.ino); now.ok()) written.written.inode = *now;
    return written;
  }
  Result<Done> serve(const Allocate& asked) {
    const Optional unprivileged(asked.unprivileged);
    if ((asked.mode & ~FALLOC_FL_KEEP_SIZE) != 0) changed(asked.ino, asked.offset, asked.length);
    return done(files_.allocate(asked.ino, asked.mode, asked.offset, asked.length, unprivileged.get(), context_));
  }
  Result<FileOperations::Hole> serve(const NextHole& asked) { return files_.next_hole(asked.ino, asked.offset); }
  Result<Count> serve(const CopyRange& asked) {
    const Optional unprivileged(asked.unprivileged);
    changed(asked.to, asked.to_offset, asked.length);
    return count(files_.copy_range(asked.from, asked.from_offset, asked.to, asked.to_offset, asked.length,
                                   unprivileged.get(), context_));
  }
  Result<Done> serve(const Sync& asked) {
    return done(asked.ino ? files_.sync(*asked.ino, context_) : files_.sync_all(context_));
  }
  LockRequest lock_of(const LockOf& asked) const {
    return {asked.ino, {member_, asked.owner, asked.kind}, asked.open_file, asked.lock};
  }
  Result<FoundLock> serve(const FindLock& asked) { return FoundLock{TRY(files_.find_lock(lock_of(asked.asked)))}; }
  Result<Done> serve(const SetLock& asked) {
    return done(files_.set_lock(lock_of(asked.asked), asked.waits, context_));
  }
  Result<Done> serve(const CloseLocks& asked) {
    const LockRequest request = lock_of(asked.asked);
    return done(files_.close_locks(request.ino, request.owner, request.open_file, context_));
  }
  Result<Done> serve(const ReleaseLocks& asked) {
    return done(files_.release_locks(asked.ino, member_, asked.open_file));
  }
  Result<State> serve(const GetState& asked) {
    const LinkState link = files_.volume().link_state();
    return State{files_.read_only(),
                 files_.why_read_only(),
                 files_.store_trouble(),
                 files_.uncommitted(),
                 files_.stat(),
                 link.kind == LinkState::Kind::kConnected ? std::string() : link.text,
                 leases_.renew(member_, asked.leases),
                 lender_ != nullptr ? lender_->bytes().committed(member_) : 0,
                 asker_.successor};
  }
  Result<Done> serve(const RecallsDone& asked) {
    leases_.tell_done(member_, asked.done);
    return Done{};
  }
  template <typename OfMember>
  Result<typename OfMember::Answer> serve(const OfMember&) {
    return Error(EPROTO, "a call about the member");
  }

  FileOperations& files_;
  Leases& leases_;
  UnitLender* const lender_;
  const Asker& asker_;
  const uint64_t member_;
  const std::span<const std::byte> data_;
  const std::span<std::byte> room_;
  const AboutToChange& about_to_change_;
  const OperationContext& context_;
  ServedAnswer answer_;
};

}  // namespace

ServedAnswer serve_call(FileOperations& files, Leases& leases, UnitLender* lender, const Asker& asker,
                        const Decoded& call, std::span<std::byte> room, const AboutToChange& about_to_change,
                        const OperationContext& context) {
  Server server(files, leases, lender, asker, call.data, room, about_to_change, context);
  std::visit(server, call.request);
  return server.take();
}

}  // namespace brickfs::shared
