// SPDX-License-Identifier: Apache-2.0
// Kills a process that changes the table of kept memory (server/store/kept_table.h) behind each of its instructions,
// and judges what it leaves: another process opens it, and finds what was there before the change under way or after
// it, never less, more or a mixture. The process is stepped by ptrace(2): the program as the compiler made it, no
// model. docs/recovery.md, "The brick".
#pragma once

#include <cstdint>
#include <string>

namespace brickfs {

class KeptExplorer {
 public:
  // One history of changes, killed behind each instruction that changes the table; the start of another process upon
  // some of what is left, killed likewise; and damage to what is left in the end. Empty, or what failed.
  std::string run(uint64_t seed);
  uint64_t states() const { return states_; }
  // The system lets nobody be stepped here: nothing was tried.
  bool cannot_step() const { return cannot_step_; }

 private:
  uint64_t states_ = 0;
  bool cannot_step_ = false;
};

}  // namespace brickfs
