// SPDX-License-Identifier: Apache-2.0
// The bytes of a volume's blocks, in small pages that copies share until one of them writes: a crash state costs what
// it differs in. A page that is zero costs nothing. Threads: a copy may be changed by one thread while others change
// theirs; one object is one thread's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/copied_on_write.h"
#include "transport/brick/block.h"

namespace brickfs {

class CrashImage {
 public:
  static constexpr size_t kPageBytes = 4096;

  bool contains(BlockAddress block) const { return find(raw(block)) != nullptr; }
  bool contains_any(BlockRange blocks) const;
  bool contains_all(BlockRange blocks) const;
  void add(BlockAddress block);     // zeros; replaces what was there
  void remove(BlockAddress block);  // nothing if it is not there

  // Within blocks that are there; reads and writes may cross from one to its neighbour.
  void write(uint64_t address, std::span<const std::byte> bytes);
  void read(uint64_t address, std::span<std::byte> into) const;
  // The bytes that `from` has there; only of blocks that both have.
  void copy_from(const CrashImage& from, uint64_t address, uint64_t length_bytes);

  // True: the pages there are equal, and it costs nothing to say so. False also where one has no such block.
  bool shares_page(const CrashImage& other, uint64_t address) const;

  std::vector<BlockAddress> blocks() const;  // ascending
  std::vector<BlockRange> ranges() const;    // ascending, maximal
  uint64_t block_count() const { return blocks_.size(); }
  // Of one block's bytes, and of all: equal images have equal digests.
  uint64_t digest(BlockAddress block) const;
  uint64_t digest() const;

 private:
  static constexpr size_t kPages = kBlockBytes / kPageBytes;
  // Found out by any owner of a page or block. 0: not known.
  struct KnownDigest {
    KnownDigest() = default;
    KnownDigest(const KnownDigest& other) : value(other.value.load()) {}
    KnownDigest& operator=(const KnownDigest& other) {
      value = other.value.load();
      return *this;
    }
    std::atomic<uint64_t> value{0};
  };
  struct Page {
    std::array<std::byte, kPageBytes> bytes{};
    mutable KnownDigest digest;
  };
  struct Block {
    std::array<CopiedOnWrite<Page>, kPages> pages;  // of nothing: zeros
    mutable KnownDigest digest;
  };
  using Entry = std::pair<uint64_t, CopiedOnWrite<Block>>;

  const Block* find(uint64_t block) const;
  Block& writable(uint64_t block);
  static uint64_t digest_of(const Block& block);

  std::vector<Entry> blocks_;  // ascending
};

}  // namespace brickfs
