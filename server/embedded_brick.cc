// SPDX-License-Identifier: Apache-2.0
#include "server/embedded_brick.h"

#include <cstring>
#include <utility>

#include "transport/base/mutex.h"
#include "transport/limits.h"

namespace brickfs {
namespace {

// Tells the owner, once a session, that it was fenced. Outlives the brick if a taker is just at it.
class LossNotice {
 public:
  void set(std::function<void(Error)> callback) {
    MutexLock lock(mutex_);
    callback_ = std::move(callback);
  }
  void tell() {
    MutexLock lock(mutex_);
    if (callback_) callback_(Error(ESTALE, "another has taken the volume over"));
  }

 private:
  Mutex mutex_;
  std::function<void(Error)> callback_ ABSL_GUARDED_BY(mutex_);
};

class EmbeddedBrick final : public Brick {
 public:
  explicit EmbeddedBrick(std::shared_ptr<BrickService> service) : service_(std::move(service)) {}
  ~EmbeddedBrick() override { notice_->set(nullptr); }

  Result<Session> open(const OpenRequest& request, Holder* holder) override;
  Status close() override;
  void abandon() override;
  Status alloc(BlockRange blocks) override { return TRY(session())->alloc(blocks); }
  Status free(BlockRange blocks) override { return TRY(session())->free(blocks); }
  Result<std::vector<Handle>> map(BlockRange blocks, Access access) override {
    return TRY(session())->map(blocks, access);
  }
  Status unmap(BlockRange blocks) override { return TRY(session())->unmap(blocks); }
  Result<ListPage> list(BlockAddress cursor) override { return TRY(session())->list(cursor); }
  Status commit(std::span<const CommitRange> ranges) override { return TRY(session())->commit(ranges); }
  Result<BrickStat> stat() override {
    BrickStat stat = TRY(TRY(session())->stat());
    stat.transport = "embedded";
    return stat;
  }
  Result<RegisteredMemory> register_memory(std::span<std::byte>) override { return RegisteredMemory(1, nullptr); }
  void submit(Batch& batch) override;
  Status wait(Batch& batch) override;
  void set_on_lost(std::function<void(Error)> callback) override { notice_->set(std::move(callback)); }

 private:
  Result<std::shared_ptr<ServerSession>> session() const;
  void finish_one(Batch& batch, bool waited_for, int code);

  const std::shared_ptr<BrickService> service_;
  const std::shared_ptr<LossNotice> notice_ = std::make_shared<LossNotice>();

  mutable SharedMutex session_mutex_;
  std::shared_ptr<ServerSession> session_ ABSL_GUARDED_BY(session_mutex_);  // null: none open

  Mutex complete_mutex_;
  CondVar complete_;  // some batch without a callback is
};

Result<std::shared_ptr<ServerSession>> EmbeddedBrick::session() const {
  SharedLock lock(session_mutex_);
  if (session_ == nullptr) return Error(ENOTCONN, "no session is open");
  return session_;
}

Result<Session> EmbeddedBrick::open(const OpenRequest& request, Holder* holder) {
  abandon();
  std::shared_ptr<ServerSession> opened = TRY(service_->open_session(
      request, [notice = notice_] { notice->tell(); }, holder));
  Session description = opened->description();
  description.transport = "embedded";
  ExclusiveLock lock(session_mutex_);
  session_ = std::move(opened);
  return description;
}

void EmbeddedBrick::abandon() {
  std::shared_ptr<ServerSession> former;
  {
    ExclusiveLock lock(session_mutex_);
    former.swap(session_);
  }
  if (former != nullptr) former->disconnect();
}

Status EmbeddedBrick::close() {
  std::shared_ptr<ServerSession> closing;
  {
    ExclusiveLock lock(session_mutex_);
    closing.swap(session_);
  }
  if (closing == nullptr) return Error(ENOTCONN, "no session is open");
  return closing->close();
}

// The bytes of a transfer, or why it is not one.
Result<uint64_t> transfer_bytes(const Transfer& transfer) {
  if (transfer.local.size() > limits::kSlicesPerTransfer) return Error(EINVAL, "too many slices in a transfer");
  uint64_t bytes = 0;
  for (const LocalSlice& slice : transfer.local) bytes += slice.length_bytes;
  const uint64_t handle_bytes = transfer.handle.blocks.count * kBlockBytes;
  if (bytes == 0 || bytes > limits::kTransferBytes || transfer.offset > handle_bytes ||
      bytes > handle_bytes - transfer.offset) {
    return Error(EINVAL, "an impossible transfer");
  }
  return bytes;
}

Status copy(ServerSession& session, const Transfer& transfer) {
  const uint64_t bytes = TRY(transfer_bytes(transfer));
  const bool writes = transfer.direction == Direction::kWrite;
  const auto pins = TRY(session.pin(transfer.handle.remote_key, transfer.handle.remote_address + transfer.offset, bytes,
                                    writes ? Access::kReadWrite : Access::kRead));
  auto pin = pins.begin();
  std::span<std::byte> remote = pin->bytes();
  for (const LocalSlice& slice : transfer.local) {
    for (size_t done = 0; done < slice.length_bytes;) {
      if (remote.empty()) remote = (++pin)->bytes();
      const size_t length = std::min<size_t>(slice.length_bytes - done, remote.size());
      if (writes) {
        std::memcpy(remote.data(), slice.data + done, length);
      } else {
        std::memcpy(slice.data + done, remote.data(), length);
      }
      remote = remote.subspan(length);
      done += length;
    }
  }
  return {};
}

void EmbeddedBrick::submit(Batch& batch) {
  const size_t count = batch.transfers.size();
  const bool waited_for = !batch.has_callback();
  batch.begin(count == 0 || count > limits::kTransfersPerBatch ? 1 : count);
  if (count == 0) return finish_one(batch, waited_for, 0);
  if (count > limits::kTransfersPerBatch) return finish_one(batch, waited_for, EINVAL);
  const auto open_session = session();
  for (size_t i = 0; i < count; ++i) {  // the last finish_one() may be the batch's end
    const int code = open_session.ok() ? copy(**open_session, batch.transfers[i]).code() : open_session.code();
    finish_one(batch, waited_for, code);
  }
}

void EmbeddedBrick::finish_one(Batch& batch, bool waited_for, int code) {
  if (!batch.finish_one(code) || !waited_for) return;
  MutexLock lock(complete_mutex_);
  complete_.notify_all();
}

Status EmbeddedBrick::wait(Batch& batch) {
  MutexLock lock(complete_mutex_);
  while (!batch.complete()) complete_.wait(lock);
  return batch.status();
}

}  // namespace

std::unique_ptr<Brick> make_embedded_brick(std::shared_ptr<BrickService> service) {
  return std::make_unique<EmbeddedBrick>(std::move(service));
}

}  // namespace brickfs
