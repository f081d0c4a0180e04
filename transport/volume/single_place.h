// SPDX-License-Identifier: Apache-2.0
// A place on one brick: everything goes through.
#pragma once

#include <memory>
#include <utility>

#include "transport/volume/place.h"

namespace brickfs {

class SinglePlace final : public Place {
 public:
  explicit SinglePlace(std::unique_ptr<VolumeClient> volume)
      : volume_(std::move(volume)),
        boot_(volume_->session().boot),
        suspect_blocks_(volume_->session().suspect_blocks) {}

  VolumeClient& first() const override { return *volume_; }
  Session session() const override { return volume_->session(); }
  LinkState link_state() const override { return volume_->link_state(); }
  bool is_away() const override { return volume_->is_away(); }
  Status final_error() const override { return volume_->final_error(); }
  LatencyCounts counts(VolumeCall call) const override { return volume_->counters().counts(call); }

  Status alloc(BlockRange blocks) override { return volume_->alloc(blocks); }
  Status free(BlockRange blocks) override { return volume_->free(blocks); }
  Result<std::vector<BlockRange>> list() override { return volume_->list(); }
  Result<BrickStat> stat() override { return volume_->stat(); }
  void map_ahead(BlockRange blocks) override { volume_->map_ahead(blocks); }
  std::vector<std::string> full_bricks() override;

  std::vector<ReadableBrick> readable() override {
    if (!volume_->make_visible().ok()) return {};
    const Session session = volume_->session();
    return {{"", session.boot, session.epoch}};
  }

  Status read(std::span<const Piece> pieces, const Interruption* by) override { return volume_->read(pieces, by); }
  Status write(std::span<const Piece> pieces, Stage stage, const Interruption* by) override {
    return volume_->write(pieces, stage, by);
  }
  Status try_read(std::span<const Piece> pieces) override { return volume_->try_read(pieces); }
  Status try_write(std::span<const Piece> pieces) override { return volume_->try_write(pieces); }

  Status begin_lending(BlockRange, ClientId to, const Interruption* by) override { return volume_->admit(to, by); }
  void end_lending(BlockRange) override {}
  Status adopt(std::span<const LentRange> ranges, std::span<const ReadableBrick> bricks,
               const std::shared_ptr<LentBytes>& bytes, const Interruption* by) override {
    if (bricks.size() != 1 || !bricks[0].source.empty()) return Error(EAGAIN, "another brick was written to");
    return volume_->adopt(ranges, bricks[0].boot, bricks[0].epoch, bytes, by);
  }
  Status expel(ClientId client) override { return volume_->expel(client); }

  Status commit(const Interruption* by) override { return volume_->commit(by); }
  bool is_clean() const override { return volume_->is_clean(); }
  uint64_t uncommitted_bytes() const override { return volume_->uncommitted_bytes(); }

  bool is_settled() const override { return true; }
  void stay_unsettled() override {}
  uint64_t suspect_blocks() const override { return suspect_blocks_; }
  Status settle(std::span<const BlockRange> data, std::span<const BlockRange> journal,
                std::span<const BlockRange> superblock) override;
  Status clear_torn_commit_record() override;

  void give_up_silent(std::chrono::milliseconds silence) override { volume_->give_up_silent(silence); }
  void give_up_outage() override { volume_->give_up_outage(); }
  void interrupt() override { volume_->interrupt(); }
  void expect_no_restart() override { volume_->expect_no_restart(); }
  void abandon() override { volume_->abandon(); }
  Status close() override { return volume_->close(); }

 private:
  const std::unique_ptr<VolumeClient> volume_;
  const BootId boot_;  // in which it was opened
  const uint64_t suspect_blocks_;
};

}  // namespace brickfs
