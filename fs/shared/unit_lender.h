// SPDX-License-Identifier: Apache-2.0
// The coordinator's side of units that members fill: which are lent to whom, and how they come back.
//
// A member is not believed: a write of it takes units that are lent to it, each once, and whatever becomes of that they
// are not the member's any more. What it may be writing to yet (it has gone, or a write of it has failed) is free only
// when every brick says that this client has no access: till then it is set aside, and the bricks are asked again.
//
// Threads: any; one of its own takes units back.
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "fs/base/ids.h"
#include "fs/operations/unit_lending.h"
#include "fs/shared/calls.h"
#include "fs/shared/join.h"
#include "fs/shared/kept_bytes.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"

namespace brickfs::shared {

class UnitLender {
 public:
  // `number`: of this coordinator, no other's. `call`, `given_within`: as KeptBytes'. `units` outlives stop().
  UnitLender(UnitLending& units, uint64_t number, std::function<void(SessionId session)> call,
             std::chrono::milliseconds given_within = std::chrono::seconds(30));
  ~UnitLender();

  KeptBytes& bytes() { return bytes_; }

  // Nothing to a member whose kept bytes have failed, nor behind end().
  Lent lend(SessionId session, ClientId client, uint64_t blocks, const Interruption* by);

  // Units of a write under way: they come back when this goes, unless they are a file's by then.
  class Taken {
   public:
    Taken(UnitLender& lender, std::span<const UnitRun> runs) : lender_(&lender), runs_(runs.begin(), runs.end()) {}
    Taken(Taken&& other) noexcept : lender_(std::exchange(other.lender_, nullptr)), runs_(std::move(other.runs_)) {}
    ~Taken();
    void are_a_files();

   private:
    UnitLender* lender_;
    std::vector<UnitRun> runs_;
  };
  // EAGAIN: they are not lent to that member.
  Result<Taken> take(SessionId session, uint64_t lender, std::span<const UnitRun> runs);
  void give_back(SessionId session, const ReturnUnits& given);
  // Whether that member is to give back what it has.
  bool wants_back(SessionId session) const;

  // For UnitLending::ask_back_by(). Also what those have who do not answer is back, as they are expelled.
  void ask_back(const Interruption* by);

  // The member has gone.
  void end(SessionId session);
  // From now on nothing is lent and nothing taken. What has been taken has become a file's, or waits for a brick.
  void close();
  // All members have ended: what could be taken back is, and for no longer than some seconds it is waited for bricks;
  // the rest is lent yet.
  void stop();

 private:
  struct Block {
    SessionId session = 0;
    ClientId client{};
    std::bitset<kUnitsPerBlock> lent;
    uint64_t outstanding = 0;     // lent, or being written or taken back; 0: its lending is just being ended
    bool was_lent_again = false;  // meanwhile, by the volume, and to nobody
  };
  struct Borrower {
    ClientId client{};    // whom the bricks let write
    uint64_t coming = 0;  // blocks that are just being lent
  };
  struct Returned {
    std::vector<UnitRun> runs;
    std::optional<ClientId> expels = {};  // who may be writing to them
    bool was_tried = false;               // and could not be taken back
  };
  bool take_from(SessionId session, UnitRun run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void put_back(UnitRun run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t reserve(SessionId session, ClientId client, uint64_t blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void note_lent(SessionId session, ClientId client, std::vector<UnitRun>& runs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void settle(std::span<const UnitRun> runs) ABSL_LOCKS_EXCLUDED(mutex_);
  void end_block(uint64_t index) ABSL_LOCKS_EXCLUDED(mutex_);
  void queue(Returned returned) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void take_back_returned();
  bool take_back(const Returned& returned);

  UnitLending& units_;
  const uint64_t number_;
  const std::function<void(SessionId session)> call_;
  KeptBytes bytes_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, Block> blocks_ ABSL_GUARDED_BY(mutex_);  // by their index
  std::deque<Returned> returned_ ABSL_GUARDED_BY(mutex_);
  size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;  // of returned_
  std::set<SessionId> asked_back_ ABSL_GUARDED_BY(mutex_);
  std::map<SessionId, Borrower> borrowers_ ABSL_GUARDED_BY(mutex_);
  std::map<ClientId, int> expelling_ ABSL_GUARDED_BY(mutex_);  // who is let in again behind that
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_stopped_ ABSL_GUARDED_BY(mutex_) = false;  // the taker
  Interruption gives_up_;                             // waiting for bricks
  Thread taker_;
};

}  // namespace brickfs::shared
