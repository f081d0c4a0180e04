// SPDX-License-Identifier: Apache-2.0
#include "server/service/server_session.h"

#include <algorithm>
#include <array>
#include <optional>

#include "server/service/server_limits.h"
#include "server/service/volume_table.h"
#include "transport/base/log.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

constexpr int kTakings = 8;  // from followers, who may map again what was taken
constexpr BlockRange kAllBlocks{BlockAddress{0}, UINT64_MAX / kBlockBytes};
constexpr std::chrono::seconds kPinPatience{2};  // then whoever keeps a pin of a revoked handle is cut off

}  // namespace

ServerSession::ServerSession(Fixed fixed, BlockStore& blocks, VolumeTable& volumes)
    : fixed_(std::move(fixed)),
      blocks_(blocks),
      volumes_(volumes),
      handles_(limits::kMappingsOfFrame * blocks.memory_blocks() + limits::kBlocksPerCall) {
  touch();
}

// A call under way: the session's end waits for it. ESTALE if that has begun.
class ServerSession::Call {
 public:
  enum class Whose { kPeers, kOthers };  // others' is no sign of life
  explicit Call(ServerSession& session, Whose whose = Whose::kPeers) : session_(session), whose_(whose) {
    MutexLock lock(session_.mutex_);
    admitted_ = !session_.ended_.load();
    if (admitted_) ++session_.calls_;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (!admitted_) return;
    if (whose_ == Whose::kPeers) session_.touch();
    MutexLock lock(session_.mutex_);
    if (--session_.calls_ == 0) session_.changed_.notify_all();
  }
  Status admitted() const { return admitted_ ? Status() : Error(ESTALE, "the session has ended"); }

 private:
  ServerSession& session_;
  const Whose whose_;
  bool admitted_ = false;
};

Result<calls::Answer> ServerSession::call(const calls::Request& request, const Abandoned& abandoned) {
  TRY(calls::check(request));
  if (!std::holds_alternative<calls::Renew>(request)) counters_.called();
  const auto of_remote = [&]() -> Result<calls::Answer> {
    if (fixed_.peer.remote == nullptr) return Error(EPROTO, "no such call");
    return fixed_.peer.remote->call(request);
  };
  return std::visit(calls::Overloaded{
                        [&](const calls::Commit& call) { return calls::to_answer(carry_out(call, abandoned)); },
                        [&](const calls::Expel& call) { return calls::to_answer(carry_out(call, abandoned)); },
                        [&](const calls::Renew&) {
                          touch();
                          return calls::to_answer(Status());
                        },
                        [&](const calls::Close&) { return calls::to_answer(close()); },
                        [&](const calls::QueuePair&) { return of_remote(); },
                        [&](const calls::Endpoint&) { return of_remote(); },
                        [&](const calls::Detach&) { return of_remote(); },
                        [&](const calls::Keys&) { return of_remote(); },
                        [&](const auto& call) { return calls::to_answer(carry_out(call)); },
                    },
                    request);
}

// What concerns blocks.
Status ServerSession::check_may(bool needs_exclusive) const {
  if (fixed_.mode == OpenMode::kObserve) return Error(EACCES, "the session only observes");
  if (needs_exclusive && fixed_.mode != OpenMode::kExclusive) return Error(EACCES, "the session is for reading only");
  return {};
}

Status ServerSession::carry_out(const calls::Alloc& asked) {
  const Call call(*this);
  TRY(call.admitted());
  TRY(check_may(true));
  return blocks_.alloc(fixed_.volume, asked.blocks);
}

Status ServerSession::carry_out(const calls::Free& asked) {
  const Call call(*this);
  TRY(call.admitted());
  TRY(check_may(true));
  TRY(blocks_.check_allocated(fixed_.volume, asked.blocks));
  release(handles_.revoke(asked.blocks), AfterWriting::kStore, asked.blocks);
  return past_followers(asked.blocks, EBUSY, [&] { return blocks_.free(fixed_.volume, asked.blocks); });
}

// Who only follows is in nobody's way: what he has mapped is taken from him. One that is just mapping it is waited for,
// but not for ever.
template <typename Operation>
auto ServerSession::past_followers(BlockRange blocks, int in_the_way, Operation&& operation) -> decltype(operation()) {
  auto answer = operation();
  for (int i = 0; answer.code() == in_the_way && fixed_.mode == OpenMode::kExclusive && i < kTakings; ++i) {
    volumes_.take_from_followers(fixed_.volume, blocks);
    answer = operation();
  }
  return answer;
}

void ServerSession::take_back(BlockRange blocks) {
  const Call call(*this, Call::Whose::kOthers);
  if (call.admitted().ok()) release(handles_.revoke(blocks), AfterWriting::kStore, {}, Asked::kByOthers);
}

Result<calls::Mapped> ServerSession::carry_out(const calls::Map& asked) {
  const Call call(*this);
  TRY(call.admitted());
  const BlockRange blocks = asked.blocks;
  const Access access = asked.access;
  TRY(check_may(access == Access::kReadWrite && !fixed_.writes));
  TRY(handles_.check_room(blocks.count));
  const std::vector<std::byte*> memory =
      TRY(past_followers(kAllBlocks, ENOMEM, [&] { return blocks_.map(fixed_.volume, blocks, access); }));
  const RemoteAccess* const remote = fixed_.peer.remote.get();
  calls::Mapped mapped;
  for (uint64_t first = 0; first < blocks.count;) {
    const uint64_t most = remote == nullptr ? blocks.count : remote->reach(memory[first]) / kBlockBytes;
    uint64_t end = first + 1;
    while (end < blocks.count && end - first < most && memory[end] == memory[end - 1] + kBlockBytes) ++end;
    const auto handle = make_handle({block_after(blocks.start, first), end - first}, access, memory[first]);
    if (!handle.ok()) {
      blocks_.unmap(fixed_.volume, {block_after(blocks.start, first), blocks.count - first}, access,
                    AfterWriting::kStore);
      for (const Handle& made : mapped.handles) {
        const auto revoked = handles_.revoke_one(made.remote_key);
        if (revoked) release(std::array{*revoked}, AfterWriting::kStore);  // else somebody has unmapped it meanwhile
      }
      return handle.error();
    }
    mapped.handles.push_back(*handle);
    first = end;
  }
  if (remote != nullptr) remote->add_keys(mapped);
  return mapped;
}

Result<Handle> ServerSession::make_handle(BlockRange blocks, Access access, std::byte* memory) {
  RemoteAccess* const remote = fixed_.peer.remote.get();
  std::optional<uint32_t> key;
  if (remote != nullptr) key = TRY(remote->grant({memory, blocks.count * kBlockBytes}, access));
  auto handle = handles_.add(blocks, access, memory, key);
  if (!handle.ok() && key) remote->revoke(std::array{*key});
  return handle;
}

Status ServerSession::carry_out(const calls::Unmap& asked) {
  const Call call(*this);
  TRY(call.admitted());
  TRY(check_may(false));
  TRY(blocks_.check_allocated(fixed_.volume, asked.blocks));
  release(handles_.revoke(asked.blocks), AfterWriting::kStore);
  return {};
}

Result<ListPage> ServerSession::carry_out(const calls::List& asked) {
  const Call call(*this);
  TRY(call.admitted());
  return blocks_.list(fixed_.volume, asked.cursor);
}

Status ServerSession::carry_out(const calls::Commit& asked, const Abandoned& abandoned) {
  const Call call(*this);
  TRY(call.admitted());
  if (fixed_.mode != OpenMode::kExclusive) return Error(EACCES, "the session is not for writing");
  const auto gone = [&] { return ended_.load() || (abandoned && abandoned()); };
  const Status committed = blocks_.commit(fixed_.volume, asked.ranges, gone);
  if (!committed.ok() && committed.error().is(ECANCELED)) return Error(ESTALE, "the session has ended");
  TRY(committed);
  uint64_t bytes = 0;
  for (const CommitRange& range : asked.ranges) bytes += range.length_bytes;
  counters_.committed(bytes);
  return {};
}

Result<BrickStat> ServerSession::carry_out(const calls::Stat&) {
  const Call call(*this);
  TRY(call.admitted());
  BrickStat stat;
  const bool of_others = !fixed_.peer.key();  // a tenant sees what is its own
  blocks_.fill_stat(fixed_.volume, stat);
  volumes_.fill_stat(fixed_.volume, of_others, stat);
  if (!of_others) {
    stat.brick_capacity_blocks = stat.volume_capacity_blocks;
    stat.brick_used_blocks = stat.volume_used_blocks;
    stat.resident_blocks = blocks_.usage(fixed_.volume).resident;
    counters_.fill(stat);
  }
  stat.boot = fixed_.description.boot;
  stat.durability = fixed_.description.durability;
  return stat;
}

Status ServerSession::carry_out(const calls::Notify& asked) {
  const Call call(*this);
  TRY(call.admitted());
  TRY(check_may(false));
  fixed_.notices->notify(asked.tag, asked.value);
  return {};
}

// Not a Call: the session's end does not wait for it, but ends it, and its client may be silent meanwhile or not.
Result<calls::Notices> ServerSession::carry_out(const calls::Wait& asked) {
  TRY(check_may(false));
  calls::Notices told{fixed_.notices->wait(asked.seen, std::chrono::steady_clock::now() + asked.patience, ended_)};
  if (ended_.load()) return Error(ESTALE, "the session has ended");
  return told;
}

Status ServerSession::carry_out(const calls::Admit& asked) {
  const Call call(*this);
  TRY(call.admitted());
  TRY(check_may(true));
  return volumes_.admit(*this, asked.client);
}

Status ServerSession::carry_out(const calls::Expel& asked, const Abandoned& abandoned) {
  const Call call(*this);
  TRY(call.admitted());
  TRY(check_may(true));
  return volumes_.expel(*this, asked.client, [&] { return ended_.load() || (abandoned && abandoned()); });
}

Status ServerSession::close() {
  if (!end(AfterWriting::kStore)) return Error(ESTALE, "the session has ended");
  return volumes_.leave(*this, true);
}

// Who ends it already sees to the rest; until he has, who comes next waits for him.
void ServerSession::disconnect() {
  if (end(AfterWriting::kSuspect)) static_cast<void>(volumes_.leave(*this, false));  // writes nothing
}

bool ServerSession::silent_for(std::chrono::milliseconds limit, std::chrono::steady_clock::time_point now) const {
  {
    MutexLock lock(mutex_);
    if (calls_ > 0) return false;
  }
  const std::chrono::steady_clock::time_point heard{
      std::chrono::steady_clock::duration(heard_.load(std::memory_order_relaxed))};
  return now - heard > limit;
}

// Waits for the pins of revoked handles, revokes the device's grants, and unmaps the blocks; those in `doomed` are
// about to be freed.
void ServerSession::release(std::span<const HandleTable::Revoked> revoked, AfterWriting after, BlockRange doomed,
                            Asked asked) {
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
    asked == Asked::kByPeer ? fixed_.peer.remote->revoke(keys) : fixed_.peer.remote->take_away(keys);
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

void ServerSession::unmap_part(BlockAddress start, BlockAddress end, Access access, AfterWriting after) {
  if (start < end) blocks_.unmap(fixed_.volume, {start, (raw(end) - raw(start)) / kBlockBytes}, access, after);
}

bool ServerSession::begin_end() {
  {
    MutexLock lock(mutex_);
    if (ended_.exchange(true)) return false;
  }
  fixed_.notices->wake_all();
  return true;
}

void ServerSession::finish_end(AfterWriting after) {
  MutexLock lock(mutex_);
  while (calls_ > 0) changed_.wait(lock);
  lock.unlock();
  release(handles_.revoke_all(), after);
  lock.lock();
  end_finished_ = true;
  changed_.notify_all();
}

bool ServerSession::end(AfterWriting after) {
  if (!begin_end()) return false;
  finish_end(after);
  return true;
}

bool ServerSession::fence(const Abandoned& abandoned) {
  if (begin_end()) {
    cut_off();
    finish_end(AfterWriting::kSuspect);
  }
  MutexLock lock(mutex_);
  while (!end_finished_) {
    if (abandoned()) return false;
    changed_.wait_for(lock, limits::kPeerLook);
  }
  return true;
}

}  // namespace brickfs
