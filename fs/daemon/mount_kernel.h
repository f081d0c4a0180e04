// SPDX-License-Identifier: Apache-2.0
// A mount's kernel, as the coordinator of a shared volume tells it what others have changed.
//
// Threads: any.
#pragma once

#include <algorithm>
#include <vector>

#include "fs/fuse/serve/session.h"
#include "fs/shared/own_kernel.h"
#include "transport/brick/limits.h"

namespace brickfs {

class MountKernel final : public shared::OwnKernel {
 public:
  explicit MountKernel(FuseSession& session) : session_(session) {}  // outlives it

  void set_shared(bool shared) override { session_.set_members(shared); }
  // While there are members it is given attributes for no time.
  void drop(const shared::ChangedFile& changed, const Interruption* by) override {
    const uint64_t offset = std::min(changed.offset, limits::kFileBytes);
    const uint64_t length = std::min(changed.length, limits::kFileBytes - offset);
    session_.cache().drop_changed_pages(
        changed.ino, {offset, length}, [] {}, by);
  }
  void become_member() override { session_.sharing().become_member(); }
  std::vector<Ino> open_by_pages() const override { return session_.sharing().open_by_pages(); }

 private:
  FuseSession& session_;
};

}  // namespace brickfs
