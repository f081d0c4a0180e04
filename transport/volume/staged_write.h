// SPDX-License-Identifier: Apache-2.0
// The bytes of a write to several replicas, copied once before any of them is posted: whoever wrote may change his
// memory meanwhile, and all replicas are to get the same. They send from this copy, and their replay logs keep it.
//
// Threads: none of its own.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "transport/volume/kept_buffers.h"
#include "transport/volume/piece.h"

namespace brickfs {

class StagedWrite {
 public:
  StagedWrite(std::span<const Piece> pieces, KeptBuffers& buffers);

  // As those that it was made of, of memory that nobody changes.
  std::span<const Piece> pieces() const { return pieces_; }
  // That memory from `at` on, for whoever keeps it longer.
  std::shared_ptr<std::byte> share(std::byte* at) const;

 private:
  void stage(const Piece& piece, KeptBuffers& buffers);

  std::vector<Piece> pieces_;
  struct Part {
    std::shared_ptr<std::byte> bytes;
    uint32_t length_bytes;
  };
  absl::InlinedVector<Part, 4> parts_;
};

}  // namespace brickfs
