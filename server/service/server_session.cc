// SPDX-License-Identifier: Apache-2.0
#include "server/service/server_session.h"

#include <algorithm>
#include <array>
#include <optional>

#include "server/service/server_limits.h"
#include "transport/base/log.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

constexpr std::chrono::seconds kPinPatience{2};  // then whoever keeps a pin of a revoked handle is cut off

}  // namespace

SessionState::SessionState(Fixed fixed, BlockStore& blocks)
    : fixed_(std::move(fixed)),
      blocks_(blocks),
      handles_(limits::kMappingsOfFrame * blocks.memory_blocks() + limits::kBlocksPerCall) {
  touch();
}

// A call under way: the session's end waits for it. ESTALE if that has begun.
class SessionState::Call {
 public:
  explicit Call(SessionState& session) : session_(session) {
    MutexLock lock(session_.mutex_);
    admitted_ = !session_.ended_.load();
    if (admitted_) ++session_.calls_;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (!admitted_) return;
    session_.touch();
    MutexLock lock(session_.mutex_);
    if (--session_.calls_ == 0) session_.changed_.notify_all();
  }
  Status admitted() const { return admitted_ ? Status() : Error(ESTALE, "the session has ended"); }

 private:
  SessionState& session_;
  bool admitted_ = false;
};

Status SessionState::check(BlockRange blocks, bool needs_exclusive) const {
  if (!is_valid(blocks) || blocks.count > limits::kBlocksPerCall) return Error(EINVAL, "an impossible range of blocks");
  if (fixed_.mode == OpenMode::kObserve) return Error(EACCES, "the session only observes");
  if (needs_exclusive && fixed_.mode != OpenMode::kExclusive) return Error(EACCES, "the session is for reading only");
  return {};
}

Status SessionState::alloc(BlockRange blocks) {
  const Call call(*this);
  TRY(call.admitted());
  TRY(check(blocks, true));
  return blocks_.alloc(fixed_.volume, blocks);
}

Status SessionState::free(BlockRange blocks) {
  const Call call(*this);
  TRY(call.admitted());
  TRY(check(blocks, true));
  TRY(blocks_.check_allocated(fixed_.volume, blocks));
  release(handles_.revoke(blocks), AfterWriting::kStore, blocks);
  return blocks_.free(fixed_.volume, blocks);
}

Result<std::vector<Handle>> SessionState::map(BlockRange blocks, Access access) {
  const Call call(*this);
  TRY(call.admitted());
  if (access != Access::kRead && access != Access::kReadWrite) return Error(EINVAL, "an unknown access");
  TRY(check(blocks, access == Access::kReadWrite));
  TRY(handles_.check_room(blocks.count));
  const std::vector<std::byte*> memory = TRY(blocks_.map(fixed_.volume, blocks, access));
  std::vector<Handle> handles;
  for (uint64_t first = 0; first < blocks.count;) {
    const RemoteAccess* const remote = fixed_.peer.remote.get();
    const uint64_t most = remote == nullptr ? blocks.count : remote->reach(memory[first]) / kBlockBytes;
    uint64_t end = first + 1;
    while (end < blocks.count && end - first < most && memory[end] == memory[end - 1] + kBlockBytes) ++end;
    const auto handle = make_handle({block_after(blocks.start, first), end - first}, access, memory[first]);
    if (!handle.ok()) {
      blocks_.unmap(fixed_.volume, {block_after(blocks.start, first), blocks.count - first}, access,
                    AfterWriting::kStore);
      for (const Handle& made : handles) {
        release(std::array{handles_.revoke_one(made.remote_key)}, AfterWriting::kStore);
      }
      return handle.error();
    }
    handles.push_back(*handle);
    first = end;
  }
  return handles;
}

Result<Handle> SessionState::make_handle(BlockRange blocks, Access access, std::byte* memory) {
  RemoteAccess* const remote = fixed_.peer.remote.get();
  std::optional<uint32_t> key;
  if (remote != nullptr) key = TRY(remote->grant({memory, blocks.count * kBlockBytes}, access));
  auto handle = handles_.add(blocks, access, memory, key);
  if (!handle.ok() && key) remote->revoke(std::array{*key});
  return handle;
}

Status SessionState::unmap(BlockRange blocks) {
  const Call call(*this);
  TRY(call.admitted());
  TRY(check(blocks, false));
  TRY(blocks_.check_allocated(fixed_.volume, blocks));
  release(handles_.revoke(blocks), AfterWriting::kStore);
  return {};
}

Result<ListPage> SessionState::list(BlockAddress cursor) {
  const Call call(*this);
  TRY(call.admitted());
  if (raw(cursor) % kBlockBytes != 0) return Error(EINVAL, "a cursor that is no block address");
  return blocks_.list(fixed_.volume, cursor);
}

Status SessionState::commit(std::span<const CommitRange> ranges, const BlockStore::Abandoned& abandoned) {
  const Call call(*this);
  TRY(call.admitted());
  if (fixed_.mode != OpenMode::kExclusive) return Error(EACCES, "the session is not for writing");
  const auto gone = [&] { return ended_.load() || (abandoned && abandoned()); };
  const Status committed = blocks_.commit(fixed_.volume, ranges, gone);
  if (!committed.ok() && committed.error().is(ECANCELED)) return Error(ESTALE, "the session has ended");
  return committed;
}

Result<BrickStat> SessionState::stat() {
  const Call call(*this);
  TRY(call.admitted());
  BrickStat stat;
  blocks_.fill_stat(fixed_.volume, stat);
  return stat;
}

bool SessionState::silent_for(std::chrono::milliseconds limit) const {
  {
    MutexLock lock(mutex_);
    if (calls_ > 0) return false;
  }
  const std::chrono::steady_clock::time_point heard{
      std::chrono::steady_clock::duration(heard_.load(std::memory_order_relaxed))};
  return std::chrono::steady_clock::now() - heard > limit;
}

// Waits for the pins of revoked handles, revokes the device's grants, and unmaps the blocks; those in `doomed` are
// about to be freed.
void SessionState::release(std::span<const HandleTable::Revoked> revoked, AfterWriting after, BlockRange doomed) {
  const auto patience = std::chrono::steady_clock::now() + kPinPatience;
  for (const HandleTable::Revoked& handle : revoked) {
    if (handle.wait_until(patience)) continue;
    log::warn("{} does not let go of a block it has unmapped or lost: it is cut off", fixed_.holder.name);
    cut_off();
    handle.wait();
  }
  if (fixed_.peer.remote != nullptr && !revoked.empty()) {
    std::vector<uint32_t> keys;
    for (const HandleTable::Revoked& handle : revoked) keys.push_back(handle.key());
    fixed_.peer.remote->revoke(keys);
  }
  for (const HandleTable::Revoked& handle : revoked) {
    const BlockAddress start = handle.blocks().start;
    const BlockAddress end = handle.blocks().end();
    const BlockAddress doomed_start = std::clamp(doomed.start, start, end);
    const BlockAddress doomed_end = std::clamp(doomed.end(), start, end);
    unmap_part(start, doomed_start, handle.access(), after);
    unmap_part(doomed_start, doomed_end, handle.access(), AfterWriting::kDiscard);
    unmap_part(doomed_end, end, handle.access(), after);
  }
}

void SessionState::unmap_part(BlockAddress start, BlockAddress end, Access access, AfterWriting after) {
  if (start < end) blocks_.unmap(fixed_.volume, {start, (raw(end) - raw(start)) / kBlockBytes}, access, after);
}

bool SessionState::begin_end() {
  MutexLock lock(mutex_);
  return !ended_.exchange(true);
}

void SessionState::finish_end(AfterWriting after) {
  MutexLock lock(mutex_);
  while (calls_ > 0) changed_.wait(lock);
  lock.unlock();
  release(handles_.revoke_all(), after);
  lock.lock();
  end_finished_ = true;
  changed_.notify_all();
}

bool SessionState::end(AfterWriting after) {
  if (!begin_end()) return false;
  finish_end(after);
  return true;
}

void SessionState::fence() {
  if (begin_end()) {
    cut_off();
    finish_end(AfterWriting::kSuspect);
  }
  MutexLock lock(mutex_);
  while (!end_finished_) changed_.wait(lock);
}

}  // namespace brickfs
