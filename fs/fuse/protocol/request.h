// SPDX-License-Identifier: Apache-2.0
// One request of the kernel: its memory, what is asked and by whom, and the way its answer goes. It is taken apart
// once, when it comes, and answered once.
//
// Whatever an operation changes behind the kernel's back is said here, and the kernel is told with the answer
// (fs/fuse/cache/kernel_cache.h): there is no other way to answer.
//
// Threads: one at a time.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fs/base/ids.h"
#include "fs/fuse/interrupt/interrupts.h"
#include "fs/fuse/protocol/buffers.h"
#include "fs/fuse/protocol/operation_counters.h"
#include "fs/fuse/protocol/protocol.h"
#include "fs/operations/file_operations.h"
#include "transport/base/bytes.h"
#include "transport/base/result.h"

namespace brickfs {

class KernelCache;

// Of a reader by an open file with these flags (open(2)).
Touch touch_of(uint32_t open_flags);

// How an answer to that request begins.
fuse_out_header answer_header(uint64_t unique, int error, size_t payload_bytes);

class FuseRequest : public FusePlace {
 public:
  virtual ~FuseRequest() = default;
  FuseRequest(const FuseRequest&) = delete;
  FuseRequest& operator=(const FuseRequest&) = delete;

  // --- what is asked
  // It is as long as it says of itself. If not, it is only to be refused; a header that is cut off is all zeros.
  bool is_whole() const { return whole_; }
  const fuse_in_header& header() const { return header_; }
  Ino ino() const { return Ino{header_.nodeid}; }
  // What follows the header. Null: the request is shorter.
  template <typename T>
  const T* arguments() const {
    const std::span<const std::byte> bytes = body(0);
    return bytes.size() < sizeof(T) ? nullptr : reinterpret_cast<const T*>(bytes.data());  // aligned to 8 bytes
  }
  // Behind so many bytes of arguments: the rest, and a name (or several) in it. Empty: there is none that ends.
  std::span<std::byte> body(size_t arguments_bytes) const;
  std::string_view name(size_t arguments_bytes) const;
  // So many bytes of arguments, and so many names behind them, of which none is empty.
  bool has(size_t arguments_bytes, size_t names) const;
  Caller caller(uint32_t umask = 0) const;
  const Interruption* interruption() const { return waiter_.interruption(); }
  // Of what is done for it, while it is served.
  OperationContext context() const {
    return {.thread = header_.pid, .interruption = interruption(), .wake_later = wake_later_};
  }

  // Of FUSE_READ and FUSE_WRITE.
  struct Transfer {
    uint64_t offset = 0;
    uint32_t bytes = 0;
    bool for_page_cache = false;    // by the kernel, not by a program with O_DIRECT
    bool writes_back = false;       // of the page cache, no write(2) waits for it
    bool kills_privileges = false;  // set-uid and set-gid bits are to be cleared
    uint32_t open_flags = 0;
    Touch touch = Touch::kAtime;
    LocalSlice data;  // of a read, where it is to land
  };
  // Null: it is none.
  const Transfer* transfer() const { return transfer_ ? &*transfer_ : nullptr; }
  bool is_small_transfer() const {
    return transfer_ && transfer_->bytes > 0 && transfer_->bytes <= kFewBytes && message_.size() <= kSmallRequestBytes;
  }
  // To be served together with others, if there are any.
  bool is_small() const { return !alone_ && is_small_transfer(); }
  void serve_alone() { alone_ = true; }
  // For so long the kernel may keep names and attributes that the answer has.
  uint64_t kept_seconds() const { return kept_seconds_; }
  void keep_for(uint64_t seconds) { kept_seconds_ = seconds; }

  // --- what the operation has changed. Told to the kernel with the answer.
  // Times, size or the like, which the kernel may have in its cache.
  void stamped(Ino ino);
  // The mode, too, which the kernel goes on honouring as long as it has it: it drops it in any case.
  void clears_mode(Ino ino) { clears_mode_ = ino; }

  // A name of a directory, and the inode that has it or had it, although the answer is an error. Told behind the
  // answer.
  void renamed(Ino directory, std::string_view name, Ino ino) {
    renamed_.push_back({directory, std::string(name), ino});
  }

  // --- the answer. False: the kernel did not take it, who asked is gone.
  bool answer(const Status& status) { return status.ok() ? finish(0, {}) : answer(status.error()); }
  bool answer(const Error& error);
  bool answer(std::span<const std::byte> payload) { return finish(0, payload); }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  bool answer_with(const T& out) { return finish(0, bytes_of(out)); }
  // Of a write past the kernel's page cache: when the pages it may have of that have been dropped. Then another thread
  // may answer it, and the request was put aside. Of a failed write, too, of which some bytes may be there.
  void answer_written(const Result<uint64_t>& written);
  // The kernel expects none.
  void dismiss();
  // Another thread answers it by what is returned, soon: nobody can interrupt it any more. Its worker is done with it.
  using Answer = std::function<void(int error, std::span<const std::byte> payload)>;
  Answer answer_later();

  // --- for those who receive and serve it
  FuseBuffers& buffers() const { return *buffers_; }
  // Of what is done for it from now on; outlives that. Null: none.
  void wake_later(WakeLater* wake_later) { wake_later_ = wake_later; }
  // The request, until it is answered, as it comes from /dev/fuse: header, arguments, data in one piece.
  std::span<std::byte> message() const { return message_; }
  FuseWaiter& waiter() override { return waiter_; }
  bool is_answered() const { return answered_; }
  // By whoever is at it, at the end. True: nobody else is. False: another thread still has it, and gives it back.
  bool release() { return holders_.fetch_sub(1) == 1; }
  // Its worker does something else first: who interrupts the request meanwhile also answers it. False: it is
  // interrupted already, or answered.
  bool set_aside() { return aside_ = waiter_.set_aside(); }
  // It is to be served now. False: it has been answered.
  bool take_up() { return std::exchange(aside_, false) ? waiter_.take_up() : !answered_; }
  void answer_interrupted() override;

 protected:
  // Both outlive it. `counters`: of what is answered.
  FuseRequest(std::unique_ptr<FuseBuffers> buffers, KernelCache& cache, OperationCounters& counters)
      : buffers_(std::move(buffers)), cache_(cache), counters_(counters) {}
  // It has come: header and all, which stay there.
  void begin(std::span<std::byte> message);
  // Header, then data, which may be in the request's own buffer. As writev().
  virtual ssize_t send(std::span<const iovec> parts) = 0;
  // Its worker is done with it. What is returned is called once, by any thread.
  virtual Answer put_aside() = 0;
  bool send_answer(int error, std::span<const std::byte> payload);
  void hold() { ++holders_; }  // one more is at it
  // The same request in other memory.
  void take_over(FuseRequest& from, std::span<std::byte> room);

 private:
  void tell_kernel();
  bool finish(int error, std::span<const std::byte> payload);
  void set_answered(int error, size_t payload_bytes);
  void parse_transfer();

  const std::unique_ptr<FuseBuffers> buffers_;
  KernelCache& cache_;
  OperationCounters& counters_;
  std::chrono::steady_clock::time_point begun_{};
  FuseWaiter waiter_;
  WakeLater* wake_later_ = nullptr;
  std::span<std::byte> message_;
  fuse_in_header header_{};
  std::optional<Transfer> transfer_;
  std::array<Ino, 4> stamped_{};
  size_t stamped_count_ = 0;
  Ino clears_mode_ = kNoIno;
  struct Name {
    Ino directory;
    std::string name;
    Ino ino;
  };
  std::vector<Name> renamed_;
  uint64_t kept_seconds_ = 0;
  bool whole_ = false;
  bool answered_ = true;
  bool alone_ = false;
  bool aside_ = false;
  std::atomic<int> holders_{0};
};

}  // namespace brickfs
