// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/check.h"

#include <fmt/core.h>

#include <cstdio>

#include "fs/check.h"

namespace brickfs {
namespace {

void print_findings(const Findings& findings) {
  for (const Finding& finding : findings.kept()) {
    fmt::print("{}: {}\n", finding.severity == Finding::Severity::kDamage ? "damage" : "note", finding.text);
  }
  const uint64_t all = findings.damages() + findings.notes();
  if (all > findings.kept().size()) fmt::print("and {} more\n", all - findings.kept().size());
}

}  // namespace

int run_check(VolumeClient& volume, const std::string& source) {
  std::string why;
  const auto report = check_filesystem(volume, &why);
  if (!report.ok()) {
    fmt::print(stderr, "brickctl: {}: {}\n", source, why.empty() ? report.error().what() : why);
    return kCheckFailed;
  }
  print_findings(report->findings);
  const char* const verdict = report->findings.damaged() ? "damaged" : "clean";
  if (report->has_filesystem) {
    fmt::print("{}: {}, file system {}: {} inodes, {} KiB in files, {} blocks, {} transactions to replay\n", source,
               verdict, report->uuid, report->inodes, report->used_units * kUnitBytes / kKiB, report->blocks,
               report->transactions);
  } else {
    fmt::print("{}: {}, no file system, {} blocks\n", source, verdict, report->blocks);
  }
  return report->findings.damaged() ? kCheckDamage : kCheckClean;
}

}  // namespace brickfs
