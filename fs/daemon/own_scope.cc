// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/own_scope.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string_view>
#include <thread>

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Root's way to systemd, which is there before D-Bus is, and after it (as `systemctl` goes).
constexpr const char* kPrivateSocket = "/run/systemd/private";
constexpr const char* kPrivateAddress = "unix:path=/run/systemd/private";
constexpr uint64_t kAnswerMicroseconds = 5'000'000;
constexpr milliseconds kMoved{2'000};
constexpr milliseconds kLookWhereWeAre{5};
constexpr size_t kUnitNameBytes = 255;

constexpr const char* kSystemd = "org.freedesktop.systemd1";
constexpr const char* kManagerPath = "/org/freedesktop/systemd1";
constexpr const char* kManager = "org.freedesktop.systemd1.Manager";
constexpr const char* kService = "org.freedesktop.systemd1.Service";

Error bus_error(int negative, const char* what) { return Error(-negative, what); }

struct UnrefBus {
  void operator()(sd_bus* bus) const { sd_bus_flush_close_unref(bus); }
};
struct UnrefMessage {
  void operator()(sd_bus_message* message) const { sd_bus_message_unref(message); }
};
using Bus = std::unique_ptr<sd_bus, UnrefBus>;
using Message = std::unique_ptr<sd_bus_message, UnrefMessage>;

// Of a container that sees the host's systemd the pids are others: that one is not its first process.
bool is_our_first_process(const Bus& bus) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  const int fd = sd_bus_get_fd(bus.get());
  return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid == 1;
}

Result<Bus> connect_to_systemd() {
  if (geteuid() != 0) return Error(EPERM, "systemd");
  if (access(kPrivateSocket, F_OK) != 0) return Error(ENOENT, "systemd");
  sd_bus* made = nullptr;
  if (const int failed = sd_bus_new(&made); failed < 0) return bus_error(failed, "systemd");
  Bus bus(made);
  if (const int failed = sd_bus_set_address(made, kPrivateAddress); failed < 0) return bus_error(failed, "systemd");
  if (const int failed = sd_bus_start(made); failed < 0) return bus_error(failed, "systemd");
  if (!is_our_first_process(bus)) return Error(ENOENT, "systemd");
  return bus;
}

// systemd takes for such a service's process what its first one has left behind, as brickfs does.
bool may_be_a_service(const Bus& bus) {
  sd_bus_message* made = nullptr;
  const int found = sd_bus_call_method(bus.get(), kSystemd, kManagerPath, kManager, "GetUnitByPID", nullptr, &made, "u",
                                       static_cast<uint32_t>(getpid()));
  if (found < 0) return false;
  const Message answer(made);
  const char* unit = nullptr;
  char* type = nullptr;
  int remains = 0;
  if (sd_bus_message_read(made, "o", &unit) < 0) return false;
  if (sd_bus_get_property_string(bus.get(), kSystemd, unit, kService, "Type", nullptr, &type) < 0) return false;
  const std::unique_ptr<char, decltype(&free)> owned(type, free);
  (void)sd_bus_get_property_trivial(bus.get(), kSystemd, unit, kService, "RemainAfterExit", nullptr, 'b', &remains);
  return std::string_view(type) == "forking" && remains == 0;
}

// A property of the scope that is to be: its name and its value.
template <typename... Values>
int append(const Message& message, const char* name, const char* type, Values... values) {
  return sd_bus_message_append(message.get(), "(sv)", name, type, values...);
}

// What the mount's unit is ordered after by default (systemd.mount(5)), this is, too: between the two, so.
int append_properties(const Message& message, const std::string& mountpoint, bool over_network) {
  const std::string unit = mount_unit(mountpoint);
  int failed = append(message, "Description", "s", ("brickfs of " + mountpoint).c_str());
  if (failed >= 0) failed = append(message, "PIDs", "au", 1, static_cast<uint32_t>(getpid()));
  if (failed >= 0) failed = append(message, "Slice", "s", "system.slice");
  if (failed >= 0) failed = append(message, "CollectMode", "s", "inactive-or-failed");
  if (failed >= 0 && unit.size() <= kUnitNameBytes) failed = append(message, "Before", "as", 1, unit.c_str());
  if (failed >= 0 && over_network) failed = append(message, "After", "as", 2, "remote-fs-pre.target", "network.target");
  if (failed >= 0 && !over_network) failed = append(message, "After", "as", 1, "local-fs-pre.target");
  return failed;
}

Status start_scope(const Bus& bus, const std::string& scope, const std::string& mountpoint, bool over_network) {
  sd_bus_message* made = nullptr;
  int failed = sd_bus_message_new_method_call(bus.get(), &made, kSystemd, kManagerPath, kManager, "StartTransientUnit");
  if (failed < 0) return bus_error(failed, "a scope");
  const Message message(made);
  failed = sd_bus_message_append(made, "ss", scope.c_str(), "fail");
  if (failed >= 0) failed = sd_bus_message_open_container(made, 'a', "(sv)");
  if (failed >= 0) failed = append_properties(message, mountpoint, over_network);
  if (failed >= 0) failed = sd_bus_message_close_container(made);
  if (failed >= 0) failed = sd_bus_message_append(made, "a(sa(sv))", 0);
  if (failed >= 0) failed = sd_bus_call(bus.get(), made, kAnswerMicroseconds, nullptr, nullptr);
  return failed < 0 ? bus_error(failed, "a scope") : Status();
}

bool is_in(const std::string& scope) {
  std::ifstream lines("/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with("/" + scope)) return true;
  }
  return false;
}

}  // namespace

Status move_to_own_scope(const std::string& mountpoint, bool over_network) {
  const Bus bus = TRY(connect_to_systemd());
  if (may_be_a_service(bus)) return Error(EBUSY, "a scope");
  const std::string scope = fmt::format("brickfs-{}.scope", getpid());
  TRY(start_scope(bus, scope, mountpoint, over_network));
  for (const auto until = steady_clock::now() + kMoved; !is_in(scope); std::this_thread::sleep_for(kLookWhereWeAre)) {
    if (steady_clock::now() >= until) return Error(ETIMEDOUT, "a scope");
  }
  return {};
}

std::string mount_unit(const std::string& mountpoint) {
  std::string name;
  bool slash = false;  // between two parts of the path, however often
  for (const char c : mountpoint) {
    if (c == '/') {
      slash = true;
      continue;
    }
    if (slash && !name.empty()) name.push_back('-');
    slash = false;
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '_' || (c == '.' && !name.empty());
    name += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return (name.empty() ? "-" : name) + ".mount";
}

}  // namespace brickfs
