// SPDX-License-Identifier: Apache-2.0
// Operations on a small namespace as text, so that a sequence can be enumerated, shrunk and given on a command line:
// "create c; append a 3000; rename a d/y; sync". docs/recovery.md, "The crash explorer", has the list.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/operations/joint_transfer.h"
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
};
using CrashSequence = std::vector<CrashOperation>;

// EINVAL: not understood; `why` then says what.
Result<CrashSequence> parse_sequence(std::string_view text, std::string* why);
std::string text_of(const CrashSequence& sequence);

// What every sequence begins with: files a, b, d/x, directories d and f, and more.
CrashSequence crash_base();
// What is done after a recovery, to see that it is kept.
CrashSequence crash_work();
// Every operation that exhaustive sequences are made of. Those that cannot be done where they stand change nothing.
const CrashSequence& crash_alphabet();

// Carries operations out on a mounted file system; remembers what is held open.
class CrashWorkload {
 public:
  explicit CrashWorkload(Filesystem& filesystem, const OperationContext& context = {})
      : filesystem_(filesystem), context_(context) {}
  ~CrashWorkload() { finish_checkpoint(); }
  CrashWorkload(const CrashWorkload&) = delete;
  CrashWorkload& operator=(const CrashWorkload&) = delete;
  // What the operation answered; a failed one has changed nothing. "checkpoint" only begins one.
  Status run(const CrashOperation& operation);
  // To be called before the file system goes, unless a sync was the last operation.
  void finish_checkpoint();

 private:
  struct Place {
    Ino directory{};
    std::string name;
  };

  Result<Place> place(std::string_view path);
  Result<Ino> find(std::string_view path);
  Status run_name(const CrashOperation& operation);
  Status run_file(const CrashOperation& operation, Ino ino);
  Status write(Ino ino, uint64_t offset, uint64_t length, bool append);
  std::optional<Status> write_jointly(Ino ino, uint64_t offset, const LocalSlice& from);

  Filesystem& filesystem_;
  const OperationContext context_;
  Thread checkpoint_;
  uint32_t writes_ = 0;  // each writes other bytes
};

}  // namespace brickfs
