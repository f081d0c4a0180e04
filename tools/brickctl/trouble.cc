// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/trouble.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "tools/brickctl/target.h"
#include "transport/base/bytes.h"
#include "transport/base/local_time.h"
#include "transport/base/size.h"
#include "transport/brick/block.h"
#include "transport/brick/refusal.h"
#include "transport/brick/source.h"
#include "transport/brick/store_trouble.h"
#include "transport/verbs/device.h"
#include "transport/volume/link_state.h"

namespace brickfs {
namespace {

constexpr double kCommitIsStuck = 5;  // seconds
constexpr double kEtcdIsAway = 5;     // seconds
constexpr double kLinkIsYoung = 60;   // seconds
constexpr const char* kCoordinatorAdvice =
    "operations wait for the machine that coordinates the volume: is brickfs stopped there, or its host cut off? (on "
    "that "
    "host: brickctl explain MOUNTPOINT); if it is gone for good: umount, and mount again";
constexpr uint64_t kLinkFlaps = 6;           // changes: away and back are two
constexpr uint64_t kLittleRoom = 64 * kMiB;  // or a fiftieth, if that is less
constexpr uint64_t kFiftieth = 50;
constexpr uint64_t kTenth = 10;

std::string for_seconds(double seconds) {
  if (seconds < 1) return "just now";
  if (seconds < 120) return fmt::format("for {:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("for {:.0f} min", seconds / 60);
  return fmt::format("for {:.1f} h", seconds / 3600);
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

constexpr const char* kOutageAdvice =
    "does the brick's host run, and brickd on it? can it be reached from here (brickctl ping SOURCE)? what waits goes "
    "on "
    "when it is back, and can be killed";

constexpr const char* kEtcdAdvice =
    "does it run, and can it be reached from here (etcdctl endpoint health)? what waits goes on when it answers, or "
    "when "
    "the brick is back";

constexpr const char* kFullDiskAdvice =
    "make room on the disk under the brick's store; commits go on by themselves, nothing is forgotten meanwhile";
constexpr const char* kTlsAdvice =
    "one end requires TLS, and the other does not do it: -o tls=on with -o secret=PATH for a mount, --secret-file PATH "
    "here; or brickd --tls on, which does it for who asks (docs/operations.md, \"Encryption\")";
constexpr const char* kSlowDiskAdvice =
    "the disk under the brick's store is slow or stuck (iostat -x 1 on the brick's host, brickd's log); fsync waits "
    "for "
    "it, and it goes on by itself";
constexpr const char* kFailedDiskAdvice =
    "nothing is committed or read any more: repair that disk (dmesg on the brick's host), then restart brickd; clients "
    "that live send again what was not committed";

Trouble store_trouble_of(std::string_view trouble) {
  const bool full = trouble == kStoreDiskFull;
  return {Severity::kBroken, "store", fmt::format("the brick's store: {}", trouble),
          full ? kFullDiskAdvice : kFailedDiskAdvice};
}

constexpr const char* kRedirectedAdvice =
    "it works over TCP, slower, and returns by itself once the wanted path works: docs/fabrics.md, \"When it is slow\"";
constexpr const char* kLockedMemoryAdvice =
    "it works over TCP, slower. The limit of locked memory is too low for RDMA, here or on the brick's host: raise it "
    "(ulimit -l, LimitMEMLOCK=; docs/fabrics.md, \"Limits to raise\"), then mount again; or the device has no room for "
    "more regions";

// Of who was let in before.
std::string refusal_advice(const MountState& state) {
  if (contains(state.link_text, "no such volume"))
    return "what has the address had that volume once: it has another store now, or the volume was taken away; look at "
           "brickd's --file and log, or bring the former store back";
  if (contains(state.link_text, "encrypted")) return kTlsAdvice;
  if (!contains(state.link_text, "secret"))
    return "another program has the brick's address, or one side is older: look there; brickd's log says more";
  if (contains(state.link_text, "does not know"))
    return "something else has the brick's address, or brickd there has another secret file: look there";
  if (state.secret_file.empty())
    return "the brick has got a secret file: unmount, and mount with -o secret=PATH, or start brickd without one";
  return fmt::format(
      "{} needs the line that the brick's --secret-file has (then brickd gets a SIGHUP): it is read again by itself, "
      "and "
      "what waits goes on; docs/operations.md, \"Another secret\"",
      state.secret_file);
}

std::optional<Trouble> link_trouble(const MountState& state) {
  const std::string since = for_seconds(state.link_for_seconds);
  if (state.link == "failed") {
    return Trouble{Severity::kBroken, "link", fmt::format("{} ({})", state.link_text, since),
                   "it is over for good: unmount, and mount again; what was not committed is lost with it"};
  }
  if (state.sharing == "member" && state.link != "connected") {
    return Trouble{Severity::kBroken, "coordinator", fmt::format("{}, {}", state.link_text, since), kCoordinatorAdvice};
  }
  if (state.link == "silent") {
    return Trouble{Severity::kBroken, "link", state.link_text,
                   "the connection is there and nobody answers: is brickd stopped, its host overloaded or cut off? "
                   "(brickctl ping SOURCE; on the brick's host: systemctl status brickd, uptime)"};
  }
  if (state.link == "waiting" && contains(state.link_text, kWaitsForEtcd)) {
    return Trouble{Severity::kBroken, "etcd", state.link_text, kEtcdAdvice};
  }
  if (state.link == "waiting" && contains(state.link_text, kRefusesClient)) {
    return Trouble{Severity::kBroken, "link", fmt::format("{}, {}", state.link_text, since), refusal_advice(state)};
  }
  if (state.link == "waiting") {
    return Trouble{Severity::kBroken, "link", fmt::format("{}, {}", state.link_text, since), kOutageAdvice};
  }
  if (contains(state.link_text, "redirected")) {
    const bool locks = contains(state.link_text, verbs::kCannotRegister);
    return Trouble{Severity::kWarning, "link", state.link_text, locks ? kLockedMemoryAdvice : kRedirectedAdvice};
  }
  if (state.link_changes >= kLinkFlaps && state.link_for_seconds < kLinkIsYoung) {
    return Trouble{Severity::kWarning, "link",
                   fmt::format("it was lost {} times since the mount, the last time it came back {} ago",
                               state.link_changes / 2, for_seconds(state.link_for_seconds).substr(4)),
                   "the log has the reasons (journalctl -t brickfs); look for a bad cable or a brick that restarts"};
  }
  return std::nullopt;
}

void add_commit(std::vector<Trouble>& troubles, const MountState& state) {
  const bool away = state.link != "connected";
  if (away || state.uncommitted_for_seconds < kCommitIsStuck) return;
  troubles.push_back({Severity::kWarning, "commit",
                      fmt::format("nothing was committed {}: {} operations, {} wait for the brick's store",
                                  for_seconds(state.uncommitted_for_seconds), state.uncommitted_operations,
                                  about_size(state.uncommitted_bytes)),
                      kSlowDiskAdvice});
}

// What gives a volume of one brick more.
std::string resize_advice(const std::string& text) {
  const auto source = parse_source(text, nullptr);
  if (source.ok() && source->embedded()) return "a larger SIZE in its source";
  const std::string brick = source.ok() ? format_source(*source) : text;
  return fmt::format(
      "brickctl volume resize {} {}:SIZE, with the administrator's secret; if the brick has no room left "
      "(brickctl status), a larger store (--size), or room on the disk under it",
      brick.substr(0, brick.rfind('/')), source.ok() ? source->volume : "NAME");
}

std::string space_advice(const MountState& state) {
  if (state.copies_wanted > 0) {
    return fmt::format(
        "remove files, or give the set more bricks: brickctl set add {} BRICK; a place more is used from the next "
        "mount "
        "on. Larger bricks help, too: the smallest one of a place decides",
        state.source);
  }
  if (state.source.find('+') != std::string::npos) {
    return "remove files, or give the set another brick: mount it once with +BRICK behind the others and -o grow";
  }
  return "remove files, or give the volume more: " + resize_advice(state.source);
}

void add_space(std::vector<Trouble>& troubles, const MountState& state) {
  if (state.capacity_bytes == 0) return;
  const uint64_t little = std::min(kLittleRoom, state.capacity_bytes / kFiftieth);
  if (state.free_bytes < little) {
    const bool full = state.free_bytes == 0;
    troubles.push_back({full ? Severity::kBroken : Severity::kWarning, "space",
                        full ? std::string("the volume is full: writes get ENOSPC")
                             : fmt::format("the volume is nearly full: {} of {} are free", about_size(state.free_bytes),
                                           about_size(state.capacity_bytes)),
                        space_advice(state)});
  }
  if (state.max_metadata_bytes == 0) return;
  const uint64_t most = state.max_metadata_bytes;
  if (state.metadata_bytes + most / kTenth < most) return;
  const bool over = state.metadata_bytes >= most;
  troubles.push_back(
      {over ? Severity::kBroken : Severity::kWarning, "memory",
       fmt::format("inodes and names take {} of the {} that max_metadata= allows{}", about_size(state.metadata_bytes),
                   about_size(most), over ? ": new names get ENOSPC" : ""),
       "remove files, or mount with a larger max_metadata=, if this host has the memory"});
}

constexpr const char* kLeftOutAdvice =
    "the volume goes on without that copy; when its brick is back it is brought up to date by itself. Does its host "
    "run, "
    "and brickd on it? If it is lost for good: brickctl set replace SOURCE OLD NEW";
constexpr const char* kAwayAdvice =
    "it is about to be left out, as soon as etcd answers; until then what it has to take part in waits";
constexpr const char* kSyncingAdvice = "nothing is to be done; brickctl set status shows how far it is";

std::string describe_copied(const CopyState& copy) {
  return copy.total_blocks == 0 ? std::string() : fmt::format(", {} %", 100 * copy.copied_blocks / copy.total_blocks);
}

// By place.
std::map<uint64_t, uint64_t> count_readable(const std::vector<CopyState>& copies) {
  std::map<uint64_t, uint64_t> readable;
  for (const CopyState& copy : copies) readable[copy.place] += copy.can_be_read() ? 1 : 0;
  return readable;
}

void add_requests(std::vector<Trouble>& troubles, const MountState& state) {
  if (!state.io_uring_obstacle.empty())
    troubles.push_back({Severity::kNote, "requests", "they come over /dev/fuse, which is slower than io_uring",
                        state.io_uring_obstacle});
  if (!state.writeback_obstacle.empty())
    troubles.push_back({Severity::kNote, "requests", "small writes are written through (writeback=auto: off)",
                        state.writeback_obstacle});
  if (state.has_rings && state.rings >= state.most_rings)
    troubles.push_back({Severity::kNote, "requests", fmt::format("programs have all {} rings", state.most_rings),
                        "who asks for one more is served by the kernel, as without ring=on"});
  if (state.request_limit_seconds > 0 && !state.soft) {
    troubles.push_back(
        {Severity::kWarning, "requests",
         fmt::format("this kernel ends a mount of which a request takes more than {} s: operations fail with EIO "
                     "before that, though the mount is hard",
                     state.request_limit_seconds),
         "for mounts that wait: sysctl fs.fuse.max_request_timeout=0, then mount again"});
  }
}

}  // namespace

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kBroken:
      return "broken";
  }
  return "";
}

void sort_by_severity(std::vector<Trouble>& troubles) {
  std::ranges::stable_sort(troubles, std::greater<>(), &Trouble::severity);
}

std::vector<Trouble> troubles_of(const MountState& state) {
  std::vector<Trouble> troubles;
  if (auto link = link_trouble(state)) troubles.push_back(std::move(*link));
  if (!state.store_trouble.empty()) {
    troubles.push_back(store_trouble_of(state.store_trouble));
    if (state.copies_wanted > 0) weigh_by_copies(state.copies, troubles);
  }
  if (!state.read_only_reason.empty()) {
    troubles.push_back({Severity::kBroken, "mount", state.read_only_reason,
                        "copy what you need, unmount, then brickctl check SOURCE --repair (docs/recovery.md)"});
  }
  std::ranges::move(troubles_of(state.copies_wanted, state.copies), std::back_inserter(troubles));
  const bool waits_for_etcd = contains(state.link_text, kWaitsForEtcd);
  if (!state.etcd_trouble.empty() && !waits_for_etcd && state.etcd_trouble_for_seconds >= kEtcdIsAway) {
    troubles.push_back({Severity::kWarning, "etcd",
                        fmt::format("it does not answer, {}: {}; if a brick fails, operations wait for it",
                                    for_seconds(state.etcd_trouble_for_seconds), state.etcd_trouble),
                        kEtcdAdvice});
  }
  add_commit(troubles, state);
  add_space(troubles, state);
  add_requests(troubles, state);
  sort_by_severity(troubles);
  return troubles;
}

std::vector<Trouble> troubles_of(uint64_t copies_wanted, const std::vector<CopyState>& copies) {
  auto readable = count_readable(copies);
  std::vector<Trouble> troubles;
  for (const CopyState& copy : copies) {
    if (copy.leaving || copy.can_be_read() || readable[copy.place] >= copies_wanted) continue;
    const bool syncing = copy.state == name_of(ReplicaState::kSyncing);
    const bool is_absent = copy.state == name_of(ReplicaState::kInSync);
    const std::string what = syncing                ? "it is brought up to date" + describe_copied(copy)
                             : is_absent            ? std::string("it is away, and not left out yet")
                             : copy.trouble.empty() ? std::string("it is left out")
                                                    : "it is left out: " + copy.trouble;
    troubles.push_back({Severity::kWarning, "copies",
                        fmt::format("{}: {} ({} of {} copies of place {} can be read)", copy.source, what,
                                    readable[copy.place], copies_wanted, copy.place),
                        syncing     ? kSyncingAdvice
                        : is_absent ? kAwayAdvice
                                    : kLeftOutAdvice});
  }
  return troubles;
}

// If the volume as a whole has no room left, that is said by itself.
void weigh_by_copies(const std::vector<CopyState>& copies, std::vector<Trouble>& troubles) {
  const auto readable = count_readable(copies);
  if (std::ranges::any_of(readable, [](const auto& place) { return place.second < 2; })) return;
  for (Trouble& trouble : troubles) {
    if (trouble.about == "store") trouble.severity = std::min(trouble.severity, Severity::kWarning);
  }
}

std::vector<Trouble> troubles_of_link_text(std::string_view text) {
  MountState state;
  state.link = "connected";
  const size_t store = text.find("; store: ");
  if (store != text.npos) {
    state.store_trouble = text.substr(store + std::string_view("; store: ").size());
    text = text.substr(0, store);
  }
  for (const std::string_view kind : {"silent", "waiting", "failed"}) {
    if (!text.starts_with(kind) || !text.substr(kind.size()).starts_with(": ")) continue;
    state.link = kind;
    text.remove_prefix(kind.size() + 2);
    break;
  }
  state.link_text = text;
  return troubles_of(state);
}

std::vector<Trouble> troubles_of(const BrickStat& stat, const std::string& source) {
  std::vector<Trouble> troubles;
  if (const auto store = store_trouble(stat.medium); !store.empty()) troubles.push_back(store_trouble_of(store));
  if (has_normal_pages(stat.medium)) {
    troubles.push_back({Severity::kNote, "memory", "the brick's memory is of normal pages: too few huge ones were free",
                        "RDMA is slower to begin and with random access; set them aside on the brick's host (sysctl "
                        "vm.nr_hugepages=N, 2M each, for all of --memory, best at boot), then restart brickd"});
  }
  if (stat.holder) {
    const std::string who = fmt::format("{} since {}", stat.holder->name, local_time(stat.holder->since_unix_seconds));
    if (stat.holder->kept_for.count() > 0) {
      troubles.push_back({Severity::kWarning, "volume",
                          fmt::format("it is kept for {}{}", who, describe_grace(*stat.holder)),
                          "a mount waits so long by itself; if that client will not come back, mount with steal"});
    } else if (stat.holder_away) {
      troubles.push_back({Severity::kWarning, "volume", fmt::format("held by {}, who is not connected", who),
                          "it may come back with what it has not committed; another mount gets in at once"});
    } else {
      troubles.push_back({Severity::kNote, "volume", fmt::format("held by {}", who),
                          "one client has a volume at a time: unmount it there, or mount with steal, which cuts that "
                          "client off for good"});
    }
  }
  if (stat.allocatable_blocks == 0) {
    const bool quota = stat.volume_used_blocks >= stat.volume_capacity_blocks;
    troubles.push_back(
        {Severity::kWarning, "space",
         quota ? fmt::format("the volume has allocated all of its {}",
                             about_size(stat.volume_capacity_blocks * kBlockBytes))
               : fmt::format("the brick has no block left: {} of {} are in use",
                             about_size(stat.brick_used_blocks * kBlockBytes),
                             about_size(stat.brick_capacity_blocks * kBlockBytes)),
         "files of the volume can still be changed within their blocks; give it more: " + resize_advice(source)});
  }
  sort_by_severity(troubles);
  return troubles;
}

Trouble trouble_of_stuck_call() {
  return {Severity::kBroken, "store", "the brick answers others: a call of this mount is stuck there", kSlowDiskAdvice};
}

Trouble trouble_of_refusal(Error error, std::string what) {
  const auto advice = [&]() -> std::string {
    switch (error.code()) {
      case EACCES:
        return "give the line that brickd has: --secret-file PATH here, -o secret=PATH for a mount";
      case ENOPROTOOPT:
        return kTlsAdvice;
      case EKEYREJECTED:
        return "something else has the brick's address: is brickd running there?";
      case ENOENT:
        return "name one that it has (brickd --volume NAME)";
      case ECONNREFUSED:
        return "start brickd there; it listens on loopback unless told otherwise (--listen); compare the port";
      case EHOSTUNREACH:
        return "look at the name, the address and the route (ip route get ADDRESS)";
      case ETIMEDOUT:
        return "a firewall drops the packets, another host has the address, or brickd is stopped";
      case EMSGSIZE:
        return "an interface or a tunnel on the way takes less than its ends believe (ip link; tracepath ADDRESS): "
               "give "
               "all the same MTU, or set net.ipv4.tcp_mtu_probing=1 on both hosts (docs/operations.md, \"When large "
               "packets are lost\")";
      case EPROTO:
        return "another program has the port, or one side is older: bring both to the same version";
      default:
        return "brickd's log says more (journalctl -t brickd)";
    }
  };
  return {Severity::kBroken, "link", std::move(what), advice()};
}

}  // namespace brickfs
