// SPDX-License-Identifier: Apache-2.0
// Reads, and writes over bytes that are there, of several requests that one thread has at hand: their bytes travel
// together. What needs more than that, or would have to wait for another operation, is left to Filesystem::read() and
// write().
//
// Threads: one. Use: begin_... some; move(); result() of each. What was begun holds its part of a file until this goes:
// until then the thread calls nothing of the file system that waits for such.
#pragma once

#include <memory>
#include <vector>

#include "fs/operations/filesystem.h"
#include "transport/base/result.h"

namespace brickfs {

class Filesystem::JointTransfer {
 public:
  // `context`: of all of them.
  explicit JointTransfer(Filesystem& filesystem, const OperationContext& context = {});
  ~JointTransfer();  // what has not been moved is as if it had not been begun
  JointTransfer(const JointTransfer&) = delete;
  JointTransfer& operator=(const JointTransfer&) = delete;

  // As read() and write() of one slice, which stays in place until this goes. False: nothing of it has been done.
  bool begin_read(Ino ino, uint64_t offset, const LocalSlice& into, Touch touch = Touch::kAtime);
  bool begin_write(Ino ino, uint64_t offset, const LocalSlice& from, bool mapped);
  bool begin_overwrite(Ino ino, uint64_t offset, const LocalSlice& from);  // as Filesystem::overwrite()
  size_t size() const;
  // Once: the bytes of all. An error: none is done, and bytes to be written are undefined.
  Status move();      // waits and fails as read() and write() do
  Status try_move();  // what cannot be done at once (VolumeSet::try_read) fails: whoever asked is to be served in
                      // another way
  // Of the i-th that was begun, once: bytes.
  Result<uint64_t> result(size_t i);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace brickfs
