// SPDX-License-Identifier: Apache-2.0
// One random system call of the differential tester: which, with what, how it is run on one of the two trees, and how
// it reads in a C program. An operation is one entry of a table (diff_*_calls.cc); everything else is the same for all.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace brickfs::posix {

constexpr int kSlots = 8;  // open files of a run, by number

struct Operation;

struct Call {
  const Operation* operation = nullptr;
  int slot = 0;
  int other_slot = 0;
  std::string path;
  std::string other_path;  // of rename, link; a symbolic link's target
  std::string name;        // of an extended attribute
  int64_t offset = 0;
  int64_t other_offset = 0;
  uint64_t length = 0;
  int flags = 0;
  uint32_t mode = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t seed = 0;   // of the data
  bool times = false;  // whether it stamps mtime and ctime is compared, too
  size_t turn = 0;     // of the machines that have the tested tree: which one makes it, if it can
};

// One of the two trees, as one machine has it.
struct Side {
  int root = -1;
  std::array<int, kSlots> files{};  // -1: not open
};

inline int file_of(const Call& call, const Side& side) { return side.files[static_cast<size_t>(call.slot)]; }

struct Outcome {
  int64_t result = 0;
  int error = 0;
  std::string detail;  // what else came back

  bool operator==(const Outcome&) const = default;
};

// What of a Call an operation uses: chosen at random, the rest stays 0.
enum Field : unsigned {
  kSlot = 1 << 0,
  kOtherSlot = 1 << 1,
  kPath = 1 << 2,
  kOtherPath = 1 << 3,
  kTarget = 1 << 4,  // other_path, as a symbolic link's
  kXattrName = 1 << 5,
  kOffset = 1 << 6,
  kOtherOffset = 1 << 7,
  kLength = 1 << 8,
  kMode = 1 << 9,
  kOwner = 1 << 10,
  kSeed = 1 << 11,
  kMakes = 1 << 12,  // the path is likely to be a new one
};

struct Operation {
  const char* name;
  int weight;
  unsigned fields;
  std::vector<int> choices;  // flags: one of these ...
  std::vector<int> bits;     // ... and each of these now and then
  const char* c_text;  // {p} path {q} other path {x} name {f} {g} files {o} {O} offsets {l} length {F} flags {m} mode
                       // {u} {G} owner {s} seed
  Outcome (*run)(const Call& call, Side& side);
  bool of_process = false;   // changes the process, not a tree: run once for both
  bool blurs_holes = false;  // file systems may differ in what is a hole and what zeros
};

std::span<const Operation> name_operations();
std::span<const Operation> attribute_operations();
std::span<const Operation> data_operations();
std::span<const Operation> process_operations();

bool fills_slot(const Operation& operation);  // or empties it

Outcome outcome_of(int64_t result);  // with errno
std::string digest(const void* bytes, size_t size);
std::vector<char> data_for(const Call& call);  // `length` bytes, of its seed

// Which user the calls are made as: effective ids and groups of this process. 0 is root.
struct User {
  uid_t uid;
  gid_t gid;
  std::vector<gid_t> groups;
};
std::span<const User> users();

// --- the run of one call
class Process {
 public:
  static Process& get();
  // In the side's tree as its root directory, as the present user. `after`: by which it is seen what was stamped.
  Outcome run(const Call& call, Side& side, const Side& after);
  void become(uint32_t user) { user_ = user; }
  static void let_clock_tick();         // before a call whose stamps are looked at
  static void enter(const Side& side);  // its tree is the root directory
  void leave_tree();                    // back to the real root directory
  void reset();                         // root, umask 022, no limits, the real root directory
  int proc() const { return proc_; }    // /proc, which the trees do not have

 private:
  Process();
  int root_;
  int proc_;
  uint32_t user_ = 0;
};

// What has been compared equal so far, as text, one line for an object: names, modes, owners, links, sizes, contents,
// maps of data, attributes, targets, and mtime where it was set. `strict_holes`: holes have to be where they are on the
// other side.
std::string describe_tree(int root, bool strict_holes);
void remove_tree_contents(int root);

// A program that makes these calls, for people and compilers.
std::string program_of(std::span<const Call> calls);

// Paths that are there, for the choice of the next call.
struct Hints {
  std::vector<std::string> paths;
};
struct Profile {
  bool strict_holes = false;         // holes have to be in the same places; nothing is called that blurs them
  std::vector<std::string> without;  // operations that the reference does not have
};
Call random_call(std::mt19937_64& random, const Profile& profile, const Hints& hints);

}  // namespace brickfs::posix
