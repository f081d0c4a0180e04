// SPDX-License-Identifier: Apache-2.0
// What a tree may look like after a crash: as it was after some number of the operations, not before the last that
// synced. Bytes written over a file's old bytes by a later operation may be there already (docs/recovery.md, promise
// 2). Of requests that were under way at once it may be in the midst (crash_requests.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fs/operations/filesystem.h"
#include "tests/support/crash_requests.h"

namespace brickfs {

// All that a user can see of a mounted tree, but atime.
struct TreeSnapshot {
  // What every write changes, or may.
  struct Written {
    uint64_t size_bytes = 0;
    uint64_t blocks_512 = 0;
    TimeNs mtime{};
    TimeNs ctime{};
    bool operator==(const Written&) const = default;
  };
  struct File {
    Ino ino{};
    Written written;
    std::string attributes;  // all others, as text
    std::string contents;    // of a regular file
    bool operator==(const File&) const = default;
  };
  std::map<std::string, File> files;  // by path
  std::string error;                  // of an operation that must not fail

  bool operator==(const TreeSnapshot&) const = default;
};

TreeSnapshot take_snapshot(Filesystem& filesystem);

// Empty: equal. Else the first difference, for people.
std::string difference(const TreeSnapshot& expected, const TreeSnapshot& found);

// After an operation that failed, which was to lead to `intended`. Empty: `found` is as before, but for bytes that it
// was to write over others.
std::string judge_failed(const TreeSnapshot& before, const TreeSnapshot& intended, const TreeSnapshot& found);

// What was done, one step after the other.
struct CrashHistory {
  // An operation, or the requests of a queue, from the first to the end of the last.
  struct Step {
    uint64_t begin = 0;  // ticks
    uint64_t end = 0;
    bool synced = false;       // it was a sync, and succeeded
    RequestOutcomes requests;  // of a queue; else none
  };
  std::vector<TreeSnapshot> trees;  // after so many steps
  std::vector<Step> steps;

  void add(Step step, TreeSnapshot after);
  // Of requests, what they lead to. False: no order of them leads to `after`.
  bool add_requests(std::vector<QueuedRequest> requests, uint64_t begin, uint64_t end, TreeSnapshot after);
};

// What a crash at that moment may leave of a history.
struct CrashBounds {
  CrashBounds(const CrashHistory& history, uint64_t tick);
  CrashBounds(size_t least, size_t most) : low(least), high(most) {}  // of one without requests
  uint64_t digest() const;

  uint64_t tick = 0;
  size_t low = 0;   // so many steps at least
  size_t high = 0;  // at most; the last of them may be in its midst
  // Of each of the history's steps.
  std::vector<RequestSet> begun;
  std::vector<RequestSet> kept;
};

// Empty: `found` is one that a crash within those bounds may leave. Else why not.
std::string judge(const CrashHistory& history, const CrashBounds& bounds, const TreeSnapshot& found);
// The same of operations that were done one after the other: `trees[k]` is the tree after k of them, and at least `low`
// had to survive.
std::string judge(std::span<const TreeSnapshot> trees, size_t low, size_t high, const TreeSnapshot& found);

}  // namespace brickfs
