// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/held.h"

#include <algorithm>
#include <functional>

#include "fs/shared/leases.h"

namespace brickfs::shared {
namespace {

constexpr size_t kMostXattrs = 32;  // of an inode

// A directory has no bytes: what would be theirs is its listing's.
constexpr Lease kListing = Lease::kData;

uint64_t mix(uint64_t a, uint64_t b) {
  const uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 29);
}

}  // namespace

// Those of two things may be equal: then less is kept.
uint64_t Held::key_of(Ino ino, Lease kind) { return mix(raw(ino), static_cast<uint64_t>(kind)); }
uint64_t Held::key_of(Ino directory, std::string_view name) {
  return mix(mix(raw(directory), 8), std::hash<std::string_view>()(name));
}

// --- who asks, and who changes

Held::Asking::Asking(Held& held)
    : held_(held), since_([&] {
        MutexLock lock(held.mutex_);
        held.asking_.insert(held.clock_);
        return held.clock_;
      }()) {}

Held::Asking::~Asking() {
  MutexLock lock(held_.mutex_);
  held_.asking_.erase(held_.asking_.find(since_));
}

void Held::Change::begin(uint64_t key) {
  keys_.push_back(key);
  held_.mark(key);
  ++held_.marks_[key].changes;
}

void Held::Change::of(Ino ino) {
  MutexLock lock(held_.mutex_);
  begin(key_of(ino, Lease::kAttributes));
  const auto found = held_.inodes_.find(ino);
  if (found != held_.inodes_.end()) held_.drop_attributes(found->second);
}

void Held::Change::of(Ino directory, std::string_view name) {
  of(directory);
  MutexLock lock(held_.mutex_);
  begin(key_of(directory, name));
  begin(key_of(directory, kListing));
  const auto found = held_.inodes_.find(directory);
  if (found == held_.inodes_.end()) return;
  found->second.names.erase(std::string(name));
  found->second.listing.reset();
  found->second.begun.clear();
}

void Held::Change::of_names(Ino directory) {
  MutexLock lock(held_.mutex_);
  begin(key_of(directory, Lease::kNames));
  const auto found = held_.inodes_.find(directory);
  if (found != held_.inodes_.end()) held_.drop_names(found->second);
}

void Held::Change::of_data(Ino file) {
  of(file);
  MutexLock lock(held_.mutex_);
  begin(key_of(file, Lease::kData));
}

void Held::Change::now_named(const Asking& asking, Ino directory, std::string_view name, Ino ino) {
  MutexLock lock(held_.mutex_);
  const auto found = held_.inodes_.find(directory);
  if (found == held_.inodes_.end() || !found->second.has_names) return;
  if (!held_.may_keep(asking, key_of(directory, Lease::kNames))) return;
  if (!held_.may_keep_change(asking, key_of(directory, name))) return;
  held_.keep_name(found->second, name, ino);
}

void Held::Change::now_is(const Asking& asking, const LeasedAttributes& inode) {
  MutexLock lock(held_.mutex_);
  if (!has(inode.lease, Lease::kAttributes)) return;
  if (!held_.may_keep_change(asking, key_of(inode.attributes.ino, Lease::kAttributes))) return;
  held_.make_room();
  held_.inodes_[inode.attributes.ino].attributes = inode.attributes;
}

Held::Change::~Change() {
  MutexLock lock(held_.mutex_);
  for (const uint64_t key : keys_) {
    --held_.marks_[key].changes;
    held_.mark(key);
  }
}

void Held::mark(uint64_t key) {
  marks_[key].at = ++clock_;
  if (marks_.size() >= prune_at_) prune();
}

void Held::prune() {
  const uint64_t oldest = asking_.empty() ? clock_ : *asking_.begin();
  std::erase_if(marks_, [&](const auto& each) { return each.second.changes == 0 && each.second.at <= oldest; });
  prune_at_ = std::max<size_t>(1'024, 2 * marks_.size());
}

bool Held::may_keep(const Asking& asking, uint64_t key) const {
  if (all_dropped_at_ > asking.since_) return false;
  const auto mark = marks_.find(key);
  return mark == marks_.end() || (mark->second.at <= asking.since_ && mark->second.changes == 0);
}

// By the one own change that is under way.
bool Held::may_keep_change(const Asking& asking, uint64_t key) const {
  const auto mark = marks_.find(key);
  if (all_dropped_at_ > asking.since_ || mark == marks_.end()) return false;
  return mark->second.at <= asking.since_ && mark->second.changes == 1;
}

// --- leases

uint64_t Held::generation() const {
  MutexLock lock(mutex_);
  return generation_;
}

void Held::renew(BootClock::time_point sent, uint64_t generation) {
  MutexLock lock(mutex_);
  if (generation == 0) return;
  if (generation == generation_) {
    valid_until_ = std::max(valid_until_, sent + kCacheLease);
    return;
  }
  drop_all();
  generation_ = generation;
  valid_until_ = {};
}

bool Held::is_valid() const {
  MutexLock lock(mutex_);
  return BootClock::now() < valid_until_;
}

bool Held::still_holds(const Asking& asking, Ino ino, Lease kind) const {
  MutexLock lock(mutex_);
  return may_keep(asking, key_of(ino, kind)) && BootClock::now() < valid_until_;
}

void Held::let_go() {
  MutexLock lock(mutex_);
  drop_all();
  generation_ = 1;
  valid_until_ = {};
}

void Held::recall(Ino ino, Lease kinds) {
  MutexLock lock(mutex_);
  const auto found = inodes_.find(ino);
  if (has(kinds, Lease::kAttributes)) {
    mark(key_of(ino, Lease::kAttributes));
    if (found != inodes_.end()) drop_attributes(found->second);
  }
  if (has(kinds, Lease::kNames)) {
    mark(key_of(ino, Lease::kNames));
    if (found != inodes_.end()) drop_names(found->second);
  }
  if (has(kinds, Lease::kData)) mark(key_of(ino, Lease::kData));
}

void Held::forget(Ino ino) {
  MutexLock lock(mutex_);
  for (const Lease kind : {Lease::kAttributes, Lease::kNames, Lease::kData}) mark(key_of(ino, kind));
  inodes_.erase(ino);
}

void Held::drop_attributes(Inode& inode) {
  inode.attributes.reset();
  inode.target.reset();
  inode.xattrs.clear();
  for (auto& names : inode.xattr_names) names.reset();
}

void Held::drop_names(Inode& inode) {
  inode.has_names = false;
  inode.names.clear();
  inode.listing.reset();
  inode.begun.clear();
}

void Held::drop_all() {
  inodes_.clear();
  kept_ = 0;
  all_dropped_at_ = ++clock_;
}

void Held::make_room() {
  if (++kept_ < kMostKept) return;
  kept_ = inodes_.size();
  for (const auto& [ino, inode] : inodes_) {
    kept_ += inode.names.size() + inode.begun.size() + inode.xattrs.size();
    if (inode.listing) kept_ += inode.listing->size();
  }
  if (kept_ > kMostKept / 2) drop_all();
}

// --- what is held

template <typename T, typename Find>
std::optional<T> Held::find(Ino ino, Find&& find) const {
  MutexLock lock(mutex_);
  const auto found = inodes_.find(ino);
  if (found == inodes_.end()) return std::nullopt;
  std::optional<T> held = find(found->second);
  if (held && BootClock::now() >= valid_until_) held.reset();
  return held;
}

std::optional<Attributes> Held::attributes(Ino ino) const {
  return find<Attributes>(ino, [](const Inode& inode) { return inode.attributes; });
}

std::optional<std::string> Held::target(Ino ino) const {
  return find<std::string>(ino, [](const Inode& inode) { return inode.target; });
}

std::optional<std::optional<std::vector<std::byte>>> Held::xattr(Ino ino, std::string_view name) const {
  using Value = std::optional<std::vector<std::byte>>;
  return find<Value>(ino, [&](const Inode& inode) -> std::optional<Value> {
    const auto value = inode.xattrs.find(name);
    return value == inode.xattrs.end() ? std::nullopt : std::optional<Value>(value->second);
  });
}

std::optional<std::vector<std::byte>> Held::xattr_names(Ino ino, bool of_administrator) const {
  return find<std::vector<std::byte>>(ino, [&](const Inode& inode) { return inode.xattr_names[of_administrator]; });
}

std::optional<Ino> Held::named(Ino directory, std::string_view name) const {
  return find<Ino>(directory, [&](const Inode& inode) -> std::optional<Ino> {
    const auto at = inode.names.find(std::string(name));
    return at == inode.names.end() ? std::nullopt : std::optional(at->second);
  });
}

Held::Listing Held::listing(Ino directory) const {
  const auto found = find<Listing>(directory, [](const Inode& inode) { return std::optional(inode.listing); });
  return found ? *found : nullptr;
}

// --- what answers bring

Held::Inode* Held::to_keep(const Asking& asking, Ino ino, Lease granted, Lease kind) {
  if (!has(granted, kind) || !may_keep(asking, key_of(ino, kind))) return nullptr;
  make_room();
  return &inodes_[ino];
}

void Held::keep(const Asking& asking, const LeasedAttributes& inode) {
  MutexLock lock(mutex_);
  if (Inode* const held = to_keep(asking, inode.attributes.ino, inode.lease, Lease::kAttributes))
    held->attributes = inode.attributes;
}

void Held::keep_target(const Asking& asking, Ino ino, const LeasedText& target) {
  MutexLock lock(mutex_);
  if (Inode* const held = to_keep(asking, ino, target.lease, Lease::kAttributes)) held->target = target.text;
}

void Held::keep_xattr(const Asking& asking, Ino ino, std::string_view name, const LeasedXattr& value) {
  MutexLock lock(mutex_);
  Inode* const held = to_keep(asking, ino, value.lease, Lease::kAttributes);
  const bool is_short = !value.bytes || value.bytes->size() <= kLongestValue;
  if (held != nullptr && is_short && held->xattrs.size() < kMostXattrs)
    held->xattrs.insert_or_assign(std::string(name), value.bytes);
}

void Held::keep_xattr_names(const Asking& asking, Ino ino, bool of_administrator, const LeasedXattr& names) {
  MutexLock lock(mutex_);
  if (names.bytes && names.bytes->size() > kLongestValue) return;
  if (Inode* const held = to_keep(asking, ino, names.lease, Lease::kAttributes))
    held->xattr_names[of_administrator] = names.bytes;
}

void Held::keep_name(Inode& directory, std::string_view name, Ino ino) {
  directory.has_names = true;
  directory.names.insert_or_assign(std::string(name), ino);
}

void Held::keep_name(const Asking& asking, Ino directory, Lease lease, std::string_view name, Ino ino) {
  MutexLock lock(mutex_);
  Inode* const held = to_keep(asking, directory, lease, Lease::kNames);
  if (held != nullptr && may_keep(asking, key_of(directory, name))) keep_name(*held, name, ino);
}

// From the start, one part behind the other; what changes meanwhile clears it.
void Held::keep_entries(const Asking& asking, Ino directory, uint64_t offset, const Entries& entries) {
  MutexLock lock(mutex_);
  Inode* const held = to_keep(asking, directory, entries.directory, Lease::kNames);
  if (held == nullptr) return;
  if (offset == 0) held->begun.clear();
  const bool goes_on = offset == 0 || (!held->begun.empty() && held->begun.back().next_offset == offset);
  const bool is_short = held->begun.size() + entries.entries.size() <= kLongestListing;
  if (!goes_on || !is_short || !may_keep(asking, key_of(directory, kListing))) return held->begun.clear();
  held->has_names = true;
  for (const Entry& entry : entries.entries)
    held->begun.push_back({entry.name, entry.ino, entry.type, entry.next_offset});
  kept_ += entries.entries.size();
  if (!entries.are_all) return;
  held->listing = std::make_shared<const std::vector<Listed>>(std::move(held->begun));
  held->begun.clear();
}

}  // namespace brickfs::shared
