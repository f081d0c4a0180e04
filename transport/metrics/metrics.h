// SPDX-License-Identifier: Apache-2.0
// The numbers of a program at one moment, for Prometheus. Names and units are by its conventions: they begin with the
// program's name, totals end with _total, units are seconds and bytes (docs/metrics.md has all of ours).
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/base/latency_counters.h"

namespace brickfs {

class Metrics {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // One of a family: those of the same name, each with other values of the same labels. `help` is the first one's.
  void counter(const std::string& name, const std::string& help, double value, const Labels& labels = {});
  void gauge(const std::string& name, const std::string& help, double value, const Labels& labels = {});
  // Of seconds.
  void histogram(const std::string& name, const std::string& help, const LatencyCounts& counts,
                 const Labels& labels = {});

  // In the text format 0.0.4, families in the order in which they began.
  std::string text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace brickfs
