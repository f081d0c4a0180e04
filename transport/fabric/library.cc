// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/library.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <signal.h>

#include <array>

#include "transport/base/check.h"

namespace brickfs::fabric {
namespace {

constexpr const char* kSharedObject = "libfabric.so.1";

// What the process does about each signal. As it was, when this goes.
class KeptSignals {
 public:
  KeptSignals() {
    for (int number = 1; number < NSIG; ++number) ::sigaction(number, nullptr, &actions_[number]);
  }
  ~KeptSignals() {  // of those that are the C library's own, and of SIGKILL and SIGSTOP, it is refused
    for (int number = 1; number < NSIG; ++number) ::sigaction(number, &actions_[number], nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  std::array<struct sigaction, NSIG> actions_{};
};

struct Loaded {
  Library library{};
  std::string flaw;  // empty: it is there

  Loaded() {
    const KeptSignals signals;
    void* const object = ::dlopen(kSharedObject, RTLD_NOW | RTLD_LOCAL);
    if (object == nullptr) {
      fail();
      return;
    }
    find(object, "fi_getinfo", library.get_info);
    find(object, "fi_freeinfo", library.free_info);
    find(object, "fi_dupinfo", library.duplicate_info);
    find(object, "fi_fabric", library.open_fabric);
    find(object, "fi_strerror", library.error_text);
  }

 private:
  template <typename Function>
  void find(void* object, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(object, name));
    if (function == nullptr && flaw.empty()) fail();
  }
  void fail() {
    flaw =
        fmt::format("fabric:// needs {} (package libfabric1), which cannot be loaded: {}", kSharedObject, ::dlerror());
  }
};

const Loaded& loaded() {
  static const Loaded& loaded = *new Loaded;  // also for objects that go last
  return loaded;
}

}  // namespace

Status load_library(std::string* why) {
  if (loaded().flaw.empty()) return {};
  if (why != nullptr) *why = loaded().flaw;
  return Error(EPROTONOSUPPORT, "libfabric is not installed");
}

const Library& library() {
  CHECK(loaded().flaw.empty());
  return loaded().library;
}

}  // namespace brickfs::fabric
