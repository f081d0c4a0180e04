// SPDX-License-Identifier: Apache-2.0
// Memory of a volatile brick that outlives brickd: a file on tmpfs or hugetlbfs, with a name or kept by somebody as a
// descriptor. Its first part says what the rest holds (kept_table.h).
//
// All of it is taken from the system when it is made: where there is no more, a write to it would end the process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/store/kept_table.h"
#include "server/store/mapped_memory.h"
#include "server/store/memory_keeper.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class KeptMemory {
 public:
  // Opens what is there, or makes it. What is there and does not prove itself is gone: it is made anew, and the log
  // says so. What is not a brick's, or not one that this program or these `frames` fit, is refused, untouched. Errors,
  // with one line for people in `why`: EBUSY (another process has it), EPERM (others could have written to it),
  // EUCLEAN, EXDEV (not a brick's memory, or a copy), ENOTSUP (another format), EINVAL (another size, another file
  // system), ENOSPC, ENOMEM, others as the system gave them.
  static Result<std::unique_ptr<KeptMemory>> open(const std::string& path, uint32_t frames, std::string* why);
  static Result<std::unique_ptr<KeptMemory>> open(MemoryKeeper& keeper, uint32_t frames, std::string* why);

  const std::string& name() const { return name_; }  // of the place, for people
  KeptTable& table() { return *table_; }
  // Fresh from the system; else its frames may hold anything.
  bool is_zero() const { return is_zero_; }
  // What was found; empty from the second call on.
  KeptTable::Contents take_contents() { return std::move(contents_); }
  MappedMemory take_frames() { return std::move(frames_memory_); }

 private:
  KeptMemory(std::string name, UniqueFd fd, uint32_t frames)
      : name_(std::move(name)), fd_(std::move(fd)), frames_(frames) {}
  static Result<std::unique_ptr<KeptMemory>> make_file(const std::string& path, uint32_t frames, std::string* why);
  static Result<std::unique_ptr<KeptMemory>> make_for(MemoryKeeper& keeper, uint32_t frames, std::string* why);
  Error refuse(std::string* why, int code, const std::string& text) const;
  Error refuse(std::string* why, const char* doing, int code) const;
  Status lock(std::string* why);
  Status check_file(std::string* why) const;
  Status check_room(std::string* why) const;
  Status resize(std::string* why);
  Status map(std::string* why);
  Status make(std::string* why);
  Status load(std::string* why);
  void tell() const;

  const std::string name_;
  UniqueFd fd_;
  const uint32_t frames_;
  MappedMemory table_memory_;
  MappedMemory frames_memory_;
  std::unique_ptr<KeptTable> table_;
  KeptTable::Contents contents_;
  bool is_new_ = false;
  bool is_zero_ = false;
};

}  // namespace brickfs
