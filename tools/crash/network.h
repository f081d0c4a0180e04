// SPDX-License-Identifier: Apache-2.0
// A simulated network between the machines of fibers.h: TCP as the product uses it, by the C library's calls, which
// this program has in their place. What is sent arrives in its order, some time later. A link can be cut: what is on
// its way waits, and a connection that waits for too long is lost; or connections can be lost with what is on its way.
//
// Threads: the simulated ones. Sockets of kOutside are the system's.
#pragma once

#include <cstdint>
#include <string>

#include "tools/crash/fibers.h"

namespace brickfs::network {

// Begins to carry; once, from outside. `slow`: of a thousand messages so many take up to half a second.
void start(uint64_t seed, unsigned slow);

// Where others find it: "10.0.0.N".
std::string address_of(fibers::Machine machine);

void cut(fibers::Machine a, fibers::Machine b);
void heal(fibers::Machine a, fibers::Machine b);
// All connections between them are lost, at both ends. False: there was none.
bool lose(fibers::Machine a, fibers::Machine b);
// Before fibers::kill(). Of a process that ends its machine tells its peers; a machine that ends tells nobody.
enum class Death { kProcess, kMachine };
void die(fibers::Machine machine, Death death);

}  // namespace brickfs::network
