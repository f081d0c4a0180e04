// SPDX-License-Identifier: Apache-2.0
// What a tree may look like after a crash: as it was after some number of the operations, not before the last that
// synced. Bytes written over a file's old bytes by a later operation may be there already (docs/recovery.md, promise
// 2).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fs/operations/filesystem.h"

namespace brickfs {

// All that a user can see of a mounted tree, but atime.
struct TreeSnapshot {
  struct File {
    Ino ino{};
    std::string attributes;  // everything but the contents, as text
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

// `history[k]` is the tree after k operations. Empty: `found` is one that a crash may leave when at least `low`
// operations had to survive and at most `high` had begun. Else why not.
std::string judge(std::span<const TreeSnapshot> history, size_t low, size_t high, const TreeSnapshot& found);

}  // namespace brickfs
