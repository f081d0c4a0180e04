// SPDX-License-Identifier: Apache-2.0
// Reads and writes of unmodified programs (libbrickfs-run.so, calls.cc): which of them go by a queue, and how.
//
// A call goes by a queue if all of this is so; else the kernel does it as ever:
// - The descriptor is a regular file of a mount with queues. That is found out anew with each call, so nothing has to
// be
//   known of what the program does with its descriptors.
// - A queue can do it: bytes of the file are read or replaced, few enough that a copy does not matter.
// - The kernel would not do it better: of files opened without O_DIRECT it has no page of those bytes, they are
//   not read in order (it reads ahead), and not for the second time (it would have kept them).
// - If it goes by the file's position: nobody else can have part in that. So the process has one thread, has opened the
//   file by itself, and made no other process since.
// - Some have been such before: a queue, and showing it a file, have their price.
//
// Where a queue does not help, the kernel is asked, and says what there is to say; but not again what the mount has
// said.
//
// Threads: any; each has queues of its own, and waits for no other. Signal handlers may call this; they do not run in
// the middle of it (signals.h). Nothing of this takes memory from malloc().
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <optional>

namespace brickfs::run {

enum class Way { kReading, kWriting, kSyncing };

struct Call {
  Way way;
  int descriptor;
  const iovec* parts;  // which may be wrong
  int count;
  bool parts_are_ours;  // not in the program's memory, which may be wrong, too
  off_t offset;         // in the file
  bool at_position;     // of the descriptor, not at `offset`
};

// By a queue: bytes moved, and the position moved on; 0 of kSyncing; an errno below zero. Nothing: the kernel is to be
// asked. errno stays.
// EINTR: a signal that tells the program to end, while the brick is away.
std::optional<ssize_t> try_queue(const Call& call);

// open(2) and its like have given this descriptor, which nobody else has.
void note_opened(int descriptor);
// dup(2) and its like have given this one for that.
void note_copied(int from, int descriptor);
// The process confines itself to the system calls that it knows of: the kernel does all from now on.
void note_confined();
// The calling thread ends: the kernel does what it still asks for.
void forget_thread();
// Descriptors may be shared with another process from now on.
void note_shared();
// The same by a message; not of this library's own.
void note_passed();

}  // namespace brickfs::run
