// SPDX-License-Identifier: Apache-2.0
// A client's end of one session with a remote brick, over whatever it is connected by. Once lost it stays lost. Errors
// are those of Brick's calls of the same names.
//
// Threads: every method from any thread, except as said.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/wire.h"

namespace brickfs {

class RemoteLink {
 public:
  virtual ~RemoteLink() = default;

  virtual const Session& session() const = 0;
  // For people: "tcp", "rdma (rxe0, type-2 windows)".
  virtual std::string describe() const = 0;

  // The answer's body.
  virtual Result<std::vector<std::byte>> call(wire::Kind kind, std::span<const std::byte> body) = 0;
  virtual Result<std::vector<Handle>> map(BlockRange blocks, Access access) = 0;
  // UNMAP and FREE: no transfer uses the handles any more, and what was written through them is visible to the brick.
  virtual Status revoke(wire::Kind kind, BlockRange blocks) = 0;
  // `body`: of COMMIT. Covers every write that is complete.
  virtual Status commit(std::span<const std::byte> body) = 0;
  virtual std::chrono::milliseconds silence() = 0;
  virtual void submit(Batch& batch) = 0;
  virtual void wait(const Batch& batch) = 0;

  // Ends the session for good, without a word to whoever is told of its loss.
  virtual Status close() = 0;
  // Marks the session lost; the first reason counts.
  virtual void lose(Error error) = 0;
  // Everything posted is complete and no thread of the link runs on return. Not from a thread of the link.
  virtual void stop() = 0;
};

// What a brick has answered; bytes that make no sense end the session.
template <typename T>
Result<T> checked(RemoteLink& link, Result<T> decoded) {
  if (!decoded.ok()) link.lose(decoded.error());
  return decoded;
}

}  // namespace brickfs
