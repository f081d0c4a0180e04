// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/joint_transfer.h"

#include <deque>
#include <variant>

#include "fs/operations/file_change.h"
#include "fs/operations/file_read.h"

namespace brickfs {

struct Filesystem::JointTransfer::State {
  struct Write {
    Write(const State& state, Ino ino, uint64_t length, bool is_mapped)
        : change(state.fs, ino, state.context), bytes(length), mapped(is_mapped) {}
    Impl::FileChange change;
    uint64_t bytes;
    bool mapped;
  };

  State(Impl& impl, const OperationContext& context_of_all) : fs(impl), context(context_of_all) {}
  bool begin(Ino ino, uint64_t offset, const LocalSlice& from, bool mapped, bool may_have_set_id_bits);

  Impl& fs;
  const OperationContext context;
  std::deque<std::variant<Impl::FileRead, Write>> begun;  // which stay where they are
  PieceList to_read;
  PieceList to_write;
};

Filesystem::JointTransfer::JointTransfer(Filesystem& filesystem, const OperationContext& context)
    : state_(std::make_unique<State>(*filesystem.impl_, context)) {}

Filesystem::JointTransfer::~JointTransfer() = default;

size_t Filesystem::JointTransfer::size() const { return state_->begun.size(); }

bool Filesystem::JointTransfer::begin_read(Ino ino, uint64_t offset, const LocalSlice& into, Touch touch) {
  auto& read = std::get<Impl::FileRead>(
      state_->begun.emplace_back(std::in_place_type<Impl::FileRead>, state_->fs, ino, offset, touch));
  if (read.try_begin(std::span(&into, 1), state_->to_read)) return true;
  state_->begun.pop_back();
  return false;
}

bool Filesystem::JointTransfer::State::begin(Ino ino, uint64_t offset, const LocalSlice& from, bool mapped,
                                             bool may_have_set_id_bits) {
  if (from.length_bytes == 0 || fs.read_only || !fs.journal->admits()) return false;
  auto& write = std::get<Write>(begun.emplace_back(std::in_place_type<Write>, *this, ino, from.length_bytes, mapped));
  if (write.change.try_lock_within(offset, from.length_bytes) &&
      (may_have_set_id_bits || !write.change.has_set_id_bits()) &&
      fs.plan_overwrite(write.change, std::span(&from, 1), to_write)) {
    return true;
  }
  begun.pop_back();
  return false;
}

bool Filesystem::JointTransfer::begin_write(Ino ino, uint64_t offset, const LocalSlice& from, bool mapped) {
  return state_->begin(ino, offset, from, mapped, true);
}

bool Filesystem::JointTransfer::begin_overwrite(Ino ino, uint64_t offset, const LocalSlice& from) {
  return state_->begin(ino, offset, from, false, false);
}

Status Filesystem::JointTransfer::move() {
  const Interruption* const by = state_->context.interruption;
  if (!state_->to_read.empty()) TRY(state_->fs.volume->read(state_->to_read.pieces(), by));
  if (!state_->to_write.empty()) TRY(state_->fs.volume->write(state_->to_write.pieces(), Stage::kData, by));
  return {};
}

Status Filesystem::JointTransfer::try_move() {
  if (!state_->to_read.empty()) TRY(state_->fs.volume->try_read(state_->to_read.pieces()));
  if (!state_->to_write.empty()) TRY(state_->fs.volume->try_write(state_->to_write.pieces()));
  return {};
}

Result<uint64_t> Filesystem::JointTransfer::result(size_t i) {
  auto& begun = state_->begun[i];
  if (auto* const read = std::get_if<Impl::FileRead>(&begun)) return read->finish();
  State::Write& write = std::get<State::Write>(begun);
  TRY(state_->fs.record_overwrite(write.change, write.mapped));
  return write.bytes;
}

}  // namespace brickfs
