// SPDX-License-Identifier: Apache-2.0
// Reads, and writes over bytes that are there, of several requests that one thread has at hand: their bytes travel
// together. What needs more than that, or would have to wait for another operation, is left to FileOperations::read()
// and write().
//
// Threads: one. Use: begin_... some; move(); result() of each. What was begun holds its part of a file until this goes:
// until then the thread calls nothing of the file system that waits for such.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fs/operations/file_operations.h"
#include "transport/base/result.h"

namespace brickfs {

class JointTransfer {
 public:
  JointTransfer() = default;
  virtual ~JointTransfer() = default;  // what has not been moved is as if it had not been begun
  JointTransfer(const JointTransfer&) = delete;
  JointTransfer& operator=(const JointTransfer&) = delete;

  // As read() and write() of one slice, which stays in place until this goes. False: nothing of it has been done.
  virtual bool begin_read(Ino ino, uint64_t offset, const LocalSlice& into, Touch touch = Touch::kAtime) = 0;
  virtual bool begin_write(Ino ino, uint64_t offset, const LocalSlice& from, bool mapped) = 0;
  virtual bool begin_overwrite(Ino ino, uint64_t offset, const LocalSlice& from) = 0;  // as overwrite()
  virtual size_t size() const = 0;
  // Once: the bytes of all. An error: none is done, and bytes to be written are undefined.
  virtual Status move() = 0;      // waits and fails as read() and write() do
  virtual Status try_move() = 0;  // what cannot be done at once fails: whoever asked is to be served in another way
  // Of the i-th that was begun, once: bytes.
  virtual Result<uint64_t> result(size_t i) = 0;
};

}  // namespace brickfs
