// SPDX-License-Identifier: Apache-2.0
// brickctl explain: of a mount by what its brickfs says, and of a brick by what it says to an observer. Nothing here
// asks the mounted file system itself for anything before it is known that it answers.
#include <fmt/core.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <thread>

#include "fs/mount/status/brickfs_end.h"
#include "tools/brickctl/commands.h"
#include "tools/brickctl/json.h"
#include "tools/brickctl/mount_target.h"
#include "tools/brickctl/set.h"
#include "tools/brickctl/set_look.h"
#include "tools/brickctl/target.h"
#include "tools/brickctl/trouble.h"
#include "transport/base/printable.h"

namespace brickfs {
namespace {

constexpr int kWell = EXIT_SUCCESS;
constexpr int kWarned = 3;
constexpr int kBroken = 4;

struct Explanation {
  std::string subject;  // one line
  std::string mountpoint;
  std::string source;
  std::optional<MountState> state;
  std::vector<Trouble> troubles;
  std::string refused;  // why nothing is known, in one line; empty: it is
};

// R, S, D, T ...; 0: there is no such process.
char state_of_process(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(") ");
  return name_end == line.npos ? '\0' : line[name_end + 2];
}

Trouble does_not_answer(pid_t pid) {
  const char state = pid > 0 ? state_of_process(pid) : '\0';
  if (state == 'T' || state == 't') {
    return {Severity::kBroken, "mount", fmt::format("brickfs (pid {}) is stopped, by a signal or a debugger", pid),
            fmt::format("kill -CONT {}", pid)};
  }
  return {Severity::kBroken, "mount",
          pid > 0 ? fmt::format("brickfs (pid {}) does not answer", pid) : std::string("brickfs does not answer"),
          "look at its process and its log (journalctl -t brickfs); umount -f takes the mount away, and loses what it "
          "has not written"};
}

// This thread alone: the kernel lets nobody but a user into his mount, root neither.
void become_user_of(const MountEntry& entry) {
  if (::geteuid() != 0 || entry.user.value_or(0) == 0 || !entry.group) return;
  (void)!::syscall(SYS_setgroups, 0, nullptr);
  (void)!::syscall(SYS_setresgid, *entry.group, *entry.group, *entry.group);
  (void)!::syscall(SYS_setresuid, *entry.user, *entry.user, *entry.user);
}

// brickfs.link, by a thread that may have to wait for ever: it is left behind then.
Result<std::string> read_link_attribute(const MountEntry& entry) {
  auto answer = std::make_shared<std::promise<Result<std::string>>>();
  auto future = answer->get_future();
  std::thread([answer, entry, mountpoint = entry.mountpoint] {
    become_user_of(entry);
    std::array<char, 1024> text{};
    const ssize_t bytes = ::getxattr(mountpoint.c_str(), "brickfs.link", text.data(), text.size());
    if (bytes < 0) {
      answer->set_value(errno_error("brickfs.link"));
    } else {
      answer->set_value(std::string(text.data(), static_cast<size_t>(bytes)));
    }
  }).detach();
  if (future.wait_for(kMountAnswers) != std::future_status::ready) return Error(ETIMEDOUT, "brickfs.link");
  return future.get();
}

// Without its brickfs to ask.
void explain_by_attribute(const MountEntry& entry, Explanation& explanation) {
  const auto link = read_link_attribute(entry);
  if (link.code() == EACCES) {
    explanation.refused = fmt::format("is a mount of {}, who alone may ask it: as that user, or as root",
                                      entry.user.value_or(0) == 0 ? "root" : fmt::format("user {}", *entry.user));
  } else if (link.ok()) {
    explanation.troubles = troubles_of_link_text(*link);
  } else if (link.error().is(ENOTCONN) || link.error().is(ECONNABORTED)) {
    explanation.troubles = {{Severity::kBroken, "mount", "it is dead: nobody serves it any more",
                             fmt::format("umount {}, and mount again; why it ended is in the log (journalctl -t "
                                         "brickfs)",
                                         explanation.mountpoint)}};
  } else if (link.error().is(ETIMEDOUT)) {
    explanation.troubles = {does_not_answer(0)};
  } else {
    explanation.troubles = {{Severity::kBroken, "mount",
                             fmt::format("it says of itself: {}", strerror(link.error().code())),
                             "the log says more (journalctl -t brickfs)"}};
  }
}

// Of a set one source for each brick. What is no source is left to who opens it.
std::vector<std::string> bricks_of(const std::string& text) {
  const auto source = parse_source(text, nullptr);
  if (!source.ok() || !source->is_set()) return {text};
  std::vector<std::string> bricks;
  for (size_t place = 0; place < source->bricks(); ++place) bricks.push_back(format_source(source->brick(place)));
  return bricks;
}

Explanation explain_bricks(const Command& command) {
  Explanation explanation;
  explanation.source = explanation.subject = command.source;
  const std::vector<std::string> bricks = bricks_of(command.source);
  for (const std::string& brick : bricks) {
    const std::string name = bricks.size() > 1 ? brick + ": " : std::string();
    std::string why;
    const auto stat = look_at_brick(brick, command.secret_file, &why);
    std::vector<Trouble> troubles;
    if (stat.ok()) {
      if (bricks.size() == 1) explanation.subject += fmt::format(": over {}, {}", stat->transport, stat->medium);
      troubles = troubles_of(*stat, brick);
    } else {
      troubles = {trouble_of_refusal(stat.error(), why)};
    }
    for (Trouble& trouble : troubles) {
      trouble.what = name + trouble.what;
      explanation.troubles.push_back(std::move(trouble));
    }
  }
  return explanation;
}

// `name`: what begins the lines about it, if it is one of several.
void add_those_about(std::string_view about, const BrickStat& stat, const std::string& brick, const std::string& name,
                     std::vector<Trouble>& troubles) {
  for (Trouble& trouble : troubles_of(stat, brick)) {
    if (trouble.about != about) continue;
    trouble.what = name + trouble.what;
    troubles.push_back(std::move(trouble));
  }
}

// By its map, and what its bricks say.
Explanation explain_replicated(const Command& command) {
  Explanation explanation;
  explanation.source = explanation.subject = command.source;
  std::string why;
  Source source;
  const auto store = open_map_store(command, source, &why);
  auto stored = store.ok() ? (*store)->load() : store.error();
  if (!stored.ok()) {
    if (store.ok()) why = (*store)->trouble();
    explanation.troubles = {{Severity::kBroken, "etcd", why,
                             "while etcd is away a mount goes on, but nobody can mount and no copy can be left out: "
                             "does it run (etcdctl endpoint health)? with TLS and users see --etcd-ca, --etcd-user"}};
    return explanation;
  }
  SetMap& map = stored->map;
  const ReplicaLooks looks = look_at_all(**store, map, command.secret_file);
  explanation.subject += fmt::format(": {} place(s) with {} copies, generation {} of the map", map.places.size(),
                                     map.wanted, map.generation);
  explanation.troubles = troubles_of(map.wanted, copies_of(map));
  const SetVerdict verdict = judge_set(map, looks);
  if (verdict.exit_code == kSetBroken) {
    for (const std::string& line : verdict.lines)
      explanation.troubles.push_back({Severity::kBroken, "copies", line,
                                      "operations on it wait until such a brick is back; the lines below say why each "
                                      "does not answer"});
  }
  for (const auto& [name, look] : looks) {
    if (look.stat.ok()) continue;
    Trouble trouble = trouble_of_refusal(look.stat.error(), fmt::format("{}: {}", name, look.why));
    if (verdict.exit_code != kSetBroken) trouble.severity = Severity::kWarning;  // others have what it has
    explanation.troubles.push_back(std::move(trouble));
  }
  std::vector<Trouble> stores;
  for (const auto& [name, look] : looks) {
    if (!look.stat.ok()) continue;
    add_those_about("store", *look.stat, name, name + ": ", stores);
    add_those_about("space", *look.stat, name, name + ": ", explanation.troubles);
  }
  weigh_by_copies(copies_of(map), stores);
  std::ranges::move(stores, std::back_inserter(explanation.troubles));
  return explanation;
}

// Those that it is mounted from.
std::vector<std::string> bricks_of(const MountState& state) {
  if (state.copies.empty()) return bricks_of(state.source);
  std::vector<std::string> bricks;
  for (const CopyState& copy : state.copies) bricks.push_back(copy.source);
  return bricks;
}

// What do the bricks say to somebody else, and now?
void ask_bricks(const MountState& state, std::vector<Trouble>& troubles) {
  const std::vector<std::string> bricks = bricks_of(state);
  bool all_answer = true;
  for (const std::string& brick : bricks) {
    const std::string name = bricks.size() > 1 ? brick + ": " : std::string();
    std::string why;
    const auto stat = look_at_brick(brick, state.secret_file, &why);
    all_answer = all_answer && stat.ok();
    if (!stat.ok()) troubles.push_back(trouble_of_refusal(stat.error(), fmt::format("asked now: {}{}", name, why)));
    if (!stat.ok() || state.link != "failed") continue;
    for (Trouble& trouble : troubles_of(*stat, brick)) {
      trouble.what = name + trouble.what;
      troubles.push_back(std::move(trouble));
    }
  }
  if (all_answer && state.link == "silent") troubles.push_back(trouble_of_stuck_call());
}

// What only a brick knows of a path that works: of which pages its memory is, and whether it is the one that is full.
void ask_about(std::string_view about, const MountState& state, std::vector<Trouble>& troubles) {
  const std::vector<std::string> bricks = bricks_of(state);
  for (const std::string& brick : bricks) {
    std::string why;
    const auto stat = look_at_brick(brick, state.secret_file, &why);
    if (stat.ok()) add_those_about(about, *stat, brick, bricks.size() > 1 ? brick + ": " : "", troubles);
  }
}

// Why does a copy that is left out not come back?
void ask_left_out(const MountState& state, std::vector<Trouble>& troubles) {
  for (const CopyState& copy : state.copies) {
    if (copy.leaving || copy.state != name_of(ReplicaState::kStale)) continue;
    std::string why;
    const auto stat = look_at_brick(copy.source, state.secret_file, &why);
    if (stat.ok()) continue;
    troubles.push_back(trouble_of_refusal(stat.error(), fmt::format("asked now: {}: {}", copy.source, why)));
    troubles.back().severity = Severity::kWarning;
  }
}

// Which brick of a set is it?
void name_stores(const MountState& state, std::vector<Trouble>& troubles) {
  std::vector<Trouble> named;
  ask_about("store", state, named);
  if (named.empty()) return;
  weigh_by_copies(state.copies, named);
  std::erase_if(troubles, [](const Trouble& one) { return one.about == "store"; });
  std::ranges::move(named, std::back_inserter(troubles));
}

Explanation explain_mount(const MountEntry& entry) {
  Explanation explanation;
  explanation.mountpoint = entry.mountpoint;
  explanation.source = entry.source;
  explanation.subject = fmt::format("{}: {}", entry.mountpoint, entry.source);
  BrickfsEnd brickfs(entry.device);
  if (brickfs.gone()) {
    explain_by_attribute(entry, explanation);
    return explanation;
  }
  explanation.state = brickfs.ask_state(kMountAnswers);
  if (!explanation.state) {
    explanation.troubles = {does_not_answer(brickfs.pid())};
    return explanation;
  }
  const MountState& state = *explanation.state;
  if (entry.source.empty()) {  // nothing is mounted
    explanation.source = state.source;
    explanation.subject += state.source;
  }
  explanation.subject += fmt::format(" ({}{}), brickfs {} (pid {})", state.link == "connected" ? "" : state.link + ": ",
                                     state.link_text, state.version, state.pid);
  if (state.sharing == "coordinator")
    explanation.subject += fmt::format(", coordinates {} member(s)", state.member_count);
  if (state.has_rings) explanation.subject += fmt::format(", {} ring(s) of programs", state.rings);
  explanation.troubles = troubles_of(state);
  if (state.link != "connected") {
    ask_bricks(state, explanation.troubles);
    return explanation;
  }
  if (state.link_text.starts_with("rdma") || state.link_text.starts_with("fabric"))
    ask_about("memory", state, explanation.troubles);
  ask_left_out(state, explanation.troubles);
  if (state.copies_wanted > 0 && !state.store_trouble.empty()) name_stores(state, explanation.troubles);
  const bool is_full =
      std::ranges::any_of(explanation.troubles, [](const Trouble& one) { return one.about == "space"; });
  if (is_full && bricks_of(state).size() > 1) ask_about("space", state, explanation.troubles);
  return explanation;
}

Severity worst_of(const std::vector<Trouble>& troubles) {
  return troubles.empty() ? Severity::kNote : troubles.front().severity;
}

// Who has the volume through it.
void print_members(const MountState& state) {
  for (const MemberState& member : state.members) {
    fmt::print("    {}{}: {} call(s), heard of {:.1f} s ago\n", printable(member.name), member.read_only ? " (ro)" : "",
               member.calls, member.silent_seconds);
  }
  if (state.member_count > state.members.size())
    fmt::print("    and {} more\n", state.member_count - state.members.size());
}

void print(const Explanation& explanation) {
  fmt::print("{}\n", printable(explanation.subject));
  if (explanation.state) print_members(*explanation.state);
  for (const Trouble& trouble : explanation.troubles) {
    fmt::print("{}: {}: {}\n", name_of(trouble.severity), trouble.about, printable(trouble.what));
    fmt::print("    {}\n", printable(trouble.advice));
  }
  if (worst_of(explanation.troubles) == Severity::kNote) fmt::print("nothing is wrong\n");
}

Json to_json(const Explanation& explanation) {
  Json troubles = Json::array();
  for (const Trouble& trouble : explanation.troubles) {
    troubles.push_back({{"severity", name_of(trouble.severity)},
                        {"about", trouble.about},
                        {"what", trouble.what},
                        {"advice", trouble.advice}});
  }
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const Severity worst = worst_of(explanation.troubles);
  return {{"mountpoint", or_null(explanation.mountpoint)},
          {"source", explanation.source},
          {"verdict", worst == Severity::kNote ? "well" : name_of(worst)},
          {"troubles", troubles},
          {"state", explanation.state ? Json::parse(encode(*explanation.state)) : Json()}};
}

}  // namespace

int run_explain(const Command& command) {
  Explanation explanation;
  if (command.source.starts_with("etcd://")) {
    explanation = explain_replicated(command);
  } else if (is_source(command.source)) {
    explanation = explain_bricks(command);
  } else {
    std::string why;
    const auto entry = find_brickfs(command.source, &why);
    if (!entry.ok()) return fail(command, why);
    explanation = explain_mount(*entry);
    if (!explanation.refused.empty()) return fail(command, explanation.refused);
  }
  sort_by_severity(explanation.troubles);
  if (command.json) {
    print_json(to_json(explanation));
  } else {
    print(explanation);
  }
  switch (worst_of(explanation.troubles)) {
    case Severity::kBroken:
      return kBroken;
    case Severity::kWarning:
      return kWarned;
    case Severity::kNote:
      break;
  }
  return kWell;
}

}  // namespace brickfs
