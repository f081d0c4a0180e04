// SPDX-License-Identifier: Apache-2.0
#include "server/service/embedded_brick.h"

#include <cstring>
#include <thread>
#include <utility>

#include "transport/base/current.h"
#include "transport/base/mutex.h"
#include "transport/brick/limits.h"

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
  Result<calls::Answer> call(const calls::Request& request) override;
  Result<RegisteredMemory> register_memory(std::span<std::byte>) override { return RegisteredMemory(1, nullptr); }
  void submit(Batch& batch) override;
  Status wait(Batch& batch) override;
  void set_on_lost(std::function<void(Error)> callback) override { notice_->set(std::move(callback)); }

 private:
  static Error no_session() { return Error(ENOTCONN, "no session is open"); }

  const std::shared_ptr<BrickService> service_;
  const std::shared_ptr<LossNotice> notice_ = std::make_shared<LossNotice>();
  Current<ServerSession, SessionPtr> session_;
};

Result<calls::Answer> EmbeddedBrick::call(const calls::Request& request) {
  if (calls::is_of_session(request)) return Error(EINVAL, "a call of the two ends of a session");
  const Current<ServerSession, SessionPtr>::Guard session(session_);
  if (!session) return no_session();
  auto answer = session->call(request);
  if (!answer.ok()) return answer;
  if (auto* const stat = std::get_if<BrickStat>(&*answer)) stat->transport = "embedded";
  return answer;
}

Result<Session> EmbeddedBrick::open(const OpenRequest& request, Holder* holder) {
  abandon();
  auto opened = TRY(service_->open_session(
      request, [notice = notice_] { notice->tell(); }, holder));
  Session description = opened->description();
  description.transport = "embedded";
  description.notifications = true;
  description.writing_followers = true;
  session_.put(std::move(opened));
  return description;
}

void EmbeddedBrick::abandon() {
  if (session_.get() == nullptr) return;
  session_.hide();
  session_.get()->disconnect();
  session_.take_away();
}

Status EmbeddedBrick::close() {
  if (session_.get() == nullptr) return no_session();
  session_.hide();
  const Status status = session_.get()->close();
  session_.take_away();
  return status;
}

Status copy(ServerSession& session, const Transfer& transfer) {
  if (const int code = check_transfer(transfer)) return Error(code, "an impossible transfer");
  const bool writes = transfer.direction == Direction::kWrite;
  const Pin pin = TRY(session.pin(transfer.handle.remote_key, transfer.handle.remote_address + transfer.offset,
                                  length_of(transfer), writes ? Access::kReadWrite : Access::kRead));
  std::byte* remote = pin.bytes().data();
  for (const LocalSlice& slice : transfer.local) {
    if (slice.length_bytes == 0) continue;
    if (writes) {
      std::memcpy(remote, slice.data, slice.length_bytes);
    } else {
      std::memcpy(slice.data, remote, slice.length_bytes);
    }
    remote += slice.length_bytes;
  }
  return {};
}

void EmbeddedBrick::submit(Batch& batch) {
  const size_t count = batch.transfers.size();
  batch.begin(count == 0 || count > limits::kTransfersPerBatch ? 1 : count);
  if (count == 0 || count > limits::kTransfersPerBatch) {
    batch.finish_one(count == 0 ? 0 : EINVAL);
    return;
  }
  const Current<ServerSession, SessionPtr>::Guard session(session_);
  for (size_t i = 0; i < count; ++i) {  // the last finish_one() may be the batch's end
    batch.finish_one(session ? copy(*session, batch.transfers[i]).code() : ENOTCONN);
  }
}

// submit() has done all of it; only another thread than that may have to wait.
Status EmbeddedBrick::wait(Batch& batch) {
  while (!batch.complete()) std::this_thread::yield();
  return batch.status();
}

}  // namespace

std::unique_ptr<Brick> make_embedded_brick(std::shared_ptr<BrickService> service) {
  return std::make_unique<EmbeddedBrick>(std::move(service));
}

}  // namespace brickfs
