// SPDX-License-Identifier: Apache-2.0
// Programs that use a shared volume, on machines of their own, and look whether it is what it should be. Each has a
// file with bytes, a time and an extended attribute that only it changes, and a name that is there or not; all look at
// those of all others, append records to one file, make names that only one can make, and lock one file.
//
// Threads: each program is one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fs/operations/file_operations.h"
#include "tools/crash/shared_history.h"

namespace brickfs::shared_world {

// What they all share.
struct Things {
  explicit Things(size_t programs)
      : bytes(programs), large(programs), times(programs), xattrs(programs), names(programs), records(programs) {}
  std::vector<Known> bytes;
  std::vector<Known> large;
  std::vector<Known> times;
  std::vector<Known> xattrs;
  std::vector<Known> names;
  std::vector<Known> records;
  uint64_t exclusive = 0;
  History history;
};

class Program {
 public:
  struct Machine {
    shared_world::Machine number = 0;
    std::function<FileOperations&()> files;
    bool begins_with_tree = false;  // it is no member, until it hands the volume over
    std::function<bool()> leaves;   // it unmounts
  };
  Program(Things& things, unsigned number, Machine machine, uint64_t seed)
      : things_(things), number_(number), machine_(std::move(machine)), random_(seed) {}

  // What all of them need, by the first one.
  static Status prepare(FileOperations& files, size_t programs);
  // Until that time, or its machine has lost the volume.
  void run(fibers::Nanoseconds until);
  // Looks at everything once.
  void look_at_all();
  uint64_t operations() const { return operations_; }

 private:
  Listener listener() const { return {machine_.number, machine_.begins_with_tree}; }
  FileOperations& files() { return machine_.files(); }
  Result<Ino> find(const std::string& name);
  bool is_lost();
  void expect(const Status& status, const std::string& what);
  template <typename T>
  bool done(const Result<T>& result, const std::string& what) {
    expect(result.ok() ? Status() : Status(result.error()), what);
    return result.ok();
  }
  void step();
  void write_bytes();
  void write_large();
  void set_time();
  void set_xattr();
  void flip_name();
  void append();
  void look_at_bytes(unsigned program);
  void look_at_large(unsigned program);
  void look_at_attributes(unsigned program);
  void look_at_name(unsigned program);
  void look_at_records();
  void make_exclusively();
  void move();
  void lock_and_unlock();
  void use_unlinked();
  void drop_unlinked();

  Things& things_;
  const unsigned number_;
  const Machine machine_;
  std::mt19937_64 random_;
  uint64_t operations_ = 0;
  bool is_moved_ = false;
  bool has_linked_ = false;
  Ino unlinked_ = kNoIno;
  bool is_over_ = false;
};

}  // namespace brickfs::shared_world
