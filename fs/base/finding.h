// SPDX-License-Identifier: Apache-2.0
// What reading a volume found out about its health, and what a repair did about it: one record for each thing, for
// people and for the decision whether the file system may be written to (docs/recovery.md, "Decision table").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fs/base/ids.h"
#include "transport/base/printable.h"

namespace brickfs {

struct Finding {
  enum class Area { kSuperblock, kCheckpoint, kJournal, kInode, kDirectory, kExtent, kSpace };
  enum class Severity {
    kNote,    // what a crash leaves behind and the next mount settles by itself
    kDamage,  // what no crash explains: such a file system is not written to
    kRepair,  // what a repair did about damage
  };

  Area area;
  Severity severity;
  Ino ino{};             // concerned, or kNoIno
  uint64_t address = 0;  // volume address concerned, or 0
  std::string text;      // one line, names what and where; printable once it is among Findings
};

// Findings in the order of their discovery. The first kKept are kept, all are counted: a broken volume may have
// millions.
class Findings {
 public:
  static constexpr size_t kKept = 1000;

  void add(Finding finding) {
    counts_[static_cast<size_t>(finding.severity)] += 1;
    if (kept_.size() >= kKept) return;
    finding.text = printable(finding.text);
    kept_.push_back(std::move(finding));
  }
  void damage(Finding::Area area, Ino ino, uint64_t address, std::string text) {
    add({area, Finding::Severity::kDamage, ino, address, std::move(text)});
  }
  void note(Finding::Area area, uint64_t address, std::string text) {
    add({area, Finding::Severity::kNote, kNoIno, address, std::move(text)});
  }
  void repair(Finding::Area area, Ino ino, std::string text) {
    add({area, Finding::Severity::kRepair, ino, 0, std::move(text)});
  }
  const std::vector<Finding>& kept() const { return kept_; }
  uint64_t count(Finding::Severity severity) const { return counts_[static_cast<size_t>(severity)]; }
  uint64_t all() const { return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}); }
  uint64_t damages() const { return count(Finding::Severity::kDamage); }
  bool damaged() const { return damages() > 0; }
  // The first damage in words; empty if there is none (or it came after a thousand notes).
  std::string first_damage() const {
    for (const Finding& finding : kept_) {
      if (finding.severity == Finding::Severity::kDamage) return finding.text;
    }
    return {};
  }

 private:
  std::vector<Finding> kept_;
  std::array<uint64_t, 3> counts_{};  // by severity
};

}  // namespace brickfs
