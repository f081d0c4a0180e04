// SPDX-License-Identifier: Apache-2.0
// One tree, as one machine has it or as several do, which make the calls in turns. What is open is open on each of
// them, and has one position: a call finds what it would find if one machine made all.
#pragma once

#include <string>
#include <vector>

#include "tests/posix/diff_call.h"

namespace brickfs::posix {

class Machines {
 public:
  explicit Machines(const std::vector<std::string>& paths);  // of the tree on each; makes the directory, or ends with 2
  ~Machines();                                               // and removes it
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  Outcome make(const Call& call);
  size_t count() const { return sides_.size(); }
  int root(size_t machine) const { return sides_[machine].root; }

 private:
  size_t machine_for(const Call& call) const;
  bool is_missing(size_t machine, int slot) const;
  const Side& watcher_of(const Call& call, size_t machine) const;
  Outcome run(const Call& call, size_t machine);
  void open_on_others(const Call& call, size_t machine, Outcome& outcome);
  void move_others(int slot, size_t machine);

  std::vector<std::string> paths_;
  std::vector<Side> sides_;
  std::vector<int> mapped_;  // files opened for a mapping: to close them would drop this process's locks
};

}  // namespace brickfs::posix
