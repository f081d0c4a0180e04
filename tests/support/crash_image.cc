// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_image.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "transport/base/check.h"
#include "transport/base/zero.h"

namespace brickfs {
namespace {

// Calls `step(address, bytes)` for the parts of a range that lie within one page each.
template <typename Step>
void for_each_part(uint64_t address, uint64_t length, uint64_t page_bytes, Step&& step) {
  uint64_t done = 0;
  while (done < length) {
    const uint64_t at = address + done;
    const uint64_t bytes = std::min(length - done, page_bytes - at % page_bytes);
    step(at, done, bytes);
    done += bytes;
  }
}

}  // namespace

const CrashImage::Block* CrashImage::find(uint64_t block) const {
  const auto at = std::lower_bound(blocks_.begin(), blocks_.end(), block,
                                   [](const Entry& entry, uint64_t wanted) { return entry.first < wanted; });
  return at != blocks_.end() && at->first == block ? &*at->second : nullptr;
}

bool CrashImage::contains_any(BlockRange blocks) const {
  for (uint64_t i = 0; i < blocks.count; ++i) {
    if (contains(block_after(blocks.start, i))) return true;
  }
  return false;
}

bool CrashImage::contains_all(BlockRange blocks) const {
  for (uint64_t i = 0; i < blocks.count; ++i) {
    if (!contains(block_after(blocks.start, i))) return false;
  }
  return true;
}

void CrashImage::add(BlockAddress block) {
  remove(block);
  const auto at = std::lower_bound(blocks_.begin(), blocks_.end(), raw(block),
                                   [](const Entry& entry, uint64_t wanted) { return entry.first < wanted; });
  blocks_.insert(at, {raw(block), CopiedOnWrite<Block>::make()});
}

void CrashImage::remove(BlockAddress block) {
  std::erase_if(blocks_, [block](const Entry& entry) { return entry.first == raw(block); });
}

CrashImage::Block& CrashImage::writable(uint64_t block) {
  const auto at = std::lower_bound(blocks_.begin(), blocks_.end(), block,
                                   [](const Entry& entry, uint64_t wanted) { return entry.first < wanted; });
  CHECK(at != blocks_.end() && at->first == block);
  Block& own = at->second.own();
  own.digest.value = 0;
  return own;
}

void CrashImage::write(uint64_t address, std::span<const std::byte> bytes) {
  for_each_part(address, bytes.size(), kPageBytes, [&](uint64_t at, uint64_t done, uint64_t length) {
    CopiedOnWrite<Page>& page = writable(round_down(at, kBlockBytes)).pages[at % kBlockBytes / kPageBytes];
    const auto part = bytes.subspan(done, length);
    if (!page) {
      if (is_zero(part)) return;
      page = CopiedOnWrite<Page>::make();
    }
    Page& own = page.own();
    own.digest.value = 0;
    std::memcpy(own.bytes.data() + at % kPageBytes, part.data(), length);
  });
}

void CrashImage::read(uint64_t address, std::span<std::byte> into) const {
  const Block* block = nullptr;
  uint64_t block_at = UINT64_MAX;
  for_each_part(address, into.size(), kPageBytes, [&](uint64_t at, uint64_t done, uint64_t length) {
    if (round_down(at, kBlockBytes) != block_at) {
      block_at = round_down(at, kBlockBytes);
      block = find(block_at);
      CHECK(block != nullptr);
    }
    const CopiedOnWrite<Page>& page = block->pages[at % kBlockBytes / kPageBytes];
    if (!page) {
      std::memset(into.data() + done, 0, length);
    } else {
      std::memcpy(into.data() + done, page->bytes.data() + at % kPageBytes, length);
    }
  });
}

void CrashImage::copy_from(const CrashImage& from, uint64_t address, uint64_t length_bytes) {
  for_each_part(address, length_bytes, kPageBytes, [&](uint64_t at, uint64_t, uint64_t length) {
    const uint64_t block = round_down(at, kBlockBytes);
    const Block* source = from.find(block);
    if (source == nullptr || find(block) == nullptr) return;
    const CopiedOnWrite<Page>& page = source->pages[at % kBlockBytes / kPageBytes];
    if (length == kPageBytes) {
      writable(block).pages[at % kBlockBytes / kPageBytes] = page;
      return;
    }
    static constexpr std::array<std::byte, kPageBytes> kZeros{};
    const std::byte* bytes = page ? page->bytes.data() : kZeros.data();
    write(at, {bytes + at % kPageBytes, length});
  });
}

bool CrashImage::shares_page(const CrashImage& other, uint64_t address) const {
  const Block* mine = find(round_down(address, kBlockBytes));
  const Block* others = other.find(round_down(address, kBlockBytes));
  const size_t page = address % kBlockBytes / kPageBytes;
  return mine != nullptr && others != nullptr && mine->pages[page] == others->pages[page];
}

std::vector<BlockAddress> CrashImage::blocks() const {
  std::vector<BlockAddress> blocks;
  for (const Entry& entry : blocks_) blocks.push_back(BlockAddress{entry.first});
  return blocks;
}

std::vector<BlockRange> CrashImage::ranges() const {
  std::vector<BlockRange> ranges;
  for (const Entry& entry : blocks_) {
    if (!ranges.empty() && raw(ranges.back().end()) == entry.first) {
      ++ranges.back().count;
    } else {
      ranges.push_back({BlockAddress{entry.first}, 1});
    }
  }
  return ranges;
}

uint64_t CrashImage::digest_of(const Block& block) {
  if (const uint64_t known = block.digest.value; known != 0) return known;
  uint64_t digest = 1;
  for (size_t i = 0; i < kPages; ++i) {
    const CopiedOnWrite<Page>& page = block.pages[i];
    if (!page) continue;
    uint64_t known = page->digest.value;
    if (known == 0)
      known = page->digest.value = is_zero(page->bytes) ? 1 : XXH3_64bits(page->bytes.data(), kPageBytes) | 2;
    if (known != 1) digest += XXH3_64bits_withSeed(&i, sizeof(i), known);
  }
  block.digest.value = digest;
  return digest;
}

uint64_t CrashImage::digest(BlockAddress block) const {
  const Block* found = find(raw(block));
  return found == nullptr ? 0 : digest_of(*found);
}

uint64_t CrashImage::digest() const {
  uint64_t digest = 0;
  for (const Entry& entry : blocks_) {
    digest = XXH3_64bits_withSeed(&entry.first, sizeof(entry.first), digest ^ digest_of(*entry.second));
  }
  return digest;
}

}  // namespace brickfs
