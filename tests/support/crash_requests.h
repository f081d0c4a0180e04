// SPDX-License-Identifier: Apache-2.0
// Requests that were under way at once, and what a crash in their midst may leave of the files that they change: each
// is one operation, and some order of them, in which none comes before one that had ended when it began, is the one in
// which they were done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "fs/base/ids.h"

namespace brickfs {

struct QueuedRequest {
  enum class Kind { kWrite, kAppend, kSync };
  static constexpr uint64_t kNever = UINT64_MAX;

  Kind kind = Kind::kWrite;
  Ino ino{};
  uint64_t offset = 0;           // kWrite
  std::vector<std::byte> bytes;  // but kSync
  uint64_t begin = 0;            // ticks: when it was submitted,
  uint64_t end = kNever;         // and when its end was told
  int64_t result = 0;            // as of a completion

  bool changes() const { return kind != Kind::kSync && result >= 0; }
};

// Bit i is the i-th request. Only those that change something, if they succeed, are ever set.
using RequestSet = uint32_t;
using FileContents = std::map<Ino, std::string>;

class RequestOutcomes {
 public:
  struct Outcome {
    RequestSet done = 0;
    FileContents files;  // all that any of the requests changes
  };

  RequestOutcomes() = default;
  // `before` and `after`: the contents of those files. Without the orders that do not lead from one to the other.
  RequestOutcomes(std::vector<QueuedRequest> requests, const FileContents& before, const FileContents& after);

  const std::vector<QueuedRequest>& requests() const { return requests_; }
  // But for those with none and all of them done. None at all: no order leads to `after`.
  bool is_explained() const { return requests_.empty() || explained_; }
  std::span<const Outcome> outcomes() const { return outcomes_; }
  RequestSet all() const { return all_; }
  RequestSet of_file(Ino ino) const;
  // When the crash comes at that tick: those that had begun; those that must be there, as a sync that has returned
  // began when they had ended. `synced`: one has returned, so whatever came before all of these is there.
  RequestSet begun(uint64_t tick) const;
  RequestSet kept(uint64_t tick) const;
  bool synced(uint64_t tick) const;
  // One that had begun writes this byte there, whether it is done or not.
  bool may_write(Ino ino, uint64_t offset, std::byte byte, uint64_t tick) const;

 private:
  bool lead_on(RequestSet done, const FileContents& files, const FileContents& after);

  std::vector<QueuedRequest> requests_;
  std::vector<RequestSet> before_;  // of each: what had ended when it began
  RequestSet all_ = 0;
  bool explained_ = false;
  std::vector<Outcome> outcomes_;
  std::unordered_map<uint64_t, bool> seen_;  // outcomes: whether they lead on to the end
};

}  // namespace brickfs
