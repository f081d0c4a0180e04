// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/joint_transfer.h"

#include <deque>
#include <variant>

#include "fs/operations/file_change.h"
#include "fs/operations/file_read.h"

namespace brickfs {

class Filesystem::Impl::JointTransfer final : public brickfs::JointTransfer {
 public:
  JointTransfer(Impl& impl, const OperationContext& context) : fs_(impl), context_(context) {}

  bool begin_read(Ino ino, uint64_t offset, const LocalSlice& into, Touch touch) override;
  bool begin_write(Ino ino, uint64_t offset, const LocalSlice& from, bool mapped) override {
    return begin(ino, offset, from, mapped, true);
  }
  bool begin_overwrite(Ino ino, uint64_t offset, const LocalSlice& from) override {
    return begin(ino, offset, from, false, false);
  }
  size_t size() const override { return begun_.size(); }
  Status move() override;
  Status try_move() override;
  Result<uint64_t> result(size_t i) override;

 private:
  struct Write {
    Write(const JointTransfer& of, Ino ino, uint64_t length, bool is_mapped)
        : change(of.fs_, ino, of.context_), bytes(length), mapped(is_mapped) {}
    FileChange change;
    uint64_t bytes;
    bool mapped;
  };

  bool begin(Ino ino, uint64_t offset, const LocalSlice& from, bool mapped, bool may_have_set_id_bits);

  Impl& fs_;
  const OperationContext context_;
  std::deque<std::variant<FileRead, Write>> begun_;  // which stay where they are
  PieceList to_read_;
  PieceList to_write_;
};

bool Filesystem::Impl::JointTransfer::begin_read(Ino ino, uint64_t offset, const LocalSlice& into, Touch touch) {
  auto& read = std::get<FileRead>(begun_.emplace_back(std::in_place_type<FileRead>, fs_, ino, offset, touch));
  if (read.try_begin(std::span(&into, 1), to_read_)) return true;
  begun_.pop_back();
  return false;
}

bool Filesystem::Impl::JointTransfer::begin(Ino ino, uint64_t offset, const LocalSlice& from, bool mapped,
                                            bool may_have_set_id_bits) {
  if (from.length_bytes == 0 || fs_.read_only || !fs_.journal->admits()) return false;
  auto& write = std::get<Write>(begun_.emplace_back(std::in_place_type<Write>, *this, ino, from.length_bytes, mapped));
  if (write.change.try_lock_within(offset, from.length_bytes) &&
      (may_have_set_id_bits || !write.change.has_set_id_bits()) &&
      fs_.plan_overwrite(write.change, std::span(&from, 1), to_write_)) {
    return true;
  }
  begun_.pop_back();
  return false;
}

Status Filesystem::Impl::JointTransfer::move() {
  const Interruption* const by = context_.interruption;
  if (!to_read_.empty()) TRY(fs_.volume->read(to_read_.pieces(), by));
  if (!to_write_.empty()) TRY(fs_.volume->write(to_write_.pieces(), Stage::kData, by));
  return {};
}

Status Filesystem::Impl::JointTransfer::try_move() {
  if (!to_read_.empty()) TRY(fs_.volume->try_read(to_read_.pieces()));
  if (!to_write_.empty()) TRY(fs_.volume->try_write(to_write_.pieces()));
  return {};
}

Result<uint64_t> Filesystem::Impl::JointTransfer::result(size_t i) {
  if (auto* const read = std::get_if<FileRead>(&begun_[i])) return read->finish();
  Write& write = std::get<Write>(begun_[i]);
  TRY(fs_.record_overwrite(write.change, write.mapped));
  return write.bytes;
}

std::unique_ptr<JointTransfer> Filesystem::joint_transfer(const OperationContext& context) {
  return std::make_unique<Impl::JointTransfer>(*impl_, context);
}

}  // namespace brickfs
