// SPDX-License-Identifier: Apache-2.0
#include "server/store/memory_room.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace brickfs {
namespace {

std::optional<uint64_t> number_in(const std::filesystem::path& file) {
  uint64_t number = 0;
  std::ifstream stream(file);
  if (stream >> number) return number;
  return std::nullopt;  // not there, or "max"
}

// Of /proc/meminfo; 0: not there.
uint64_t machine_bytes(std::string_view wanted) {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  std::string rest;
  while (meminfo >> name >> kib && std::getline(meminfo, rest)) {
    if (name == wanted) return kib * 1024;
  }
  return 0;
}

// "0::/a/b" of /proc/self/cgroup, below the mount.
std::filesystem::path own_group() {
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    if (line.starts_with("0::/")) return std::filesystem::path("/sys/fs/cgroup") / line.substr(4);
  }
  return {};
}

}  // namespace

uint64_t memory_room_bytes() {
  uint64_t room = machine_bytes("MemAvailable:");
  for (auto group = own_group(); group.string().starts_with("/sys/fs/cgroup/"); group = group.parent_path()) {
    const auto most = number_in(group / "memory.max");
    const auto current = number_in(group / "memory.current");
    if (most && current) room = std::min(room, *most - std::min(*most, *current));
  }
  return room;
}

uint64_t memory_most_bytes() {
  uint64_t most = machine_bytes("MemTotal:") + machine_bytes("SwapTotal:");
  for (auto group = own_group(); group.string().starts_with("/sys/fs/cgroup/"); group = group.parent_path()) {
    if (const auto allowed = number_in(group / "memory.max")) most = std::min(most, *allowed);
  }
  return most;
}

}  // namespace brickfs
