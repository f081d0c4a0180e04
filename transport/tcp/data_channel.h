// SPDX-License-Identifier: Apache-2.0
// A connection that carries transfers: many outstanding, answered in order. docs/protocol.md, "Transfers".
//
// No thread stands between a waiting caller and the socket: submit() sends on the caller's thread, and wait() lets the
// caller read answers, his own and those before it, while nobody else does (the *reader role*). A background thread
// takes the role only when nobody waits and somebody must read: for batches with a callback, and while a sender is
// blocked and the brick might be too, on answers that nobody takes.
//
// A failure (of the connection, of the peer's manners, or shut_down()) completes everything outstanding with ENOTCONN,
// but only once neither the sender nor the reader can touch local memory any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/tcp/polling_receiver.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/stream.h"

namespace brickfs::tcp {

class DataChannel {
 public:
  // `on_failure` is told, from the thread that met it and without locks held, why the channel failed.
  DataChannel(Stream stream, std::function<void(Error)> on_failure);
  ~DataChannel();  // stop()
  DataChannel(const DataChannel&) = delete;
  DataChannel& operator=(const DataChannel&) = delete;

  // What is sent, or received, with one system call.
  static constexpr size_t kTransfersPerCall = 16;

  // Bytes outstanding, for choosing among channels.
  uint64_t load_bytes() const { return load_bytes_.load(std::memory_order_relaxed); }
  // As RemoteLink::stall(). What has come and is not read yet moves.
  std::chrono::milliseconds stall() {
    const bool is_waited_for = outstanding_.load(std::memory_order_relaxed) > 0 && !stream_.has_unread();
    return stall_.look(stream_.fd(), is_waited_for);
  }
  // Sends them all. Each ends in batch.finish_one(); the batch may be gone on return.
  void submit(Batch& batch, std::span<const Transfer* const> transfers);
  // Until nothing of the batch is outstanding here.
  void wait(const Batch& batch);
  void shut_down();
  // shut_down(), and everything outstanding is complete, and the background thread gone, on return.
  void stop();

 private:
  struct Entry {
    Batch* batch;
    const Transfer* transfer;
    uint64_t id;
    uint32_t length_bytes;
    Direction direction;
    bool callback;
  };

  // Sender.
  Status send_requests(uint64_t first_id, std::span<const Transfer* const> transfers);
  Status send_group(uint64_t first_id, std::span<const Transfer* const> transfers);
  Status wait_for_room();
  void note_sent(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static uint64_t answer_bytes(const Entry& entry);
  uint64_t push(Batch& batch, std::span<const Transfer* const> transfers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Reader: whoever set reading_. These two let go of the mutex while they read.
  class Answers;
  using Entries = absl::InlinedVector<Entry, kTransfersPerCall>;
  void read_until(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void read_in_background() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status read_some() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void give_up_reading(const Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entries next_to_read() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void pop(std::span<const Entry> entries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many of them are done, also if then something fails.
  size_t read(std::span<const Entry> entries, Status& status);
  Result<size_t> receive_some(std::span<const iovec> parts);
  Status wait_until_sent(uint64_t id);

  // Asleep in wait() until everything up to an id is done, or somebody must read.
  struct Waiter {
    uint64_t last_id;
    CondVar wake;
  };
  void sleep(Waiter& waiter, MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void wake_done() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void wake_next_reader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool somebody_must_read() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool background_wanted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t last_id_of(const Batch& batch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::span<const Entry> pending() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::span(entries_).subspan(first_);
  }
  bool sending() const;
  void run_background();
  void mark_dead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void complete_the_rest_if_quiet();

  Stream stream_;
  const std::function<void(Error)> on_failure_;
  StallClock stall_;
  std::atomic<uint64_t> load_bytes_{0};
  std::atomic<size_t> outstanding_{0};  // transfers
  std::atomic<uint64_t> sent_id_{0};    // wholly handed to the kernel up to here; grows under mutex_

  // The reader's own.
  PollingReceiver receiver_;
  std::vector<std::byte> early_bytes_;  // of the next answers, that came along with a refused read

  mutable Mutex mutex_;
  CondVar sent_;        // for a reader ahead of the sender
  CondVar send_free_;   // for the next sender
  CondVar background_;  // for the background thread
  CondVar quiet_;       // for stop()
  // From first_ on: outstanding, in the order of their ids; the reader takes them off.
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  size_t first_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t done_id_ ABSL_GUARDED_BY(mutex_) = 0;       // answered and finished up to here
  uint64_t answer_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // that the brick will send
  size_t callbacks_ ABSL_GUARDED_BY(mutex_) = 0;       // entries that nobody will wait for
  std::vector<Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  bool sender_blocked_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool completing_ ABSL_GUARDED_BY(mutex_) = false;
  bool dead_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread background_thread_;
};

}  // namespace brickfs::tcp
