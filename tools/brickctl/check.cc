// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/check.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>

#include "fs/recovery/check.h"
#include "fs/recovery/repair.h"
#include "transport/base/printable.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSilent{3};  // a run that is done by then says nothing of its progress
constexpr std::chrono::seconds kBetweenLines{2};

class ProgressPrinter {
 public:
  void operator()(std::string_view what, uint64_t done, uint64_t total) {
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + kBetweenLines;
    fmt::print(stderr, "{} of {} {}\n", done, total, what);
  }

 private:
  Clock::time_point next_ = Clock::now() + kSilent;
};

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

void print_findings(const Findings& findings, const absl::flat_hash_map<uint64_t, std::string>& paths) {
  for (const Finding& finding : findings.kept()) {
    const auto path = paths.find(raw(finding.ino));
    fmt::print("{}: {}{}\n", name_of(finding.severity), finding.text,
               path == paths.end() ? "" : fmt::format(" ({})", printable(path->second)));
  }
  if (findings.all() > findings.kept().size()) fmt::print("and {} more\n", findings.all() - findings.kept().size());
}

void print_summary(const CheckReport& report, const std::string& source, bool repaired) {
  const char* verdict = repaired ? "repaired" : "clean";
  if (report.findings.damaged()) verdict = "damaged";
  if (report.has_filesystem) {
    fmt::print("{}: {}, file system {}: {} inodes, {} KiB in files, {} blocks, {} transactions to replay\n", source,
               verdict, report.uuid, report.inodes, report.used_units * kUnitBytes / kKiB, report.blocks,
               report.transactions);
  } else {
    fmt::print("{}: {}, no file system, {} blocks\n", source, verdict, report.blocks);
  }
}

int fail(const std::string& source, const std::string& why, int exit_code) {
  fmt::print(stderr, "brickctl: {}: {}\n", source, printable(why));
  return exit_code;
}

}  // namespace

int run_check(VolumeClient& volume, const std::string& source, bool repair) {
  const Progress progress = ProgressPrinter();
  std::string why;
  auto report = check_filesystem(volume, progress, &why);
  if (!report.ok()) return fail(source, why.empty() ? report.error().what() : why, kCheckFailed);
  print_findings(report->findings, report->paths);
  const bool repairing = repair && report->findings.damaged();
  if (repairing) {
    const auto repairs = repair_filesystem(volume, progress, &why);
    if (!repairs.ok()) return fail(source, "not repaired: " + why, kCheckDamage);
    report = check_filesystem(volume, progress, &why);
    if (!report.ok()) return fail(source, why.empty() ? report.error().what() : why, kCheckFailed);
    print_findings(*repairs, {});
    print_findings(report->findings, report->paths);
  }
  print_summary(*report, source, repairing);
  if (report->findings.damaged()) return kCheckDamage;
  return repairing ? kCheckRepaired : kCheckClean;
}

}  // namespace brickfs
