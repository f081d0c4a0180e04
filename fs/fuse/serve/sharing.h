// SPDX-License-Identifier: Apache-2.0
// A mount whose volume other machines have, too (-o shared): what its kernel may keep, and how its
// files are opened.
#pragma once

#include <linux/fuse.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fs/base/ids.h"
#include "fs/fuse/protocol/negotiation.h"
#include "fs/fuse/protocol/request.h"
#include "transport/base/mutex.h"

namespace brickfs {

// kCoordinator: the tree is in this process. kMember: another machine's has it.
enum class Sharing { kNone, kCoordinator, kMember };

// While the kernel keeps names and attributes no other machine may change them. A member's never does; a coordinator's
// does until there are members.
//
// Threads: any.
class FuseSharing {
 public:
  // `negotiation` outlives it.
  FuseSharing(Sharing how, const FuseNegotiation& negotiation) : how_(how), negotiation_(negotiation) {}

  Sharing how() const { return how_; }
  // The volume is handed over: the tree is another machine's. On return no request goes by what was before; files that
  // are open are read by the kernel's pages until they are closed.
  void become_member();
  std::vector<Ino> open_by_pages() const;
  bool is_shared() const { return how_ != Sharing::kNone; }

  // For how long the kernel may keep what is in an answer; held from before that is looked up until it has been sent.
  class Validity {
   public:
    explicit Validity(FuseSharing& sharing);
    ~Validity();
    Validity(const Validity&) = delete;
    Validity& operator=(const Validity&) = delete;
    uint64_t seconds() const { return seconds_; }

   private:
    std::atomic<size_t>* answering_ = nullptr;  // null: it is always the same
    uint64_t seconds_;
  };

  // Of a coordinator. On return no answer is on its way any more to what was asked before.
  void set_members(bool has_members);

  // How a file is opened that a program opens with these flags of open(2): each time with another number.
  fuse_open_out open(Ino ino, uint32_t flags);
  // The same of a new one, also where opening needs no request.
  fuse_open_out open_created(Ino ino, uint32_t flags);
  // Of such a number: it is closed.
  void release(uint64_t opened);
  // A write by a file with these flags goes to where the file ends when it is done, wherever the kernel took that to
  // be.
  // Of a write of the page cache that nobody waits for they say nothing: they are some open file's.
  bool appends(const FuseRequest::Transfer& transfer) const;

 private:
  uint64_t seconds() const;

  void end_turn();

  std::atomic<Sharing> how_;
  const FuseNegotiation& negotiation_;
  std::atomic<uint64_t> opened_{0};
  std::atomic<bool> has_members_{false};
  Mutex ending_turn_;              // before all others: held while requests under way are waited for
  std::atomic<unsigned> turn_{0};  // of these two: where answers are counted
  std::array<std::atomic<size_t>, 2> answering_{};
  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, Ino> by_pages_ ABSL_GUARDED_BY(mutex_);  // of a coordinator
};

}  // namespace brickfs
