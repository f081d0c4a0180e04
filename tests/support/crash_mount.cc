// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_mount.h"

#include <fmt/core.h>

#include "transport/base/check.h"

namespace brickfs {
namespace {

constexpr uint64_t kCapacityBlocks = 64;
constexpr std::chrono::seconds kSoft{20};

// By another client than the last one, which may live.
Result<std::unique_ptr<VolumeSet>> open_copies(RecordingMedium& medium, std::string* why) {
  VolumeOptions options;
  options.open.client = ClientId{0x100'0000 + medium.state().map->generation};
  const auto make = [on = medium.shared_from_this()](const std::string& source,
                                                     std::string*) -> Result<std::unique_ptr<Brick>> {
    const auto part = on->part_of(source);
    CHECK(part.has_value());
    return on->connect(*part);
  };
  SetRefusal refusal;
  auto volume = VolumeSet::open(medium.map_store(), make, options, &refusal);
  if (!volume.ok()) *why = fmt::format("cannot be opened (errno {}): {}", volume.code(), refusal.why);
  return volume;
}

// `report`: of the volume as it is. The line says why that is not in order.
std::string check(RecordingMedium& medium, CheckReport* report) {
  std::string why;
  auto volume = open_volume(medium, &why);
  if (!volume.ok()) return why;
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

Result<std::unique_ptr<VolumeSet>> open_volume(RecordingMedium& medium, std::string* why) {
  if (medium.has_copies()) return open_copies(medium, why);
  std::vector<SetBrick> bricks;
  for (size_t place = 0; place < medium.places(); ++place) {
    bricks.push_back({fmt::format("brick {}", place), medium.connect(place)});
  }
  VolumeOptions options;
  options.open.client = ClientId{0x100};
  SetRefusal refusal;
  auto volume = VolumeSet::open(std::move(bricks), options, false, &refusal);
  if (!volume.ok()) *why = fmt::format("cannot be opened (errno {}): {}", volume.code(), refusal.why);
  return volume;
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
    *why = fmt::format("is mounted read-only: {}", (*mounted)->why_read_only());
    return nullptr;
  }
  return std::move(*mounted);
}

std::unique_ptr<Filesystem> mount(RecordingMedium& medium, std::string* why) {
  auto volume = open_volume(medium, why);
  if (!volume.ok()) return nullptr;
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
