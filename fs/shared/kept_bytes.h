// SPDX-License-Identifier: Apache-2.0
// The coordinator's side of bytes that members have written to the bricks themselves, and keep until a commit has
// covered them: which those are, and the asking for them when a brick that has restarted is to be brought up to date.
//
// Each such write has a number, in the order in which they came to be the volume's. What a member is told is up to
// which all of its numbers are committed.
//
// Threads: any.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fs/base/ids.h"
#include "fs/shared/join.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/volume/lent_bytes.h"

namespace brickfs::shared {

class KeptBytes {
 public:
  // `call`: that member is to ask what is wanted of it. Not called any more once it has ended. `given_within`: who has
  // not given what is wanted by then is not waited for again.
  explicit KeptBytes(std::function<void(SessionId session)> call,
                     std::chrono::milliseconds given_within = std::chrono::seconds(30))
      : call_(std::move(call)), given_within_(given_within) {}
  ~KeptBytes();

  class Bytes;
  // Of a write under way. If it goes before they are a file's, they are nobody's: the member is not asked for them.
  class Kept {
   public:
    Kept(uint64_t number, std::shared_ptr<Bytes> bytes) : number_(number), bytes_(std::move(bytes)) {}
    Kept(Kept&&) = default;
    Kept& operator=(Kept&&) = delete;
    ~Kept();
    uint64_t number() const { return number_; }
    std::shared_ptr<LentBytes> bytes() const;  // when it goes, they are committed, or were never the volume's
    void are_a_files() { bytes_.reset(); }

   private:
    const uint64_t number_;
    std::shared_ptr<Bytes> bytes_;
  };
  // In these units, which the member finds by `tag`. `name`: the member's, for people.
  Kept keep(SessionId session, const std::string& name, uint64_t tag, std::span<const UnitRun> runs);
  // All of its numbers below are.
  uint64_t committed(SessionId session) const;
  // The same, of those that it has been given so far.
  uint64_t begun(SessionId session) const;
  bool any_uncommitted() const;

  // Tags whose bytes are wanted, until they are given.
  std::vector<uint64_t> wanted(SessionId session) const;
  // Null: the member has them no more.
  void give(SessionId session, uint64_t tag, const std::span<const std::byte>* bytes);
  // It is not waited for any more: it is to be expelled. end() follows.
  void give_up(SessionId session);
  // It was given up, has not given what was wanted, or does not have it. Whatever it keeps counts as lost.
  bool has_failed(SessionId session) const;
  // The member is gone, and what it kept.
  void end(SessionId session);

 private:
  class OfMember;
  std::shared_ptr<OfMember> find(SessionId session) const;

  const std::function<void(SessionId session)> call_;
  const std::chrono::milliseconds given_within_;
  mutable Mutex mutex_;
  std::map<SessionId, std::shared_ptr<OfMember>> members_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::shared
