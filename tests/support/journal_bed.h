// SPDX-License-Identifier: Apache-2.0
// A journal on a model brick, with the real volume client and the real space around it, that can be abandoned and read
// again.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fs/persistence/journal.h"
#include "fs/persistence/superblock.h"
#include "fs/space/space.h"
#include "tests/support/model_brick.h"
#include "tests/support/row_text.h"

namespace brickfs {

struct JournalBed {
  static constexpr uint64_t kSeed = 0x5eed;
  static constexpr BlockAddress kFirstBlock{kBlockBytes};

  explicit JournalBed(Durability durability = Durability::kDurable, uint64_t capacity_blocks = 64)
      : medium(std::make_shared<ModelMedium>(durability, capacity_blocks)) {
    open();
    EXPECT_TRUE(volume->alloc({BlockAddress{0}, 2}).ok());
    EXPECT_TRUE(volume->commit().ok());
    end.fresh = kFirstBlock;
  }
  ~JournalBed() { abandon(); }
  JournalBed(const JournalBed&) = delete;
  JournalBed& operator=(const JournalBed&) = delete;

  void open() { volume = open_model_volume(medium); }
  // As if the process had crashed.
  void abandon() {
    if (volume) volume->interrupt();
    journal.reset();
    space.reset();
    volume.reset();
  }
  // What is there, into `text` and `end`.
  void read(RowText& text) {
    const auto listed = volume->list();
    ASSERT_TRUE(listed.ok());
    const auto found = read_journal(*volume, kSeed, Lsn{1}, kFirstBlock, *listed, text);
    ASSERT_TRUE(found.ok()) << found.error().what();
    end = *found;
  }
  // Goes on at `end`. Frees what is not the journal's, as a mount does.
  Status start(Journal::Hooks hooks = {}) {
    std::vector<BlockRange> kept = {kSuperblockBlock};
    for (const BlockAddress block : end.chain) kept.push_back({block, 1});
    kept.push_back({end.fresh, 1});
    space = std::make_unique<Space>(*volume);
    for (const BlockRange& block : kept) TRY(space->adopt_metadata(block));
    for (const BlockRange& range : TRY(volume->list())) {
      for (uint64_t i = 0; i < range.count; ++i) {
        const BlockRange block{block_after(range.start, i), 1};
        if (std::find(kept.begin(), kept.end(), block) == kept.end()) TRY(volume->free(block));
      }
    }
    std::sort(kept.begin(), kept.end(), [](const BlockRange& a, const BlockRange& b) { return a.start < b.start; });
    journal = std::make_unique<Journal>(*volume, *space);
    TRY(space->start(
        kept, {},
        {[this] { return journal->durable(); }, [this](const Interruption* by) { return journal->sync(by); }}));
    return journal->start(kSeed, end, std::move(hooks));
  }
  // A transaction that says its number, `bytes` long or a little more.
  Lsn append(uint64_t number, size_t bytes = 0, WakeLater* later = nullptr) {
    Transaction rows;
    rows.put_orphan(Ino{number});
    const std::vector<std::byte> value(std::min<size_t>(bytes, 60'000));
    for (uint64_t i = 1; rows.bytes().size() < bytes; ++i) rows.put(XattrRow{Ino{i}, "user.x", value});
    return journal->append(rows, later);
  }
  // The numbers in `text`.
  static std::vector<uint64_t> numbers(const RowText& text) {
    std::vector<uint64_t> numbers;
    for (const std::string& line : text.lines) {
      if (line.starts_with("orphan ")) numbers.push_back(std::stoull(line.substr(7)));
    }
    return numbers;
  }
  static std::vector<uint64_t> up_to(uint64_t last) {
    std::vector<uint64_t> numbers;
    for (uint64_t i = 1; i <= last; ++i) numbers.push_back(i);
    return numbers;
  }
  // Abandons, opens and reads; the numbers found.
  std::vector<uint64_t> read_again() {
    abandon();
    open();
    RowText text;
    read(text);
    return numbers(text);
  }

  std::shared_ptr<ModelMedium> medium;
  std::unique_ptr<VolumeSet> volume;
  std::unique_ptr<Space> space;
  std::unique_ptr<Journal> journal;
  JournalEnd end;
};

}  // namespace brickfs
