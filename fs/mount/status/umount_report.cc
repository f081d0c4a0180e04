// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/status/umount_report.h"

#include <fmt/core.h>

#include <sstream>

namespace brickfs {
namespace {

constexpr size_t kTextBytes = 1024;

// As one line.
std::string flat(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  text.resize(std::min(text.size(), kTextBytes));
  return text;
}

}  // namespace

std::string encode(const UmountReport& report) {
  return fmt::format("{} {} {} {} {} {} {} {}\n{}\n{}\n{}\n", static_cast<int>(report.link), report.serving ? 1 : 0,
                     report.ended ? 1 : 0, report.pid, report.linger_seconds, report.progress,
                     report.uncommitted_operations, report.uncommitted_bytes, flat(report.uncommitted),
                     flat(report.text), flat(report.options));
}

std::optional<UmountReport> decode_umount_report(std::string_view packet) {
  std::istringstream lines{std::string(packet)};
  UmountReport report;
  int link = 0;
  int serving = 0;
  int ended = 0;
  lines >> link >> serving >> ended >> report.pid >> report.linger_seconds >> report.progress;
  if (!lines) return std::nullopt;
  if (link < 0 || link > static_cast<int>(LinkState::Kind::kFailed)) return std::nullopt;
  report.link = static_cast<LinkState::Kind>(link);
  report.serving = serving != 0;
  report.ended = ended != 0;
  std::string rest;
  if (std::getline(lines, rest)) std::istringstream(rest) >> report.uncommitted_operations >> report.uncommitted_bytes;
  for (std::string* const line : {&report.uncommitted, &report.text, &report.options}) {
    if (!std::getline(lines, *line)) return std::nullopt;
  }
  return report;
}

std::string umount_socket(std::string_view device_number) {
  return fmt::format("{}/{}", kUmountDirectory, device_number);
}

}  // namespace brickfs
