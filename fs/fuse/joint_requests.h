// SPDX-License-Identifier: Apache-2.0
// Requests for few bytes that one thread has at hand at the same time: their bytes travel together, then all are
// answered.
//
// Threads: one.
#pragma once

#define FUSE_USE_VERSION 314

#include <fuse3/fuse_lowlevel.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fs/fuse/place.h"
#include "fs/operations/joint_transfer.h"

namespace brickfs {

class JointRequests {
 public:
  // Whether this is a request of that kind.
  static bool suits(std::span<const std::byte> message);
  // To which the calling thread adds the request that it is at; null: it serves it by itself.
  static JointRequests* current();

  explicit JointRequests(Filesystem& filesystem) : transfer_(filesystem) {}
  JointRequests(const JointRequests&) = delete;
  JointRequests& operator=(const JointRequests&) = delete;

  // Has `serve` pass the place's request to read() or write(). False: it has to be served by itself, after this has
  // gone.
  template <typename Serve>
  bool add(FusePlace& place, Serve serve) {
    const size_t before = begun_.size();
    begin_adding(place);
    serve(place.message());
    end_adding();
    return begun_.size() > before;
  }
  // For operations, instead of serving the request. It is answered later, or not at all.
  void read(fuse_req_t request, Ino ino, uint64_t offset, const LocalSlice& into, Touch touch);
  void write(fuse_req_t request, Ino ino, uint64_t offset, const LocalSlice& from, bool mapped);
  void decline(fuse_req_t request);
  // Once: all that were added are answered. False: none is, `by` was raised.
  bool finish(const Interruption& by);
  // The same if it can be done at once. False: none is answered.
  bool try_to_finish();
  // One of those: it is answered by another thread, and may be so already.
  bool was_put_aside(const FusePlace& place) const;

 private:
  struct Begun {
    FusePlace* place;
    fuse_req_t request;
    std::byte* read_to;  // null: a write, of
    Ino ino;
    uint64_t offset;
    uint64_t length;
    bool mapped;
  };
  void begin_adding(FusePlace& place);
  void end_adding();
  void answer_all(const Status& moved);
  void decline_all();
  void answer(const Begun& begun, const Result<uint64_t>& bytes);

  Filesystem::JointTransfer transfer_;
  std::vector<Begun> begun_;
  std::vector<const FusePlace*> put_aside_;
};

}  // namespace brickfs
