// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_mount.h"

#include <fmt/core.h>

#include "transport/base/check.h"

namespace brickfs {
namespace {

constexpr uint64_t kCapacityBlocks = 64;
constexpr std::chrono::seconds kSoft{20};

// `report`: of the volume as it is. The line says why that is not in order.
std::string check(RecordingMedium& medium, CheckReport* report) {
  auto volume = open_volume(medium.connect());
  CHECK(volume.ok());
  std::string why;
  auto checked = check_filesystem(**volume, {}, &why);
  why = first_line(checked, why);
  if (checked.ok()) *report = std::move(*checked);
  return why;
}

}  // namespace

std::shared_ptr<RecordingMedium> medium_on(const BrickState& state, bool durable, bool record) {
  return std::make_shared<RecordingMedium>(state, durable ? Durability::kDurable : Durability::kVolatile,
                                           kCapacityBlocks, record);
}

Result<std::unique_ptr<VolumeSet>> open_volume(std::unique_ptr<Brick> brick, bool soft) {
  VolumeOptions options;
  if (soft) options.soft = kSoft;
  options.open.client = ClientId{1};
  return VolumeSet::open(std::move(brick), std::move(options), nullptr);
}

std::unique_ptr<Filesystem> mount(std::unique_ptr<VolumeSet> volume, bool read_only, std::string* why) {
  MountOptions options;
  options.no_atime = true;
  options.read_only = read_only;
  auto mounted = Filesystem::mount(std::move(volume), options, why);
  if (!mounted.ok()) {
    *why = fmt::format("cannot be mounted (errno {}): {}", mounted.code(), *why);
    return nullptr;
  }
  if ((*mounted)->read_only() != read_only) {
    *why = "is mounted read-only";
    return nullptr;
  }
  return std::move(*mounted);
}

std::unique_ptr<Filesystem> mount(RecordingMedium& medium, std::string* why) {
  auto volume = open_volume(medium.connect());
  CHECK(volume.ok());
  return mount(std::move(*volume), false, why);
}

std::string first_line(const Result<CheckReport>& report, const std::string& why) {
  if (!report.ok()) return fmt::format("cannot be checked (errno {}): {}", report.code(), why);
  if (report->findings.damaged()) return "the check finds damage: " + report->findings.first_damage();
  return "";
}

std::string check_unmounted(RecordingMedium& medium) {
  CheckReport report;
  const std::string why = check(medium, &report);
  if (!why.empty() || (report.unmounted && report.leaked_blocks == 0 && report.orphans == 0)) return why;
  return fmt::format("{} blocks leaked, {} orphans, marked {}", report.leaked_blocks, report.orphans,
                     report.unmounted ? "clean" : "nothing");
}

std::string check_ended(RecordingMedium& medium) {
  CheckReport report;
  const std::string why = check(medium, &report);
  if (!why.empty() || !report.unmounted || report.leaked_blocks == 0) return why;
  return fmt::format("marked clean, with {} blocks leaked", report.leaked_blocks);
}

}  // namespace brickfs
