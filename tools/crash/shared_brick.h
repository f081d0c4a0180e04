// SPDX-License-Identifier: Apache-2.0
// The brick of `brickfs-crash shared`: the real service, and simulated machines' ways to it, which can be cut. A client
// is heard of while its machine runs and reaches it; one that is not is cut off after its lease.
//
// shared_brick.cc has, in the place of fs/source, how a SOURCE leads to it; and what a mount asks of its host.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tools/crash/fibers.h"
#include "transport/brick/brick.h"

namespace brickfs::shared_world {

// Before the first machine, from outside.
void start_brick();
std::unique_ptr<Brick> connect_brick();  // of the running machine

// Who has the volume, or had it last; 1: nobody.
fibers::Machine holder();

void cut_from_brick(fibers::Machine machine);
void heal_to_brick(fibers::Machine machine);
// Its process has ended, which its machine tells; of a machine that ends the brick hears no more.
void disconnect_from_brick(fibers::Machine machine);

// At the machine's `at`-th change from now on (1: the next): alloc, free, commit or writes. That is made, or not, or in
// part, and `strike` is called, from outside, which kills the machine.
struct Stroke {
  fibers::Machine machine = 0;
  uint64_t at = 1;
  uint64_t seed = 0;
  std::function<void()> strike;
};
void plan_stroke(Stroke stroke);

}  // namespace brickfs::shared_world
