// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/check.h"

#include <fmt/core.h>

#include <cstdio>

#include "fs/recovery/check.h"
#include "fs/recovery/repair.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/set_scrub.h"
#include "transport/base/printable.h"
#include "transport/base/progress_bar.h"

namespace brickfs {
namespace {

const char* name_of(Finding::Severity severity) {
  switch (severity) {
    case Finding::Severity::kNote:
      return "note";
    case Finding::Severity::kDamage:
      return "damage";
    case Finding::Severity::kRepair:
      return "repair";
  }
  return "";
}

using Paths = absl::flat_hash_map<uint64_t, std::string>;

void print_findings(const Findings& findings, const Paths& paths) {
  for (const Finding& finding : findings.kept()) {
    const auto path = paths.find(raw(finding.ino));
    fmt::print("{}: {}{}\n", name_of(finding.severity), finding.text,
               path == paths.end() ? "" : fmt::format(" ({})", printable(path->second)));
  }
  if (findings.all() > findings.kept().size()) fmt::print("and {} more\n", findings.all() - findings.kept().size());
}

void add_findings(Json& list, const Findings& findings, const Paths& paths) {
  for (const Finding& finding : findings.kept()) {
    Json one = {{"severity", name_of(finding.severity)}, {"text", finding.text}};
    if (finding.ino != kNoIno) one["inode"] = raw(finding.ino);
    if (const auto path = paths.find(raw(finding.ino)); path != paths.end()) one["path"] = path->second;
    list.push_back(one);
  }
}

const char* verdict_of(const CheckReport& report, bool repaired) {
  if (report.findings.damaged()) return "damaged";
  return repaired ? "repaired" : "clean";
}

void print_summary(const CheckReport& report, const std::string& source, bool repaired) {
  const char* const verdict = verdict_of(report, repaired);
  if (report.has_filesystem) {
    fmt::print("{}: {}, file system {}: {} inodes, {} KiB in files, {} blocks, {} transactions to replay\n", source,
               verdict, report.uuid, report.inodes, report.used_units * kUnitBytes / kKiB, report.blocks,
               report.transactions);
  } else {
    fmt::print("{}: {}, no file system, {} blocks\n", source, verdict, report.blocks);
  }
}

// What there was before a repair, what was mended, what there is now.
void print_everything_as_json(const CheckReport& report, const std::string& source, bool repaired, Json findings) {
  add_findings(findings, report.findings, report.paths);
  Json json = {{"source", source}, {"verdict", verdict_of(report, repaired)}, {"uuid", nullptr}};
  if (report.has_filesystem) json["uuid"] = report.uuid;
  json["inodes"] = report.inodes;
  json["file_bytes"] = report.used_units * kUnitBytes;
  json["blocks"] = report.blocks;
  json["transactions"] = report.transactions;
  json["findings"] = std::move(findings);
  json["damages_left"] = report.findings.damages();
  print_json(json);
}

// Of a replicated set, whose copies are read as readers may: all but the first one has not been looked at otherwise.
Status add_differences(VolumeSet& volume, const Progress& progress, CheckReport& report) {
  if (!volume.is_replicated()) return {};
  const ReplicaComparison found = TRY(compare_replicas(volume, {0, progress, nullptr}));
  for (const ReplicaDifference& difference : found.differences) {
    report.findings.damage(Finding::Area::kSpace, kNoIno, difference.address, describe(difference));
  }
  for (const std::string& copy : found.not_there) report.findings.note(Finding::Area::kSpace, 0, describe_absent(copy));
  if (found.differing > found.differences.size()) {
    report.findings.damage(Finding::Area::kSpace, kNoIno, 0,
                           fmt::format("{} more blocks of copies differ", found.differing - found.differences.size()));
  }
  return {};
}

int fail(const std::string& source, const std::string& why, int exit_code) {
  fmt::print(stderr, "brickctl: {}: {}\n", source, printable(why));
  return exit_code;
}

}  // namespace

int run_check(VolumeSet& volume, const Command& command) {
  const std::string& source = command.source;
  ProgressBar bar;
  const Progress progress = [&bar](std::string_view what, uint64_t done, uint64_t total) {
    bar.show(what, done, total);
  };
  std::string why;
  Json earlier = Json::array();
  const auto tell = [&](const Findings& findings, const Paths& paths) {
    bar.end();
    if (command.json) add_findings(earlier, findings, paths);
    if (!command.json) print_findings(findings, paths);
  };
  auto report = check_filesystem(volume, progress, &why);
  const Status compared = report.ok() && !command.repair ? add_differences(volume, progress, *report) : Status();
  bar.end();
  if (!report.ok()) return fail(source, why.empty() ? report.error().what() : why, kCheckFailed);
  if (!compared.ok()) return fail(source, compared.error().what(), kCheckFailed);
  const bool repairing = command.repair && report->findings.damaged();
  if (repairing) {
    tell(report->findings, report->paths);
    const auto repairs = repair_filesystem(volume, progress, &why);
    bar.end();
    if (!repairs.ok()) return fail(source, "not repaired: " + why, kCheckDamage);
    tell(*repairs, {});
    report = check_filesystem(volume, progress, &why);
    bar.end();
    if (!report.ok()) return fail(source, why.empty() ? report.error().what() : why, kCheckFailed);
  }
  if (command.json) {
    print_everything_as_json(*report, source, repairing, std::move(earlier));
  } else {
    print_findings(report->findings, report->paths);
    print_summary(*report, source, repairing);
  }
  if (report->findings.damaged()) return kCheckDamage;
  return repairing ? kCheckRepaired : kCheckClean;
}

}  // namespace brickfs
