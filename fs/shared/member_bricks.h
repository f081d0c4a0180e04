// SPDX-License-Identifier: Apache-2.0
// A member's own way to the bricks of the volume: a session with each that follows the coordinator's, for reading, and
// for writing to what the coordinator has lent.
//
// What is read counts only if the brick is in the life, and the volume under the lease, that the coordinator told of:
// a brick that has restarted may lack what he is about to write again, and one with another lease has another holder,
// who ends sessions that follow the former one before anything changes. Of a place with copies all have to be there:
// whoever takes the volume opens at least one of them first, or waits until none can have been heard of any more
// (transport/membership/confirmation.h).
//
// Nobody waits for a brick that is not there: a session is opened by a thread of its own, and after a failure the brick
// is left alone for a while. The coordinator is asked meanwhile.
//
// Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"
#include "transport/volume/local_keys.h"
#include "transport/volume/readable_brick.h"
#include "transport/volume/volume_client.h"

namespace brickfs::shared {

class MemberBricks {
 public:
  using Clock = std::chrono::steady_clock;
  // The member's session with that brick of a place, bound to its lease. May take some seconds. `writes`: for writing,
  // too, which the coordinator has the brick admit before it lends anything there.
  using Open =
      std::function<Result<std::unique_ptr<VolumeClient>>(uint32_t place, const ReadableBrick& brick, bool writes)>;

  // `preferred`: of several copies members read different ones.
  MemberBricks(Open open, uint64_t preferred);
  ~MemberBricks();

  // Of one place, whose bricks the coordinator has told. ENOTCONN: not from here, now; EINTR.
  Status read(uint32_t place, std::span<const ReadableBrick> bricks, std::span<const Piece> pieces,
              const Interruption* by);
  // To all bricks of the place, in the life that was told of, so that all who read there see it. ENOTCONN: not from
  // here, now; EIO: nor is it known what has been written, or is yet: the bricks' sessions are let go of. It is not
  // interrupted: it takes no longer than the sessions wait for a brick.
  Status write(uint32_t place, std::span<const ReadableBrick> bricks, std::span<const Piece> pieces);
  // Whether there are sessions for that, which are opened else. ENOTCONN.
  Status prepare_to_write(uint32_t place, std::span<const ReadableBrick> bricks);
  // With all bricks, now and later.
  Result<RegisteredMemory> register_memory(std::span<std::byte> memory) { return keys_.add(memory); }

 private:
  struct Brick {
    uint32_t place = 0;
    ReadableBrick wanted;
    std::shared_ptr<VolumeClient> client;
    bool is_opening = false;
    bool writes = false;                    // it is to be opened so, or has been
    Clock::time_point writes_again_from{};  // it was refused
    Clock::time_point rests_until{};
    Clock::duration rest{};
  };
  using Name = std::pair<uint32_t, std::string>;  // place, source

  using Clients = absl::InlinedVector<std::shared_ptr<VolumeClient>, 2>;
  Result<Clients> find_all(uint32_t place, std::span<const ReadableBrick> bricks, bool writes);
  void retire(uint32_t place, const ReadableBrick& brick);
  std::shared_ptr<VolumeClient> find(uint32_t place, const ReadableBrick& brick, bool writes);
  void failed(uint32_t place, const ReadableBrick& brick);
  void worked(uint32_t place, const ReadableBrick& brick);
  static void let_rest(Brick& brick);
  void open_wanted();
  void end_retired(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void open_one(const Name& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Open open_;
  const uint64_t preferred_;
  LocalKeys keys_;  // before what is attached to it

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<Name, Brick> bricks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<VolumeClient>> retired_ ABSL_GUARDED_BY(mutex_);  // somebody may be reading yet
  Thread opener_;
};

}  // namespace brickfs::shared
