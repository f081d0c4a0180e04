// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_metrics.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "transport/brick/block.h"

namespace brickfs {
namespace {

double bytes_of_blocks(uint64_t blocks) { return static_cast<double>(blocks * kBlockBytes); }

void add_volumes(const BrickNumbers& numbers, Metrics& metrics) {
  const auto gauge = [&](const char* name, const char* help, auto&& value) {
    for (const VolumeStatus& volume : numbers.volumes)
      metrics.gauge(name, help, value(volume), {{"volume", volume.name}});
  };
  gauge("brickd_volume_capacity_bytes", "What the volume may allocate.", [&](const VolumeStatus& volume) {
    return bytes_of_blocks(std::min(volume.size_blocks.value_or(UINT64_MAX), numbers.capacity_blocks));
  });
  gauge("brickd_volume_used_bytes", "What the volume has allocated.",
        [](const VolumeStatus& volume) { return bytes_of_blocks(volume.used_blocks); });
  gauge("brickd_volume_mapped_bytes", "What clients have mapped of the volume.",
        [](const VolumeStatus& volume) { return bytes_of_blocks(volume.mapped_blocks); });
  gauge("brickd_volume_resident_bytes", "What of the volume is in memory.",
        [](const VolumeStatus& volume) { return bytes_of_blocks(volume.resident_blocks); });
  gauge("brickd_volume_held", "1: a client that is connected holds the volume, for writing or reading.",
        [](const VolumeStatus& volume) { return volume.holder && !volume.holder_away ? 1 : 0; });
}

void add_brick(const BrickService& service, const BrickNumbers& numbers, Metrics& metrics) {
  metrics.gauge("brickd_info", "1, with what the brick is.", 1,
                {{"version", BRICKFS_VERSION},
                 {"durability", service.durability() == Durability::kDurable ? "durable" : "volatile"},
                 {"medium", numbers.medium}});
  metrics.gauge("brickd_capacity_bytes", "What all volumes together may allocate.",
                bytes_of_blocks(numbers.capacity_blocks));
  metrics.gauge("brickd_used_bytes", "What all volumes have allocated.", bytes_of_blocks(numbers.blocks.used));
  metrics.gauge("brickd_memory_bytes", "What may be in memory at once.", bytes_of_blocks(numbers.memory_blocks));
  metrics.gauge("brickd_resident_bytes", "What is in memory.", bytes_of_blocks(numbers.blocks.resident));
  metrics.gauge("brickd_suspect_bytes",
                "Blocks that are newer in memory than what a client that went may have committed.",
                bytes_of_blocks(numbers.blocks.suspect));
  const auto sessions = [&](const char* mode, uint64_t count) {
    metrics.gauge("brickd_sessions", "Clients that are connected, by what they may do.", static_cast<double>(count),
                  {{"mode", mode}});
  };
  sessions("exclusive", numbers.holders);
  sessions("read_only", numbers.readers);
  sessions("observe", numbers.observers);
  const auto cut_off = [&](const char* reason, uint64_t count) {
    metrics.counter("brickd_sessions_cut_off_total", "Sessions that the brick ended against their client's will.",
                    static_cast<double>(count), {{"reason", reason}});
  };
  cut_off("silent", numbers.cut_off_silent);
  cut_off("taken_over", numbers.cut_off_by_takers);
  cut_off("removed", numbers.cut_off_by_removal);
}

void add_store(const BrickNumbers& numbers, Metrics& metrics) {
  const auto counter = [&](const char* name, const char* help, uint64_t value) {
    metrics.counter(name, help, static_cast<double>(value));
  };
  counter("brickd_commits_total", "Commits that clients were told are done.", numbers.blocks.commits);
  counter("brickd_committed_bytes_total", "Bytes that these commits wrote.", numbers.blocks.committed_bytes);
  counter("brickd_block_loads_total", "Blocks read from the store into memory.", numbers.blocks.loads);
  counter("brickd_block_evictions_total", "Blocks that left memory for others.", numbers.blocks.evictions);
  counter("brickd_block_write_backs_total",
          "Blocks compared with the store, and written there where they differed, but for commits.",
          numbers.blocks.write_backs);
  counter("brickd_store_errors_total", "Reads, writes, reservations and syncs of the store that failed.",
          numbers.blocks.store_errors);
  metrics.gauge("brickd_store_failed", "1: a sync of the store failed, and nothing is committed any more.",
                numbers.store_failed ? 1 : 0);
  metrics.gauge("brickd_store_disk_full", "1: the store's disk has no room for blocks that the brick could have.",
                numbers.store_disk_full ? 1 : 0);
  if (numbers.blocks.disk_room_bytes) {
    metrics.gauge("brickd_store_disk_room_bytes", "Room on the store's disk, besides what is reserved.",
                  static_cast<double>(*numbers.blocks.disk_room_bytes));
  }
}

void add_listener(const Listener& listener, Metrics& metrics) {
  const PeerCounters& counters = listener.counters();
  const std::string transport(listener.transport());
  const auto labels = [&](const char* name, const char* value) -> Metrics::Labels {
    return {{"transport", transport}, {name, value}};
  };
  for (const calls::NamedKind& call : calls::kKinds) {
    const LatencyCounts counts = counters.calls_of(call.kind);
    metrics.histogram("brickd_call_duration_seconds", "How long the brick took for control calls.", counts,
                      labels("call", call.name));
    metrics.counter("brickd_call_errors_total", "Control calls that were answered with an error.",
                    static_cast<double>(counts.failures), labels("call", call.name));
  }
  for (size_t i = 0; i < kRefusedNames.size(); ++i) {
    metrics.counter("brickd_connections_refused_total", "Connections and sessions that were refused.",
                    static_cast<double>(counters.refused_for(Refused{i})), labels("reason", kRefusedNames[i]));
  }
  metrics.gauge("brickd_connections", "Connections of peers that have proved themselves.",
                static_cast<double>(listener.admitted()), {{"transport", transport}});
  metrics.counter("brickd_connections_total", "Connections of peers that have proved themselves, so far.",
                  static_cast<double>(counters.admitted_so_far()), {{"transport", transport}});
  if (!listener.moves_bytes()) return;
  for (const auto& [direction, name] : {std::pair{Direction::kRead, "read"}, std::pair{Direction::kWrite, "write"}}) {
    metrics.counter("brickd_transfers_total", "Reads and writes of clients, as they come over TCP.",
                    static_cast<double>(counters.transfers(direction)), labels("direction", name));
    metrics.counter("brickd_transferred_bytes_total", "Bytes of these reads and writes.",
                    static_cast<double>(counters.transferred_bytes(direction)), labels("direction", name));
  }
}

// Since 1970: by the kernel's word, in ticks after the boot.
double start_of_process() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t behind_name = text.rfind(')');
  if (behind_name == std::string::npos) return 0;
  unsigned long long ticks = 0;
  if (std::sscanf(text.c_str() + behind_name + 1,
                  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &ticks) != 1) {
    return 0;
  }
  const auto seconds = [](clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  };
  const double since_boot = static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return seconds(CLOCK_REALTIME) - seconds(CLOCK_BOOTTIME) + since_boot;
}

// By the names that all of Prometheus's clients have for them.
void add_process(Metrics& metrics) {
  static const double started = start_of_process();
  metrics.gauge("process_start_time_seconds", "When brickd began, since 1970.", started);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  metrics.counter("process_cpu_seconds_total", "Processor time of brickd.",
                  seconds(usage.ru_utime) + seconds(usage.ru_stime));
  std::ifstream memory("/proc/self/statm");
  uint64_t all_pages = 0;
  uint64_t resident_pages = 0;
  memory >> all_pages >> resident_pages;
  metrics.gauge("process_resident_memory_bytes", "Memory of brickd that is in memory.",
                static_cast<double>(resident_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))));
  std::error_code none;
  const std::filesystem::directory_iterator open("/proc/self/fd", none);
  metrics.gauge("process_open_fds", "Descriptors that brickd has open.",
                static_cast<double>(std::distance(begin(open), end(open))));
}

}  // namespace

void collect_metrics(const BrickService& service, const std::vector<const Listener*>& listeners, Metrics& metrics) {
  const BrickNumbers numbers = service.numbers();
  add_brick(service, numbers, metrics);
  add_volumes(numbers, metrics);
  add_store(numbers, metrics);
  for (const Listener* const listener : listeners) add_listener(*listener, metrics);
  add_process(metrics);
}

}  // namespace brickfs
