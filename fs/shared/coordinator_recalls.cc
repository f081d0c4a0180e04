// SPDX-License-Identifier: Apache-2.0
// What a coordinator tells its member of his own accord, on a slot of its own: recalls, and what he wants of it.
#include "fs/shared/coordinator_link.h"

namespace brickfs::shared {

// What is recalled is dropped before the next call says so.
void CoordinatorLink::take_recalls() {
  AwaitRecalls asked;
  uint64_t epoch = epoch_;
  while (final_error().ok() && !is_stopping()) {
    const auto body = call_on(slots_[kRecallsSlot], kind_of<AwaitRecalls>(), encode(asked), {}, {}, nullptr, epoch);
    if (!body.ok() && epoch_ == epoch) return;
    if (!body.ok()) {  // the next one has recalls of its own
      epoch = epoch_;
      asked.done.clear();
      continue;
    }
    const auto recalls = decode<Recalls>(*body);
    asked.done.clear();
    if (!recalls.ok()) continue;
    for (const Recall& recall : recalls->recalls) {
      this->recall(recall);
      asked.done.push_back(recall.number);
    }
    give_wanted(*recalls, epoch);
  }
}

// On the slot of recalls: all others may be taken by those who wait for just that.
void CoordinatorLink::give_wanted(const Recalls& wanted, uint64_t epoch) {
  if (wanted.wants_units) give_units(epoch);
  for (const uint64_t tag : wanted.wants_bytes) give_bytes(tag, epoch);
}

void CoordinatorLink::give_units(uint64_t epoch) {
  ReturnUnits given;
  {
    MutexLock lock(data_mutex_);
    if (units_ != nullptr) given = units_->give_all_back();
  }
  given.is_wanted_back = true;
  (void)call_on(slots_[kRecallsSlot], kind_of<ReturnUnits>(), encode(given), {}, {}, nullptr, epoch);
}

void CoordinatorLink::give_bytes(uint64_t tag, uint64_t epoch) {
  std::shared_ptr<const std::vector<std::byte>> bytes;
  {
    MutexLock lock(data_mutex_);
    if (units_ != nullptr) bytes = units_->bytes(tag);
  }
  std::vector<LocalSlice> data;  // only read from
  if (bytes != nullptr)
    data.push_back({const_cast<std::byte*>(bytes->data()), static_cast<uint32_t>(bytes->size()), 0});
  const GiveBytes given{tag, bytes != nullptr};
  (void)call_on(slots_[kRecallsSlot], kind_of<GiveBytes>(), encode(given), data, {}, nullptr, epoch);
}

void CoordinatorLink::recall(const Recall& recall) {
  held_.recall(recall.ino, recall.kinds);
  if (!any(recall.kinds & Lease::kData)) return;
  {
    MutexLock lock(data_mutex_);
    if (data_ != nullptr) data_->recall(recall.ino);
  }
  // The kernel waits for reads under way, which are answered without what is held there.
  if (const auto pages = this->pages()) pages->recall(recall.ino);
}

void CoordinatorLink::drop_all_data() {
  MutexLock lock(data_mutex_);
  if (data_ != nullptr) data_->lapse();
  if (pages_) pages_->drop_soon();
}

std::shared_ptr<KernelPages> CoordinatorLink::pages() const {
  MutexLock lock(data_mutex_);
  return pages_;
}

void CoordinatorLink::set_pages(std::shared_ptr<KernelPages> pages) {
  MutexLock lock(data_mutex_);
  pages_ = std::move(pages);
}

void CoordinatorLink::set_units(MemberUnits* units) {
  MutexLock lock(data_mutex_);
  units_ = units;
}

void CoordinatorLink::set_data(MemberData* data) {
  MutexLock lock(data_mutex_);
  data_ = data;
}

}  // namespace brickfs::shared
