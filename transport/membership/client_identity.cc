// SPDX-License-Identifier: Apache-2.0
#include "transport/membership/client_identity.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "transport/base/random.h"

namespace brickfs {
namespace {

constexpr unsigned kPidBits = 22;  // Linux has no larger ones
constexpr unsigned kRandomBits = 10;

// Of this boot of this machine, and of our pid namespace; FNV-1a. 0: it cannot be known.
uint32_t this_place() {
  std::ifstream boot_file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat space {};
  if (!(boot_file >> boot) || ::stat("/proc/self/ns/pid", &space) != 0) return 0;
  uint32_t hash = 2166136261;
  for (const char letter : fmt::format("{} {}", boot, space.st_ino)) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619;
  }
  return hash;
}

// "PID (any text) STATE ...": a zombie has ended, its parent has not taken notice.
bool is_zombie(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(file, line);
  const size_t state = line.rfind(") ");
  return state != std::string::npos && state + 2 < line.size() && (line[state + 2] == 'Z' || line[state + 2] == 'X');
}

}  // namespace

ClientId make_client_id() {
  const auto random = random_id<uint64_t>();
  const auto process = static_cast<uint64_t>(::getpid()) & ((uint64_t{1} << kPidBits) - 1);
  return ClientId{uint64_t{this_place()} << (kPidBits + kRandomBits) | process << kRandomBits |
                  random >> (64 - kRandomBits)};
}

std::optional<pid_t> local_process(ClientId client) {
  const auto id = static_cast<uint64_t>(client);
  const auto place = static_cast<uint32_t>(id >> (kPidBits + kRandomBits));
  const auto process = static_cast<pid_t>(id >> kRandomBits & ((uint64_t{1} << kPidBits) - 1));
  if (place == 0 || process == 0 || place != this_place()) return std::nullopt;
  return process;
}

bool has_ended(ClientId client) {
  const auto process = local_process(client);
  return process && ((::kill(*process, 0) != 0 && errno == ESRCH) || is_zombie(*process));
}

Result<Session> open_past_ended(Brick& brick, OpenRequest request, Holder* holder) {
  Holder found;
  auto session = brick.open(request, &found);
  if (session.code() == EBUSY && found.kept_for.count() > 0 && has_ended(found.client)) {
    request.ended = found.client;
    session = brick.open(request, &found);
  }
  if (holder != nullptr) *holder = found;
  return session;
}

}  // namespace brickfs
