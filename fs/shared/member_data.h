// SPDX-License-Identifier: Apache-2.0
// What a member reads from the bricks itself: where the bytes of files are, as the coordinator has told under a lease
// on their data, and the reading.
//
// The coordinator recalls such a lease before a change of the file begins, and no other one is given until the change
// has ended. So bytes that were read count if the lease was still held *behind* the reading: then nobody had begun to
// change the file when they were read. Otherwise they may be anything, also another file's, and are read again by the
// coordinator, under no lease. Nobody is waited for in that: a recall finds what is being read not counting.
//
// What this machine changes itself its coordinator does not recall from it: whoever asks for a change of a file says so
// to Held (Change::of_data), and then here (drop). Until it is known to be over nothing is kept, and nothing counts.
//
// The first read of a file is the coordinator's: many are read once, and that is one call and not two. What a file is
// read through by, in short reads, is read ahead; and short reads are kept for who reads the same again (ReadCache).
// Such bytes count as others do: if the lease was still held behind their copying.
//
// Memory: at most kMostKept parts of layouts; those of the file that was read longest ago go first. ReadCache::kBytes.
//
// Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "fs/base/slices.h"
#include "fs/operations/operation.h"
#include "fs/shared/calls.h"
#include "fs/shared/held.h"
#include "fs/shared/member_bricks.h"
#include "fs/shared/read_cache.h"
#include "transport/base/mutex.h"

namespace brickfs::shared {

class MemberData {
 public:
  static constexpr size_t kMostKept = 64 * kKiB;
  static constexpr uint64_t kShortRead = 64 * kKiB;  // bytes; longer ones are neither kept nor read ahead
  static constexpr uint64_t kReadAhead = 128 * kKiB;

  // `ask`: the coordinator, as CoordinatorLink::ask(), which may not call this. `held`: what the leases are about. Both
  // outlive this.
  using Ask = std::function<Result<Layout>(const GetLayout& asked, const OperationContext& context)>;
  MemberData(MemberBricks::Open open, uint64_t preferred, Ask ask, Held& held);

  // The bytes, as FileOperations::read() has them. None: the coordinator is to be asked, who also notes the time of
  // reading then (`touches`).
  std::optional<uint64_t> read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, bool touches,
                               const OperationContext& context);

  // What is held of it is dropped, behind Held, which says what counts: the coordinator has recalled it, or this
  // machine is about to change it.
  void recall(Ino ino);
  void drop(Ino ino);
  // All is.
  void lapse();
  // Nobody here refers to it any more.
  void forget(Ino ino);

  MemberBricks& bricks() { return bricks_; }
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) { return bricks_.register_memory(memory); }
  struct Counts {
    uint64_t reads = 0;  // that were answered here
    uint64_t bytes = 0;
    uint64_t cached = 0;     // reads among them that asked no brick
    uint64_t passed_on = 0;  // reads that were left to the coordinator
  };
  Counts counts() const { return {reads_.load(), bytes_.load(), cached_.load(), passed_on_.load()}; }

 private:
  using Clock = std::chrono::steady_clock;
  using LayoutPtr = std::shared_ptr<const FileLayout>;
  struct File {
    uint64_t version = 0;  // of what the layouts tell of; 0: there are none
    bool was_read = false;
    bool is_atime_due = false;
    Clock::time_point asked{};
    uint64_t read_to = 0;  // by the last read
    // Of a file that others write: it is not asked for again at once.
    size_t reads = 0;  // since it was asked for
    Clock::duration rest{};
    Clock::time_point rests_until{};
    std::map<uint64_t, LayoutPtr> layouts;  // by their begin
    size_t kept = 0;                        // parts of them
    std::list<Ino>::iterator place;         // in used_, if there are any
  };
  // What one read goes by.
  struct Plan {
    uint64_t version = 0;
    uint64_t length = 0;     // within the file
    uint64_t known_end = 0;  // up to there the layouts tell of it
    uint64_t size_bytes = 0;
    bool goes_on = false;  // where the read before has ended
    std::vector<LayoutPtr> layouts;
  };

  void drop(File& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void let_rest(File& file);
  bool is_to_be_touched(Ino ino);
  std::optional<Plan> plan(Ino ino, uint64_t offset, uint64_t length, const OperationContext& context);
  bool find(Ino ino, uint64_t offset, uint64_t length, Plan& plan, uint64_t& missing);
  bool ask(Ino ino, uint64_t offset, const OperationContext& context);
  void keep(Ino ino, File& file, const Layout& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool read(Ino ino, const Plan& plan, const Held::Asking& reading, uint64_t offset, std::span<const LocalSlice> into,
            const OperationContext& context);
  bool read_more(Ino ino, const Plan& plan, const Held::Asking& reading, uint64_t offset,
                 std::span<const LocalSlice> into, const OperationContext& context);
  bool counts(Ino ino, const Plan& plan, const Held::Asking& reading);
  Status read(const Plan& plan, uint64_t offset, std::span<const LocalSlice> into, const OperationContext& context);
  Status read(const FileLayout& layout, uint64_t begin, uint64_t end, SliceCursor& into,
              const OperationContext& context);

  const Ask ask_;
  Held& held_;
  MemberBricks bricks_;
  std::atomic<uint64_t> reads_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> cached_{0};
  std::atomic<uint64_t> passed_on_{0};
  ReadCache cache_;

  Mutex mutex_;  // before Held's
  uint64_t last_version_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<Ino, File> files_ ABSL_GUARDED_BY(mutex_);
  std::list<Ino> used_ ABSL_GUARDED_BY(mutex_);  // those with layouts: the one that was read last is the first
  size_t kept_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace brickfs::shared
