// SPDX-License-Identifier: Apache-2.0
// What a member may answer from memory, under leases: attributes, extended ones, where symbolic links point to, names,
// and listings. A lease of the coordinator's holds until it is recalled, and all of them until they were not renewed
// for kCacheLease: reckoned from when the renewal was sent, on a clock that goes on while the machine sleeps, and
// looked at behind what is answered.
//
// **No recall overtakes its grant**, and no own change does: whoever asks for something notes when he does (Asking).
// What was recalled since, or was changed by this machine or is being changed, is not kept when the answer comes.
//
// **Own changes.** What a call that is to change something names (its inode; a directory and a name in it) is dropped
// before it is sent, and not kept before it has been answered (Change): the coordinator does not recall that from us.
// Other names of the directory stay.
//
// Memory: so many inodes and names (kMostKept), and no long values of attributes (kLongestValue); then all are
// forgotten.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fs/base/boot_clock.h"
#include "fs/base/ids.h"
#include "fs/operations/operation.h"
#include "fs/shared/calls.h"
#include "fs/shared/lease.h"
#include "transport/base/mutex.h"

namespace brickfs::shared {

class Held {
 public:
  static constexpr size_t kMostKept = 512 * 1'024;
  static constexpr size_t kLongestValue = 1'024;         // bytes
  static constexpr size_t kLongestListing = 64 * 1'024;  // entries

  // From when a call is sent until what it brought has been kept.
  class Asking {
   public:
    explicit Asking(Held& held);
    ~Asking();
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

   private:
    friend class Held;
    Held& held_;
    const uint64_t since_;
  };

  // An own change, from before it is sent until it has been answered, or is known never to be done.
  class Change {
   public:
    explicit Change(Held& held) : held_(held) {}
    Change(Change&& other) noexcept : held_(other.held_), keys_(std::exchange(other.keys_, {})) {}
    ~Change();
    void of(Ino ino);
    void of(Ino directory, std::string_view name);  // and of the directory's attributes
    void of_names(Ino directory);                   // of all of them
    void of_data(Ino file);                         // and of its attributes; the layouts are whose they are to drop
    // The name now means that inode (kNoIno: nothing), or the inode is so now: what the answer says. `asking`: of the
    // call. Before this goes.
    void now_named(const Asking& asking, Ino directory, std::string_view name, Ino ino);
    void now_is(const Asking& asking, const LeasedAttributes& inode);

   private:
    void begin(uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(held_.mutex_);
    Held& held_;
    std::vector<uint64_t> keys_;
  };

  // --- leases
  uint64_t generation() const;
  // The coordinator has answered a renewal that was sent then, of that generation. Of another one than ours all is
  // dropped, and that is begun; 0: it was not renewed.
  void renew(BootClock::time_point sent, uint64_t generation);
  // Of a coordinator that has gone: nothing is relied on before another one has renewed it.
  void let_go();
  bool is_valid() const;  // what was leased and not recalled, now
  // What that kind of lease is about has been neither recalled nor changed by this machine since, is not being changed
  // by it, and may be relied on now.
  bool still_holds(const Asking& asking, Ino ino, Lease kind) const;
  void recall(Ino ino, Lease kinds);
  // Nothing is known of it any more: the kernel has forgotten it.
  void forget(Ino ino);

  // --- what is held: none if it is not, or cannot be relied on now
  std::optional<Attributes> attributes(Ino ino) const;
  std::optional<std::string> target(Ino ino) const;
  // The inner one: nothing, if there is no such attribute.
  std::optional<std::optional<std::vector<std::byte>>> xattr(Ino ino, std::string_view name) const;
  std::optional<std::vector<std::byte>> xattr_names(Ino ino, bool of_administrator) const;
  std::optional<Ino> named(Ino directory, std::string_view name) const;  // kNoIno: nothing has the name
  struct Listed {
    std::string name;
    Ino ino{};
    uint8_t type = 0;
    uint64_t next_offset = 0;
  };
  using Listing = std::shared_ptr<const std::vector<Listed>>;
  Listing listing(Ino directory) const;  // whole; null

  // --- what answers bring
  void keep(const Asking& asking, const LeasedAttributes& inode);
  void keep_target(const Asking& asking, Ino ino, const LeasedText& target);
  void keep_xattr(const Asking& asking, Ino ino, std::string_view name, const LeasedXattr& value);
  void keep_xattr_names(const Asking& asking, Ino ino, bool of_administrator, const LeasedXattr& names);
  void keep_name(const Asking& asking, Ino directory, Lease lease, std::string_view name, Ino ino);
  // Entries from `offset` on; from 0 on, and all that follow, they become the listing.
  void keep_entries(const Asking& asking, Ino directory, uint64_t offset, const Entries& entries);

 private:
  struct Inode {
    std::optional<Attributes> attributes;
    std::optional<std::string> target;
    std::map<std::string, std::optional<std::vector<std::byte>>, std::less<>> xattrs;
    std::optional<std::vector<std::byte>> xattr_names[2];
    bool has_names = false;  // a lease on them
    std::unordered_map<std::string, Ino> names;
    Listing listing;
    std::vector<Listed> begun;  // of a listing, from its start on
  };
  struct Mark {
    uint64_t at = 0;
    uint32_t changes = 0;  // under way
  };
  static uint64_t key_of(Ino ino, Lease kind);
  static uint64_t key_of(Ino directory, std::string_view name);
  bool may_keep(const Asking& asking, uint64_t key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool may_keep_change(const Asking& asking, uint64_t key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Inode* to_keep(const Asking& asking, Ino ino, Lease granted, Lease kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void keep_name(Inode& directory, std::string_view name, Ino ino) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void mark(uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void prune() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop_attributes(Inode& inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop_names(Inode& inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop_all() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void make_room() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename T, typename Find>
  std::optional<T> find(Ino ino, Find&& find) const;

  mutable Mutex mutex_;
  std::unordered_map<Ino, Inode> inodes_ ABSL_GUARDED_BY(mutex_);
  size_t kept_ ABSL_GUARDED_BY(mutex_) = 0;  // inodes, names and entries, at least
  // What was recalled or changed, by when; only as long as an answer that was asked for before that may come.
  std::unordered_map<uint64_t, Mark> marks_ ABSL_GUARDED_BY(mutex_);
  uint64_t all_dropped_at_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
  std::multiset<uint64_t> asking_ ABSL_GUARDED_BY(mutex_);
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 1;
  BootClock::time_point valid_until_ ABSL_GUARDED_BY(mutex_){};
  size_t prune_at_ ABSL_GUARDED_BY(mutex_) = 1'024;
};

}  // namespace brickfs::shared
