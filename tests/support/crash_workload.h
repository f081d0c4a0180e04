// SPDX-License-Identifier: Apache-2.0
// Operations on a small namespace as text, so that a sequence can be enumerated, shrunk and given on a command line:
// "create c; append a 3000; rename a d/y; sync". docs/recovery.md, "The crash explorer", has the list. Operations are
// done one after the other, but for those that are submitted to a queue: "submit write a 0 100; submit fsync a; wait".
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/operations/joint_transfer.h"
#include "tests/support/crash_queue.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"

namespace brickfs {

// One operation: a verb and its arguments.
struct CrashOperation {
  std::vector<std::string> words;

  std::string text() const;
  // What it makes durable when it has succeeded: everything before it.
  bool syncs() const { return words[0] == "sync" || words[0] == "fsync" || words[0] == "unmount"; }
  // It has only begun when it is over: the next ones overlap it.
  bool goes_on() const { return words[0] == "checkpoint"; }
  // Of a queue. Any other waits for all that were submitted.
  bool is_queued() const { return words[0] == "submit" || words[0] == "wait"; }
  bool waits_for_all() const { return words[0] == "wait" && words.size() == 1; }
};
using CrashSequence = std::vector<CrashOperation>;

// EINVAL: not understood; `why` then says what.
Result<CrashSequence> parse_sequence(std::string_view text, std::string* why);
std::string text_of(const CrashSequence& sequence);

// What every sequence begins with: files a, b, d/x, directories d and f, and more.
CrashSequence crash_base();
// What is done after a recovery, to see that it is kept.
CrashSequence crash_work();
// What exhaustive sequences are made of: single operations, of which those that cannot be done where they stand change
// nothing; then requests of a queue, with the wait for them.
const std::vector<CrashSequence>& crash_alphabet();
bool has_queue(const CrashSequence& sequence);

// Carries operations out on a mounted file system; remembers what is held open.
class CrashWorkload {
 public:
  explicit CrashWorkload(Filesystem& filesystem, const OperationContext& context = {})
      : filesystem_(filesystem), context_(context) {}
  ~CrashWorkload() { finish(); }
  CrashWorkload(const CrashWorkload&) = delete;
  CrashWorkload& operator=(const CrashWorkload&) = delete;
  // What the operation answered; a failed one has changed nothing. "checkpoint" only begins one.
  Status run(const CrashOperation& operation);
  // Waits for what was begun. To be called before the file system goes, unless a sync was the last operation.
  void finish();

  // For what is submitted from now on, until end_queue(). If none was begun, submit begins one in the foreground.
  void begin_queue(bool background, CrashQueue::Tick tick);
  bool has_queue() const { return queue_ != nullptr; }
  bool is_queue_full() const { return queue_ != nullptr && queue_->is_full(); }
  // When all have ended: the requests.
  std::vector<QueuedRequest> end_queue();

 private:
  struct Place {
    Ino directory{};
    std::string name;
  };

  Result<Place> place(std::string_view path);
  Result<Ino> find(std::string_view path);
  void finish_checkpoint();
  Status run_queued(const CrashOperation& operation);
  Status run_name(const CrashOperation& operation);
  Status run_file(const CrashOperation& operation, Ino ino);
  std::vector<std::byte> next_bytes(uint64_t seed, uint64_t offset, uint64_t length);
  Status write(Ino ino, uint64_t offset, uint64_t length, bool append);
  std::optional<Status> write_jointly(Ino ino, uint64_t offset, const LocalSlice& from);

  Filesystem& filesystem_;
  const OperationContext context_;
  Thread checkpoint_;
  std::unique_ptr<CrashQueue> queue_;
  uint32_t writes_ = 0;  // each writes other bytes
};

}  // namespace brickfs
