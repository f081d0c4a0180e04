// SPDX-License-Identifier: Apache-2.0
// Parsers of bytes that come from others, each as a function of any bytes: what it is given never ends the process,
// keeps it for ever or makes it take memory without a bound. A sanitizer sees the rest.
//
// Where a checksum stands before a parser, the target makes it right, so that what is behind it is reached.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace brickfs::fuzz {

using Input = std::span<const std::byte>;

// --- what a brick gets from its clients
void handshakes(Input input);   // of TLS; and, by the first byte, what a client gets there
void first_calls(Input input);  // of an unauthenticated peer, and the administrator's
void brick_calls(Input input);  // of a session, one after the other
void transfers(Input input);    // frames of a connection that moves bytes
// --- what a client gets from a brick
void brick_answers(Input input);
// --- between the machines of a shared volume
void member_calls(Input input);
void member_answers(Input input);
// --- what is read from a volume, a store, etcd
void rows(Input input);
void journal(Input input);
void checkpoint(Input input);
void volume_image(Input input);
void store(Input input);
void set_map(Input input);
// --- what people and programs of this host write
void names(Input input);
void configuration(Input input);
void acl(Input input);

struct Target {
  const char* name;
  void (*run)(Input input);
};
inline constexpr std::array kTargets = {
    Target{"handshakes", handshakes},
    Target{"first_calls", first_calls},
    Target{"brick_calls", brick_calls},
    Target{"transfers", transfers},
    Target{"brick_answers", brick_answers},
    Target{"member_calls", member_calls},
    Target{"member_answers", member_answers},
    Target{"rows", rows},
    Target{"journal", journal},
    Target{"checkpoint", checkpoint},
    Target{"volume_image", volume_image},
    Target{"store", store},
    Target{"set_map", set_map},
    Target{"names", names},
    Target{"configuration", configuration},
    Target{"acl", acl},
};

}  // namespace brickfs::fuzz
