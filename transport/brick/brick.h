// SPDX-License-Identifier: Apache-2.0
// The brick interface: a client's end of one volume on one brick. The contract that every transport (tcp, verbs) and
// the embedded brick fulfil; tests/transport/brick_contract_test.cc runs against each of them.
//
// A Brick is long-lived; a *session* on it begins with open() and ends with close(), the loss of the connection, or the
// loss of the lease. After a loss every call answers ENOTCONN (connection) or ESTALE (fenced: another holds the volume)
// until open() is called again; open() first makes sure that nothing of the old session is still under way, neither
// here (local buffers) nor on the brick (late writes).
//
// Shaped after verbs: local buffers are registered once, data moves in posted batches that complete out of order
// through handles which name remote memory and can die at any time.
//
// Threads: all calls may be made from any thread at once, except that open() and close() exclude each other.
// Errors common to all calls: ENOTCONN, ESTALE, ETIMEDOUT (the session is then lost too), EPROTO (the peer talks
// nonsense; the session is lost), EINVAL (arguments against the rules below), EACCES (not allowed in this mode).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "transport/base/result.h"
#include "transport/brick/block.h"
#include "transport/brick/calls.h"

namespace brickfs {

enum class OpenMode : uint32_t {
  kExclusive = 1,  // the one holder: every call
  kReadOnly = 2,   // one of many; map for reading, list, stat. Excludes an exclusive holder
  kObserve = 3,    // no lease at all: list and stat only
  kFollow = 4,     // no lease, beside whoever writes: map (for writing only with `writes`), list, stat, notifications
};

struct OpenRequest {
  std::string volume = "default";
  ClientId client{};
  std::string client_name;  // for people: "host (pid 123)", at most limits::kClientNameBytes
  OpenMode mode = OpenMode::kExclusive;
  bool steal = false;  // cut off a live holder
  // To come back after a lost connection: the epoch held before. ESTALE when the lease has gone to another since.
  Epoch resume{};
  // Of who follows: the holder with the epoch `resume`, and no other. ESTALE: there is another; who takes the lease
  // ends the session before he has it.
  bool bound = false;
  // Of who is bound: maps for writing, too. ESTALE: the holder has not admitted the client, or has expelled it
  // (calls::Admit, calls::Expel).
  bool writes = false;
  // The caller knows that this client, for whom the volume is kept (Holder::kept_for), has ended and will not come
  // back.
  ClientId ended{};
};

struct Session {
  Epoch epoch{};
  BootId boot{};
  Durability durability = Durability::kVolatile;
  uint64_t capacity_blocks = 0;  // the volume may allocate so many (its quota, or the brick's capacity)
  uint64_t memory_blocks = 0;    // the brick may have so many mapped at once, all volumes together
  // Blocks that a former holder could write to and may not have committed (durable bricks): what is read of them is
  // newer than what would survive the brick's crash, until they are named in a commit().
  uint64_t suspect_blocks = 0;
  uint16_t tcp_port = 0;                             // where the brick listens on TCP too; 0: nowhere
  std::chrono::milliseconds lease = limits::kLease;  // a client not heard of for so long is cut off
  bool notifications = false;                        // the brick knows them. Not told by the brick, but greeted with
  bool writing_followers = false;                    // the same
  // The client's side, for people: "tcp", "rdma (mlx5_0)", "tcp, redirected: ...". Not told by the brick.
  std::string transport;
};

// Local memory that a transfer may touch. It, and its registration, must outlive every transfer that names it.
struct LocalSlice {
  std::byte* data = nullptr;  // only read from for a write
  uint32_t length_bytes = 0;
  uint32_t local_key = 0;  // from register_memory(); 0 for unregistered memory, which may cost a copy
};

// A registration, given back on destruction. Survives the loss of a session.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  RegisteredMemory(uint32_t local_key, std::function<void()> release)
      : local_key_(local_key), release_(std::move(release)) {}
  RegisteredMemory(RegisteredMemory&& other) noexcept { *this = std::move(other); }
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept {
    std::swap(local_key_, other.local_key_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~RegisteredMemory() {
    if (release_) release_();
  }
  uint32_t local_key() const { return local_key_; }

 private:
  uint32_t local_key_ = 0;
  std::function<void()> release_;
};

enum class Direction : uint8_t { kRead, kWrite };

// Bytes between local slices and [offset, offset + their total) of a handle.
// At most limits::kTransferBytes, limits::kSlicesPerTransfer; not empty; within the handle (EINVAL otherwise).
struct Transfer {
  Direction direction = Direction::kRead;
  Handle handle;
  uint64_t offset = 0;
  std::span<const LocalSlice> local;  // must stay until the batch is complete
};

// Transfers posted together. No order among them nor between batches may be relied on.
// The owner keeps it, and all memory it names, in place until it is complete. Complete only when no transfer of it can
// touch local memory any more; after a failed write the remote bytes are undefined (old, new, or any mixture).
class Batch {
 public:
  // Called once, from any thread, as the last thing done with the batch; must not block. Null: the owner wait()s.
  using Done = void (*)(Batch& batch, void* context);

  Batch() = default;
  explicit Batch(Done done, void* context) : done_(done), context_(context) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  absl::InlinedVector<Transfer, 1> transfers;  // not to be changed between submit() and completion

  bool complete() const { return state_.load(std::memory_order_acquire) == kComplete; }
  // The first error of any transfer, or success. Precondition: complete().
  Status status() const {
    return code_.load(std::memory_order_relaxed) == 0 ? Status() : Error(code_, "data transfer");
  }
  bool has_callback() const { return done_ != nullptr; }

  // For implementations of Brick: by which of its connections it goes, so that wait() asks no other. Added before
  // anything is posted there.
  static constexpr size_t kRoutes = 32;
  void add_route(size_t number) { routes_ |= 1u << number; }
  uint32_t routes() const { return routes_; }  // bit n: by number n

  // For implementations of Brick, in this order: begin(n) once; finish_one() n times, with 0 or an errno; the call that
  // returns true completed the batch: the caller then wakes waiters by its own means, unless a callback took it over
  // (after which the batch may be gone: touch it no more).
  void begin(size_t parts) {
    remaining_.store(parts, std::memory_order_relaxed);
    code_.store(0, std::memory_order_relaxed);
    routes_ = 0;
    state_.store(kPosted, std::memory_order_release);
  }
  bool finish_one(int code) {
    if (code != 0) {
      int none = 0;
      code_.compare_exchange_strong(none, code, std::memory_order_relaxed);
    }
    if (remaining_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
    const Done done = done_;
    void* const context = context_;
    state_.store(kComplete, std::memory_order_release);
    if (done != nullptr) done(*this, context);
    return true;
  }

 private:
  enum State : uint8_t { kIdle, kPosted, kComplete };
  std::atomic<size_t> remaining_{0};
  std::atomic<int> code_{0};
  std::atomic<uint8_t> state_{kIdle};
  uint32_t routes_ = 0;  // of whoever submits
  Done done_ = nullptr;
  void* context_ = nullptr;
};

// Whether a look at a brick also asks it for a sign of life, if nothing else is asked. Else that is done as often as
// keeping the lease takes (limits::kKeepAlive).
enum class Asking { kNo, kYes };

class Brick : public Callee {
 public:
  // Begins a session, or resumes a lost one (all handles are void in either case). When another holds the volume:
  // EBUSY, with `holder` filled in if not null. A holder whose connections are gone does not hold others up.
  // EACCES: wrong or missing secret. EKEYREJECTED: refused by what cannot prove that it knows the secret. EUSERS: too
  // many sessions. ENOENT: no such volume. ESTALE: resume came too late. EIDRM: the volume to resume was removed.
  // EOPNOTSUPP: the brick is older than OpenMode::kFollow, OpenRequest::bound or OpenRequest::writes.
  // ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT: no brick there. EMSGSIZE: it is, but the path loses large packets. Never
  // takes longer than the connect + handshake timeouts.
  virtual Result<Session> open(const OpenRequest& request, Holder* holder) = 0;
  // Gives the lease up and ends the session. Unmaps everything. Commits nothing.
  virtual Status close() = 0;
  // Ends the session as the loss of the connection would: nothing of it is under way on return, calls and transfers
  // that were end with ENOTCONN, and the lease stays this client's to come back to. Tells no set_on_lost() callback.
  // Nothing happens without a session. As open(), excludes open() and close().
  virtual void abandon() = 0;

  // Control calls (transport/brick/calls.h): alloc(), free(), map(), unmap(), list(), commit(), stat() and call()
  // itself. EINVAL: also calls that are of the two ends of a session.

  // ENOMEM, EPERM (locked-memory limit).
  virtual Result<RegisteredMemory> register_memory(std::span<std::byte> memory) = 0;

  // Posts a batch (never fails: errors complete the batch) and returns; a batch without transfers completes at once.
  // EACCES / ENOENT / EIO as a status: a dead handle, or one without the right; the session itself goes on where the
  // transport can tell (tcp, embedded) and is lost (ENOTCONN) where the hardware cannot (verbs).
  virtual void submit(Batch& batch) = 0;
  // Until the batch is complete. The calling thread may be used to drive completions.
  virtual Status wait(Batch& batch) = 0;

  // Every write that has completed is seen by all who read there from now on, whatever their way to the brick.
  // ENOTCONN.
  virtual Status make_visible() { return {}; }

  // How long nothing has been heard of the brick although it was asked for something, or no byte of a transfer has
  // moved, from some 300 ms on; 0: all moves, or there is no session, or no network. Does not wait.
  virtual std::chrono::milliseconds silence(Asking) { return {}; }
  // When the last call was sent that it has answered: it has held the session's lease at some time since. Other than
  // silence() this is also right in a process that was stopped for a while. Without a network: now.
  virtual std::chrono::steady_clock::time_point known_at() { return std::chrono::steady_clock::now(); }

  // Told once per session, from an internal thread, when it is lost (ENOTCONN, ESTALE ...) without a call having shown
  // it; must not call the brick. Set before open(). ERESTART, any number of times: the session works, but open() would
  // now begin a better one.
  virtual void set_on_lost(std::function<void(Error)> callback) = 0;

 protected:
  Brick() = default;
};

// EINVAL: what no brick need be asked.
Status check_open(const OpenRequest& request);

uint64_t length_of(const Transfer& transfer);
// 0 or an errno, as the interface's rules have it.
int check_transfer(const Transfer& transfer);

// --- what takes several calls, within one session. Errors as the calls answer; EPROTO for a list that is none.

// All allocated blocks: ascending, maximal runs.
Result<std::vector<BlockRange>> list_blocks(Brick& brick);
// One after another, so barriers hold across calls too.
Status commit_ranges(Brick& brick, std::span<const CommitRange> ranges);

// --- errors of Brick::open()

// The brick's own answer, the same by every path to it; others are of the path. Not EACCES: whoever has one of the
// brick's addresses can say that, and another leads to the brick.
constexpr bool is_brick_answer(Error error) {
  return error.is(ENOENT) || error.is(EBUSY) || error.is(ESTALE) || error.is(EINVAL) || error.is(EUSERS) ||
         error.is(EIDRM) || error.is(EROFS);
}

// Of the errors of two paths the one to be told: that somebody answered says more than that nobody did.
constexpr Error more_telling(Error first, Error second) {
  const bool answered =
      first.is(EACCES) || first.is(EKEYREJECTED) || first.is(EPROTO) || first.is(EMSGSIZE) || first.is(ENOPROTOOPT);
  return answered && !is_brick_answer(second) ? first : second;
}

}  // namespace brickfs
