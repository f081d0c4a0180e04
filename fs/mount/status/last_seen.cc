// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/status/last_seen.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "transport/base/log.h"

namespace brickfs {
namespace {

namespace files = std::filesystem;

constexpr std::chrono::hours kKept{365 * 24};

// Empty: there is none.
files::path directory() {
  const auto below = [](const char* base, const char* rest) {
    return files::path(base) / rest / "brickfs" / "volumes";
  };
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return below(state, "");
  if (geteuid() == 0) return below("/var/lib", "");
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? below(home, ".local/state") : files::path();
}

void forget_old_ones(const files::path& where) {
  std::error_code error;
  const auto until = files::file_time_type::clock::now() - kKept;
  for (files::directory_iterator entry(where, error); !error && entry != files::directory_iterator();
       entry.increment(error)) {
    std::error_code gone;
    const auto written = entry->last_write_time(gone);
    if (!gone && written < until) files::remove(entry->path(), gone);
  }
}

bool write(const files::path& where, const std::string& name, uint64_t transaction) {
  std::error_code error;
  files::create_directories(where, error);
  const files::path next = where / ("." + name + "." + std::to_string(getpid()));
  std::ofstream(next) << transaction << ' ' << std::time(nullptr) << '\n' << std::flush;
  files::rename(next, where / name, error);
  if (error) files::remove(next, error);
  return files::exists(where / name, error);
}

}  // namespace

std::optional<LastSeen> read_last_seen(const std::string& uuid) {
  const files::path where = directory();
  if (where.empty()) return std::nullopt;
  LastSeen seen;
  std::ifstream file(where / uuid);
  if (!(file >> seen.transaction >> seen.at)) return std::nullopt;
  return seen;
}

void keep_last_seen(const std::string& uuid, uint64_t transaction) {
  const files::path where = directory();
  if (where.empty()) return;
  if (!write(where, uuid, transaction))
    log::debug("{} cannot be written: how far the volume is is not kept", where.string());
  forget_old_ones(where);
}

}  // namespace brickfs
