// SPDX-License-Identifier: Apache-2.0
// The connections of peers that proved themselves, each of which takes a thread, and who may have one more. The few
// that a session cannot do without are kept for the holder of each volume; the others are for whoever comes, but what
// one may have gets less as they do. So no client, and not all clients of a volume, can take what another's holder
// needs.
//
// Threads: every call from any thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "transport/base/mutex.h"

namespace brickfs {

class AdmittedConnections {
 public:
  enum class Kind {
    kHolder,  // of the session that may write a volume, of which there is one
    kShared,  // of a session that reads, follows or observes a volume
    kOther,   // an administrator's, or of no session that is known
  };
  struct Owner {
    Kind kind = Kind::kOther;
    std::string volume;
    size_t session_has = 0;  // connections that its session has already
  };

  // One that was admitted, until it is destroyed.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept { swap(other); }
    Place& operator=(Place&& other) noexcept;
    ~Place();
    explicit operator bool() const { return all_ != nullptr; }

   private:
    friend class AdmittedConnections;
    void swap(Place& other) noexcept;

    AdmittedConnections* all_ = nullptr;
    bool is_kept_ = false;  // from what is kept for holders
    std::string shared_;    // the volume, of one that is shared
  };

  // `kept`: for holders; `common`: for all.
  AdmittedConnections(size_t kept, size_t common) : kept_(kept), common_(common) {}

  // Empty: there is no room for one of this owner.
  Place enter(const Owner& owner);
  size_t count() const;

 private:
  bool has_common_room(const Owner& owner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void leave(const Place& place);

  const size_t kept_;
  const size_t common_;

  mutable Mutex mutex_;
  size_t kept_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t common_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, size_t> shared_ ABSL_GUARDED_BY(mutex_);  // of common_taken_, by volume
};

}  // namespace brickfs
