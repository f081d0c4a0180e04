// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/protocol/io_error_log.h"

#include <fmt/core.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>

#include "fs/fuse/protocol/operation_counters.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

using std::chrono::steady_clock;

constexpr steady_clock::duration kPause = std::chrono::seconds(1);

constinit std::atomic<steady_clock::rep> quiet_until{0};
constinit std::atomic<uint64_t> untold{0};

bool may_tell() {
  const auto now = steady_clock::now().time_since_epoch();
  steady_clock::rep until = quiet_until;
  return now.count() >= until && quiet_until.compare_exchange_strong(until, (now + kPause).count());
}

}  // namespace

void log_io_error(uint32_t opcode, Ino ino, const Error& error) {
  if (!error.is(EIO)) return;
  if (!may_tell()) return (void)++untold;
  const uint64_t others = untold.exchange(0);
  log::warn("a program was told of an I/O error: {} of inode {}: {}{}", operation_name(opcode),
            static_cast<uint64_t>(ino), describe(error),
            others == 0 ? std::string() : fmt::format(" (and {} before it)", others));
}

}  // namespace brickfs
