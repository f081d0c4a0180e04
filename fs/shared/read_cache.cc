// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/read_cache.h"

#include <algorithm>

#include "fs/base/slices.h"

namespace brickfs::shared {
namespace {

uint64_t spread(uint64_t version, uint64_t number) {
  const uint64_t mixed = (version * 0x9e3779b97f4a7c15u ^ number) * 0xbf58476d1ce4e5b9u;
  return mixed ^ (mixed >> 32);
}

}  // namespace

ReadCache::ReadCache(size_t bytes)
    : sets_(bytes / kPageBytes / kWays), memory_(std::make_unique_for_overwrite<std::byte[]>(bytes)) {}

ReadCache::Set& ReadCache::set_of(uint64_t version, uint64_t number, std::byte*& memory) {
  const size_t at = spread(version, number) % sets_.size();
  memory = memory_.get() + at * kWays * kPageBytes;
  return sets_[at];
}

bool ReadCache::copy(uint64_t version, uint64_t offset, uint64_t length, std::span<const LocalSlice> into) {
  SliceCursor cursor(into);
  for (const uint64_t end = offset + length; offset < end;) {
    const uint64_t number = offset / kPageBytes;
    const uint64_t within = offset % kPageBytes;
    const uint64_t here = std::min(end - offset, kPageBytes - within);
    std::byte* memory = nullptr;
    Set& set = set_of(version, number, memory);
    MutexLock lock(set.mutex);
    const auto page = std::ranges::find_if(
        set.pages, [&](const Page& each) { return each.version == version && each.number == number; });
    if (page == set.pages.end()) return false;
    page->used = ++set.clock;
    cursor.fill({memory + (page - set.pages.begin()) * kPageBytes + within, here});
    offset += here;
  }
  return true;
}

void ReadCache::keep(uint64_t version, uint64_t offset, uint64_t length, bool is_end,
                     std::span<const LocalSlice> from) {
  SliceCursor cursor(from);
  const uint64_t end = offset + length;
  const uint64_t begin = (offset + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (begin < end) cursor.skip(begin - offset);
  for (offset = begin; offset < end; offset += kPageBytes) {
    const uint64_t here = std::min<uint64_t>(end - offset, kPageBytes);
    if (here < kPageBytes && !is_end) return;
    const uint64_t number = offset / kPageBytes;
    std::byte* memory = nullptr;
    Set& set = set_of(version, number, memory);
    MutexLock lock(set.mutex);
    auto page = std::ranges::find_if(
        set.pages, [&](const Page& each) { return each.version == version && each.number == number; });
    if (page == set.pages.end()) page = std::ranges::min_element(set.pages, {}, &Page::used);
    cursor.drain({memory + (page - set.pages.begin()) * kPageBytes, here});
    *page = {version, number, ++set.clock};
  }
}

}  // namespace brickfs::shared
