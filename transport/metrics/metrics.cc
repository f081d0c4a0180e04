// SPDX-License-Identifier: Apache-2.0
#include "transport/metrics/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>

namespace brickfs {

struct Metrics::Families {
  std::vector<prometheus::MetricFamily> all;

  prometheus::ClientMetric& add(prometheus::MetricType type, const std::string& name, const std::string& help,
                                const Labels& labels) {
    auto family = std::ranges::find(all, name, &prometheus::MetricFamily::name);
    if (family == all.end()) {
      prometheus::MetricFamily made;
      made.name = name;
      made.help = help;
      made.type = type;
      family = all.insert(all.end(), std::move(made));
    }
    prometheus::ClientMetric& metric = family->metric.emplace_back();
    for (const auto& [label, value] : labels) metric.label.push_back({label, value});
    return metric;
  }
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::counter(const std::string& name, const std::string& help, double value, const Labels& labels) {
  families_->add(prometheus::MetricType::Counter, name, help, labels).counter.value = value;
}

void Metrics::gauge(const std::string& name, const std::string& help, double value, const Labels& labels) {
  families_->add(prometheus::MetricType::Gauge, name, help, labels).gauge.value = value;
}

void Metrics::histogram(const std::string& name, const std::string& help, const LatencyCounts& counts,
                        const Labels& labels) {
  auto& histogram = families_->add(prometheus::MetricType::Histogram, name, help, labels).histogram;
  uint64_t below = 0;
  for (size_t i = 0; i < kLatencyBuckets; ++i) {
    below += counts.buckets[i];
    const bool last = i + 1 == kLatencyBuckets;
    histogram.bucket.push_back({below, last ? std::numeric_limits<double>::infinity() : latency_bucket_seconds(i)});
  }
  histogram.sample_count = below;
  histogram.sample_sum = static_cast<double>(counts.nanoseconds) * 1e-9;
}

std::string Metrics::text() const { return prometheus::TextSerializer().Serialize(families_->all); }

}  // namespace brickfs
