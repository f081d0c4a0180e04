// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/kept_bytes.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "transport/base/printable.h"

namespace brickfs::shared {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kCalledAgain{1};  // what it was told may have been lost with a connection

}  // namespace

// Lives as long as one of its bytes.
class KeptBytes::OfMember {
 public:
  OfMember(std::string name, std::function<void()> call, std::chrono::milliseconds given_within)
      : name_(std::move(name)), call_(std::move(call)), given_within_(given_within) {}

  uint64_t begin() {
    MutexLock lock(mutex_);
    return *uncommitted_.insert(next_++).first;
  }
  void committed(uint64_t number) {
    MutexLock lock(mutex_);
    uncommitted_.erase(number);
  }
  uint64_t all_committed_below() const {
    MutexLock lock(mutex_);
    return uncommitted_.empty() ? next_ : *uncommitted_.begin();
  }
  uint64_t all_begun_below() const {
    MutexLock lock(mutex_);
    return next_;
  }
  bool any_uncommitted() const {
    MutexLock lock(mutex_);
    return !uncommitted_.empty();
  }

  const std::string& name() const { return name_; }

  // One after the other: one payload is here at a time. A brick's replay asks for all parts of it in a row.
  Status fetch(uint64_t tag, uint64_t offset, std::span<std::byte> into) {
    MutexLock turn(fetching_);
    MutexLock lock(mutex_);
    if (!given_ || given_->first != tag) TRY(await_given(tag, lock));
    const std::vector<std::byte>& bytes = given_->second;
    const size_t here = offset < bytes.size() ? std::min(into.size(), bytes.size() - offset) : 0;
    if (here > 0) std::memcpy(into.data(), bytes.data() + offset, here);
    std::ranges::fill(into.subspan(here), std::byte{0});
    return {};
  }
  std::vector<uint64_t> wanted() const {
    MutexLock lock(mutex_);
    return awaited_ ? std::vector{*awaited_} : std::vector<uint64_t>();
  }
  void give(uint64_t tag, const std::span<const std::byte>* bytes) {
    MutexLock lock(mutex_);
    if (awaited_ != tag) return;
    given_.reset();
    if (bytes != nullptr) given_.emplace(tag, std::vector<std::byte>(bytes->begin(), bytes->end()));
    if (bytes == nullptr) has_failed_ = true;
    awaited_.reset();
    changed_.notify_all();
  }
  void give_up() {
    MutexLock lock(mutex_);
    has_failed_ = true;
    changed_.notify_all();
  }
  bool has_failed() const {
    MutexLock lock(mutex_);
    return has_failed_;
  }

 private:
  Status await_given(uint64_t tag, MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    given_.reset();
    awaited_ = tag;
    const auto until = Clock::now() + given_within_;
    while (awaited_ && !has_failed_ && Clock::now() < until) {
      call_();  // with the mutex: not behind give_up()
      changed_.wait_until(lock, std::min(until, Clock::now() + kCalledAgain));
    }
    has_failed_ = has_failed_ || awaited_.has_value();
    awaited_.reset();
    if (given_) return {};
    return Error(ENODATA, "bytes that a member kept");
  }

  const std::string name_;
  const std::function<void()> call_;
  const std::chrono::milliseconds given_within_;
  Mutex fetching_;  // before mutex_
  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  std::set<uint64_t> uncommitted_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> awaited_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::pair<uint64_t, std::vector<std::byte>>> given_ ABSL_GUARDED_BY(mutex_);
  bool has_failed_ ABSL_GUARDED_BY(mutex_) = false;  // for good: nor is it waited for another time
};

class KeptBytes::Bytes final : public LentBytes {
 public:
  Bytes(std::shared_ptr<OfMember> member, uint64_t number, uint64_t tag, std::span<const UnitRun> runs)
      : member_(std::move(member)), number_(number), tag_(tag), runs_(runs.begin(), runs.end()) {}
  ~Bytes() override { member_->committed(number_); }
  void are_nobodys() { is_nobodys_ = true; }

  Status fetch(uint64_t address, std::span<std::byte> into) override {
    if (is_nobodys_) {
      std::ranges::fill(into, std::byte{0});
      return {};
    }
    uint64_t offset = 0;
    for (const UnitRun& run : runs_) {
      const uint64_t length = run.count * kUnitBytes;
      if (address >= run.address() && address < run.address() + length) {
        const uint64_t within = address - run.address();
        const size_t here = std::min<uint64_t>(into.size(), length - within);
        TRY(member_->fetch(tag_, offset + within, into.first(here)));
        into = into.subspan(here);
        address += here;
        if (into.empty()) return {};
      }
      offset += length;
    }
    return Error(EINVAL, "bytes that were not lent");
  }
  std::string owner() const override { return member_->name(); }

 private:
  const std::shared_ptr<OfMember> member_;
  const uint64_t number_;
  const uint64_t tag_;
  const std::vector<UnitRun> runs_;
  std::atomic<bool> is_nobodys_{false};
};

KeptBytes::Kept::~Kept() {
  if (bytes_ != nullptr) bytes_->are_nobodys();
}

std::shared_ptr<LentBytes> KeptBytes::Kept::bytes() const { return bytes_; }

KeptBytes::~KeptBytes() {
  MutexLock lock(mutex_);
  for (const auto& [session, member] : members_) member->give_up();
}

std::shared_ptr<KeptBytes::OfMember> KeptBytes::find(SessionId session) const {
  MutexLock lock(mutex_);
  const auto found = members_.find(session);
  return found == members_.end() ? nullptr : found->second;
}

KeptBytes::Kept KeptBytes::keep(SessionId session, const std::string& name, uint64_t tag,
                                std::span<const UnitRun> runs) {
  std::shared_ptr<OfMember> member;
  {
    MutexLock lock(mutex_);
    auto& found = members_[session];
    if (found == nullptr)
      found = std::make_shared<OfMember>(
          printable(name), [call = call_, session] { call(session); }, given_within_);
    member = found;
  }
  const uint64_t number = member->begin();
  return {number, std::make_shared<Bytes>(member, number, tag, runs)};
}

uint64_t KeptBytes::committed(SessionId session) const {
  const auto member = find(session);
  return member == nullptr ? 0 : member->all_committed_below();
}

uint64_t KeptBytes::begun(SessionId session) const {
  const auto member = find(session);
  return member == nullptr ? 0 : member->all_begun_below();
}

bool KeptBytes::any_uncommitted() const {
  MutexLock lock(mutex_);
  return std::ranges::any_of(members_, [](const auto& member) { return member.second->any_uncommitted(); });
}

std::vector<uint64_t> KeptBytes::wanted(SessionId session) const {
  const auto member = find(session);
  return member == nullptr ? std::vector<uint64_t>() : member->wanted();
}

void KeptBytes::give(SessionId session, uint64_t tag, const std::span<const std::byte>* bytes) {
  if (const auto member = find(session)) member->give(tag, bytes);
}

void KeptBytes::give_up(SessionId session) {
  if (const auto member = find(session)) member->give_up();
}

bool KeptBytes::has_failed(SessionId session) const {
  const auto member = find(session);
  return member != nullptr && member->has_failed();
}

void KeptBytes::end(SessionId session) {
  std::shared_ptr<OfMember> member;
  {
    MutexLock lock(mutex_);
    const auto found = members_.extract(session);
    if (!found.empty()) member = found.mapped();
  }
  if (member != nullptr) member->give_up();
}

}  // namespace brickfs::shared
