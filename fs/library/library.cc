// SPDX-License-Identifier: Apache-2.0
// What concerns the library as a whole: its version, its log, and why an open failed.
#include <memory>
#include <string_view>
#include <vector>

#include "fs/library/brickfs.h"
#include "fs/library/call.h"
#include "fs/library/quiet.h"
#include "transport/base/log.h"
#include "transport/base/mutex.h"

namespace brickfs::library {
namespace {

static_assert(std::string_view(BRICKFS_LIBRARY_VERSION) == BRICKFS_VERSION, "brickfs.h has the project's version");

thread_local std::string open_error;

struct HostLog {
  brickfs_log_fn function;
  void* context;
};

void tell_host(void* context, log::Level level, const char* text) {
  const auto* const host = static_cast<const HostLog*>(context);
  host->function(host->context, static_cast<int>(level), text);
}

void tell_nobody(void*, log::Level, const char*) {}

constexpr log::Sink kNobody{tell_nobody, nullptr, log::Level::kOff};

static_assert(static_cast<int>(log::Level::kDebug) == BRICKFS_LOG_DEBUG);
static_assert(static_cast<int>(log::Level::kError) == BRICKFS_LOG_ERROR);

// Sinks stay for ever: a line may be on its way to a former one.
struct Targets {
  Mutex mutex;
  bool chosen ABSL_GUARDED_BY(mutex) = false;
  std::vector<std::unique_ptr<std::pair<HostLog, log::Sink>>> former ABSL_GUARDED_BY(mutex);
};

Targets& targets() {
  static Targets* const all = new Targets;  // threads may still log when the process ends
  return *all;
}

}  // namespace

void set_open_error(std::string why) { open_error = std::move(why); }

void be_quiet() {
  Targets& all = targets();
  MutexLock lock(all.mutex);
  if (!all.chosen) log::set_sink(&kNobody);
  all.chosen = true;
}

}  // namespace brickfs::library

using namespace brickfs::library;

const char* brickfs_version(void) { return BRICKFS_VERSION; }

const char* brickfs_error(void) { return open_error.c_str(); }

int brickfs_set_log(brickfs_log_fn function, void* context, int level) {
  return guarded([&]() -> int {
    if (level < BRICKFS_LOG_DEBUG || level > BRICKFS_LOG_ERROR) return -EINVAL;
    Targets& all = targets();
    brickfs::MutexLock lock(all.mutex);
    all.chosen = true;
    if (function == nullptr) {
      brickfs::log::set_sink(&kNobody);
      return 0;
    }
    auto target = std::make_unique<std::pair<HostLog, brickfs::log::Sink>>();
    target->first = {function, context};
    target->second = {tell_host, &target->first, static_cast<brickfs::log::Level>(level)};
    brickfs::log::set_sink(&target->second);
    all.former.push_back(std::move(target));
    return 0;
  });
}
