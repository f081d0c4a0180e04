// SPDX-License-Identifier: Apache-2.0
// brickctl: raw block calls on a brick, its volumes, the check of a whole file system, and what ails a mount or a
// brick.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "tools/brickctl/commands.h"
#include "transport/base/log.h"
#include "transport/base/size.h"
#include "transport/brick/limits.h"
#include "transport/brick/volume_name.h"
#include "transport/etcd/etcd_command_line.h"

namespace brickfs {
namespace {

constexpr int kUsage = 2;

constexpr unsigned kMostThreads = 64;
constexpr unsigned kMostDepth = 1024;
constexpr uint64_t kMostTransferMemory = 1 * kGiB;  // of all transfers under way
constexpr double kMostSeconds = 86'400;

struct Arguments {
  Command command;
  std::string address;
  std::string count = "1";
  std::string size = "1M";
  std::string span;
  std::string direction = "both";
  std::string volume;
  std::string key;
  bool read_only = false;
  std::string rate;
  std::string tag;
  std::string value = "0";
  std::string seen;
  std::string tls;
};

// 0x... or what parse_size() takes.
std::optional<uint64_t> parse_number(const std::string& text) {
  if (!text.starts_with("0x") && !text.starts_with("0X")) {
    const auto size = parse_size(text);
    return size.ok() ? std::optional(*size) : std::nullopt;
  }
  uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void add_tls(CLI::App& sub, Arguments& arguments) {
  sub.add_option("--tls", arguments.tls,
                 "TLS with bricks on tcp://, by the secret: on: if they do it; require: nothing is said otherwise; off "
                 "(on, where there is a secret; bench: off, as mounts)")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"off", "on", "require"}));
}

CLI::App* add_verb(CLI::App& app, Arguments& arguments, const char* verb, const char* what) {
  CLI::App* sub = app.add_subcommand(verb, what);
  sub->add_option("SOURCE", arguments.command.source,
                  "rdma://HOST[:PORT][,HOST[:PORT]]/VOLUME, fabric://..., tcp://HOST[:PORT]/VOLUME, memory:SIZE or "
                  "file:PATH[,SIZE]; "
                  "status and "
                  "check: also bricks of a set, with + between them")
      ->required();
  sub->add_option("--secret-file", arguments.command.secret_file.path, "what the brick asks for")->type_name("PATH");
  add_tls(*sub, arguments);
  sub->add_flag("--json", arguments.command.json, "print one line of JSON");
  return sub;
}

void add_block_verb(CLI::App& app, Arguments& arguments, const char* verb, const char* what) {
  CLI::App* sub = add_verb(app, arguments, verb, what);
  sub->add_option("ADDRESS", arguments.address,
                  "of the first block: a multiple of 2M; decimal, 0x hexadecimal, or with K, M, G, T")
      ->required();
  sub->add_option("COUNT", arguments.count, "of blocks (1)");
  if (std::string_view(verb) != "unmap")
    sub->add_flag("--over-files", arguments.command.over_files, "also of a volume with files, which that may destroy");
}

void add_check(CLI::App& app, Arguments& arguments) {
  CLI::App* sub = add_verb(app, arguments, "check",
                           "verify a whole file system; exit 0: clean, 1: repaired, 4: damage left, 8: not checked");
  sub->add_flag("--repair", arguments.command.repair,
                "mend what is damaged; what has no place any more goes to /lost+found");
  sub->add_flag("--accept-older", arguments.command.accept_older,
                "a set with a brick, or (with --repair) copies, of older stores that were put back: as they are");
  add_etcd_options(*sub, arguments.command.set.etcd);
}

void add_bench(CLI::App& app, Arguments& arguments) {
  CLI::App* sub =
      add_verb(app, arguments, "bench",
               "bandwidth and latency of a brick's data path, on blocks of its own in a volume nobody holds");
  BenchOptions& bench = arguments.command.bench;
  sub->add_option("--size", arguments.size, "of a transfer, up to 2M (1M)")->type_name("SIZE");
  sub->add_option("--depth", bench.depth, "transfers that each thread keeps under way (1)");
  sub->add_option("--threads", bench.threads, "(1)");
  sub->add_option("--seconds", bench.seconds, "of each direction (5)");
  sub->add_option("--direction", arguments.direction, "read, write or both (both)");
  sub->add_option("--span", arguments.span, "of the volume, read and written over and over (64M, or what is free)")
      ->type_name("SIZE");
  sub->add_flag("--steal", bench.steal, "take the volume from its holder");
}

void add_ping(CLI::App& app, Arguments& arguments) {
  CLI::App* sub = add_verb(app, arguments, "ping", "round trips to a brick; also while the volume is held");
  PingOptions& ping = arguments.command.ping;
  sub->add_option("-c,--count", ping.count, "of rounds (5); 0: until Ctrl-C, and control calls only");
  sub->add_option("-i,--interval", ping.interval_seconds, "between rounds, in seconds (0.2)");
}

void add_notifications(CLI::App& app, Arguments& arguments) {
  CLI::App* notify = add_verb(app, arguments, "notify", "tell those who wait on the volume; also while it is held");
  CLI::App* wait = add_verb(app, arguments, "wait",
                            "until there is a notification; prints its value, and what to go on from; exit 3: the time "
                            "is over, 1: it cannot be waited for");
  for (CLI::App* sub : {notify, wait})
    sub->add_option("TAG", arguments.tag, "64 bits, decimal or 0x hexadecimal: what it is about")->required();
  notify->add_option("VALUE", arguments.value, "64 bits that are told (0)");
  wait->add_option("--seen", arguments.seen, "go on from what a former one printed (what is there now); 0:0: nothing")
      ->type_name("ORIGIN:COUNT");
  wait->add_option("--timeout", arguments.command.notice.timeout_seconds, "(for ever)")->type_name("SECONDS");
}

void add_explain(CLI::App& app, Arguments& arguments) {
  CLI::App* sub = app.add_subcommand(
      "explain",
      "what is wrong or slow now, and what to do about it; exit 0: nothing, 3: it works, but ..., 4: it does not work, "
      "1: cannot be told");
  sub->add_option("MOUNTPOINT|SOURCE", arguments.command.source, "a path on a mount of this host, none, or a source")
      ->required();
  sub->add_option("--secret-file", arguments.command.secret_file.path, "what the brick of a source asks for")
      ->type_name("PATH");
  add_tls(*sub, arguments);
  add_etcd_options(*sub, arguments.command.set.etcd);
  sub->add_flag("--json", arguments.command.json, "print one line of JSON");
}

// Of a mount, or of a brick, whose administrator knows.
CLI::App* add_stats_verb(CLI::App& app, Arguments& arguments, const char* verb, const char* what) {
  CLI::App* sub = app.add_subcommand(verb, what);
  sub->add_option("MOUNTPOINT|SOURCE", arguments.command.source,
                  "a path on a mount of this host; or a brick, or a volume of it")
      ->required();
  sub->add_option("--admin-secret-file", arguments.command.admin_secret_file.path,
                  "what the brick asks administrators for (/etc/brickfs/admin.secret, if it is there)")
      ->type_name("PATH");
  add_tls(*sub, arguments);
  return sub;
}

void add_mount_verbs(CLI::App& app, Arguments& arguments) {
  Command& command = arguments.command;
  CLI::App* stats = add_stats_verb(
      app, arguments, "stats", "what a mount has done: how often, how long it took; or a brick's volumes and clients");
  stats->add_option("--watch", command.watch_seconds, "go on, with what was done in the last so many seconds")
      ->type_name("SECONDS");
  stats->add_flag("--json", command.json, "print one line of JSON");
  CLI::App* profile = app.add_subcommand("profile", "what a mount does for some seconds, and what takes the time");
  profile->add_option("MOUNTPOINT", command.source, "a path on a mount of this host")->required();
  profile->add_option("SECONDS", command.profile_seconds, "from 0.1 to a day")->required();
  profile->add_flag("--json", command.json, "print one line of JSON");
  CLI::App* top =
      add_stats_verb(app, arguments, "top", "the same as stats, live; plain text where there is no terminal");
  top->add_option("--watch", command.watch_seconds, "so many seconds at a time (1)")->type_name("SECONDS");
}

void add_volume_action(CLI::App& volume, Arguments& arguments, AdminAction action, const char* name, const char* what,
                       const char* argument) {
  CLI::App* sub = volume.add_subcommand(name, what);
  sub->add_option(
         "SOURCE", arguments.command.source,
         "the brick: rdma://HOST[:PORT][,HOST[:PORT]], tcp://HOST[:PORT], or file:PATH of one that does not run")
      ->required();
  if (argument != nullptr) sub->add_option(argument, arguments.volume, "the volume")->required();
  if (action == AdminAction::kRemove) {
    sub->add_flag("--force", arguments.command.admin.force, "also one that is held, or not empty");
  }
  sub->add_option("--admin-secret-file", arguments.command.admin_secret_file.path,
                  "what the brick asks administrators for (/etc/brickfs/admin.secret, if it is there)")
      ->type_name("PATH");
  add_tls(*sub, arguments);
  sub->add_flag("--json", arguments.command.json, "print one line of JSON");
  sub->callback([&arguments, action] { arguments.command.admin.action = action; });
}

CLI::App* add_key_action(CLI::App& key, Arguments& arguments, AdminAction action, const char* name, const char* what) {
  add_volume_action(key, arguments, action, name, what, "NAME");
  return key.get_subcommand(name);
}

void add_volume_keys(CLI::App& volume, Arguments& arguments) {
  CLI::App* key = volume.add_subcommand("key", "add, list and remove the keys that alone open a volume");
  key->require_subcommand(1);
  CLI::App* add = add_key_action(*key, arguments, AdminAction::kAddKey, "add",
                                 "let a key open a volume, from the first one on no other secret does");
  add->add_option("--key-file", arguments.command.key_file,
                  "the key, which mounts name with -o secret=; a file that is not there is made, with a fresh one")
      ->type_name("PATH")
      ->required();
  add->add_flag("--read-only", arguments.read_only, "it opens the volume for reading only");
  add_key_action(*key, arguments, AdminAction::kListKeys, "list", "each key of a volume, and what it lets do");
  CLI::App* remove = add_key_action(*key, arguments, AdminAction::kRemoveKey, "remove",
                                    "let a key open a volume no more, and cut off who came by it");
  remove->add_option("ID", arguments.key, "of the key, as list tells it")->required();
}

void add_volume(CLI::App& app, Arguments& arguments) {
  CLI::App* volume =
      app.add_subcommand("volume", "make, resize, remove and list the volumes of a brick that runs, and their keys");
  volume->require_subcommand(1);
  add_volume_action(*volume, arguments, AdminAction::kCreate, "create",
                    "make a volume, which may have SIZE, or all that the brick has", "NAME[:SIZE]");
  add_volume_action(*volume, arguments, AdminAction::kResize, "resize",
                    "let a volume have SIZE from now on, or all that the brick has", "NAME[:SIZE]");
  add_volume_action(*volume, arguments, AdminAction::kRemove, "remove", "remove a volume", "NAME");
  add_volume_action(*volume, arguments, AdminAction::kList, "list", "each volume, its size, and who holds it", nullptr);
  add_volume_keys(*volume, arguments);
}

void add_handover(CLI::App& app, Arguments& arguments) {
  CLI::App* sub = app.add_subcommand("handover", "let another machine coordinate a shared volume");
  sub->add_option("SOURCE", arguments.command.source, "rdma://HOST[:PORT]/VOLUME, tcp://..., etcd://..., or a stripe")
      ->required();
  sub->add_option("HOST", arguments.command.member,
                  "which member: its host, or its name as explain tells it (the one that has been there longest)");
  sub->add_option("--secret-file", arguments.command.secret_file.path, "what the bricks and the members ask for")
      ->type_name("PATH");
  add_tls(*sub, arguments);
  add_etcd_options(*sub, arguments.command.set.etcd);
  sub->add_flag("--json", arguments.command.json, "print one line of JSON");
}

CLI::App* add_set_action(CLI::App& set, Arguments& arguments, const char* name, const char* what) {
  CLI::App* sub = set.add_subcommand(name, what);
  sub->add_option("SOURCE", arguments.command.source, "etcd://HOST[:PORT][,HOST[:PORT]]/VOLUME")->required();
  sub->add_option("--secret-file", arguments.command.secret_file.path, "what the bricks ask for")->type_name("PATH");
  add_tls(*sub, arguments);
  add_etcd_options(*sub, arguments.command.set.etcd);
  sub->add_flag("--json", arguments.command.json, "print one line of JSON");
  sub->callback([&arguments, name] { arguments.command.set.action = name; });
  return sub;
}

CLI::App* add_set_change(CLI::App& set, Arguments& arguments, const char* name, const char* what) {
  CLI::App* sub = add_set_action(set, arguments, name, what);
  sub->add_option("--admin-secret-file", arguments.command.admin_secret_file.path,
                  "what the bricks ask administrators for: makes the volumes that are missing")
      ->type_name("PATH");
  return sub;
}

void add_set_changes(CLI::App& set, Arguments& arguments) {
  SetOptions& options = arguments.command.set;
  const auto add_no_wait = [&](CLI::App* sub) {
    sub->add_flag("--no-wait", options.no_wait, "only say it to the holder, which has to be there");
  };
  CLI::App* replace = add_set_change(set, arguments, "replace", "move all copies of a brick to a new one");
  replace->add_option("BRICK", options.bricks, "the old one, and the new one")->required()->expected(2);
  replace->add_option("--domain", options.domains, "of the new brick (itself)")->type_name("NAME")->expected(1);
  add_no_wait(replace);
  CLI::App* drain = add_set_change(set, arguments, "drain", "move all copies of a brick to the others");
  drain->add_option("BRICK", options.bricks, "")->required()->expected(1);
  add_no_wait(drain);
  CLI::App* remove = add_set_change(set, arguments, "remove", "say that a brick without copies is not of the set");
  remove->add_option("BRICK", options.bricks, "")->required()->expected(1);
  CLI::App* move = add_set_change(set, arguments, "move", "say that a brick has another address; nothing is copied");
  move->add_option("BRICK", options.bricks, "by its old address, and by its new one")->required()->expected(2);
  CLI::App* add = add_set_change(set, arguments, "add", "new places on new bricks, to which new data goes");
  add->add_option("BRICK", options.bricks, "rdma://HOST[:PORT][,HOST[:PORT]] or tcp://HOST[:PORT]")->required();
  add->add_option("--domain", options.domains, "what fails together has one NAME")
      ->type_name("BRICK=NAME")
      ->allow_extra_args(false);
  add_no_wait(add_set_change(set, arguments, "rebalance", "move copies until the bricks have as many, or one more"));
}

void add_set(CLI::App& app, Arguments& arguments) {
  SetOptions& options = arguments.command.set;
  CLI::App* set = app.add_subcommand("set", "make a replicated set, tell how its copies are, and change its bricks");
  set->require_subcommand(1);
  CLI::App* create = add_set_action(*set, arguments, "create", "make a set of empty volumes");
  create
      ->add_option("BRICK", options.bricks,
                   "rdma://HOST[:PORT][,HOST[:PORT]] or tcp://HOST[:PORT], at least as many as copies")
      ->required();
  create->add_option("--replicas", options.replicas, "copies of everything, from 1 to 4")->required();
  create
      ->add_option("--domain", options.domains, "what fails together has one NAME; a brick by itself, if none is given")
      ->type_name("BRICK=NAME")
      ->allow_extra_args(false);
  create
      ->add_option("--admin-secret-file", arguments.command.admin_secret_file.path,
                   "what the bricks ask administrators for: makes the volumes that are missing")
      ->type_name("PATH");
  CLI::App* status = add_set_action(
      *set, arguments, "status",
      "each copy, and whether its brick answers; exit 0: all is well, 3: it works, with fewer copies than "
      "wanted, 4: it does not work, 1: cannot be told");
  status->add_flag("--wait", options.wait, "first until all copies are in sync, or Ctrl-C, showing how far they are");
  CLI::App* scrub = add_set_action(*set, arguments, "scrub",
                                   "compare all copies of a set that nobody writes to; exit 0: they are equal, 3: they "
                                   "differ, 1: cannot be told");
  scrub->add_option("--rate", arguments.rate, "of the volume in a second, at most")->type_name("SIZE");
  CLI::App* recover = add_set_action(*set, arguments, "recover",
                                     "make the map again from what the copies say, when etcd has lost it, or has an "
                                     "older one");
  recover->add_option("BRICK", options.bricks, "all that have copies")->required();
  recover->add_option("--replicas", options.replicas, "copies of everything that are wanted (as many as are found)");
  recover->add_flag("--dry-run", options.dry_run, "only say what was found, and what would be done");
  add_set_changes(*set, arguments);
}

// The rest throws CLI::Error, as the parser itself does.
void interpret_mount_verbs(const Command& command) {
  const auto check = [](const char* name, double seconds) {
    if (!(seconds >= 0.1 && seconds <= kMostSeconds)) throw CLI::ValidationError(name, "from 0.1 to a day");
  };
  if (command.watch_seconds) check("--watch", *command.watch_seconds);
  if (command.verb == "profile") check("SECONDS", command.profile_seconds);
}

void interpret_bench(Arguments& arguments) {
  BenchOptions& bench = arguments.command.bench;
  const auto size = parse_number(arguments.size);
  if (!size || *size == 0 || *size > kBlockBytes) throw CLI::ValidationError("--size", "a size from 1 to 2M");
  bench.transfer_bytes = *size;
  if (bench.threads == 0 || bench.threads > kMostThreads) throw CLI::ValidationError("--threads", "from 1 to 64");
  if (bench.depth == 0 || bench.depth > kMostDepth) throw CLI::ValidationError("--depth", "from 1 to 1024");
  if (bench.transfer_bytes * bench.depth * bench.threads > kMostTransferMemory)
    throw CLI::ValidationError("--depth", "--size x --depth x --threads is at most 1G");
  if (!(bench.seconds > 0 && bench.seconds <= kMostSeconds)) throw CLI::ValidationError("--seconds", "up to a day");
  bench.reads = arguments.direction != "write";
  bench.writes = arguments.direction != "read";
  if (arguments.direction != "both" && bench.reads != (arguments.direction == "read"))
    throw CLI::ValidationError("--direction", "read, write or both");
  if (arguments.span.empty()) return;
  const auto span = parse_number(arguments.span);
  if (!span || *span == 0 || *span > limits::kBlocksPerCall * kBlockBytes)
    throw CLI::ValidationError("--span", "a size up to 8G");
  bench.span_bytes = *span;
}

void interpret_ping(const PingOptions& ping) {
  if (!(ping.interval_seconds >= 0 && ping.interval_seconds <= kMostSeconds))
    throw CLI::ValidationError("--interval", "from 0 to a day");
}

void interpret_notifications(Arguments& arguments) {
  NoticeOptions& notice = arguments.command.notice;
  const auto tag = parse_number(arguments.tag);
  if (!tag) throw CLI::ValidationError("TAG", "a number of 64 bits");
  const auto value = parse_number(arguments.value);
  if (!value) throw CLI::ValidationError("VALUE", "a number of 64 bits");
  notice.tag = *tag;
  notice.value = *value;
  if (notice.timeout_seconds && !(*notice.timeout_seconds >= 0 && *notice.timeout_seconds <= kMostSeconds))
    throw CLI::ValidationError("--timeout", "from 0 to a day");
  if (arguments.seen.empty()) return;
  const size_t colon = arguments.seen.find(':');
  const auto origin = parse_number(arguments.seen.substr(0, colon));
  const auto count = colon == std::string::npos ? std::nullopt : parse_number(arguments.seen.substr(colon + 1));
  if (!origin || !count) throw CLI::ValidationError("--seen", "ORIGIN:COUNT, as wait prints it");
  notice.seen = {*origin, *count};
}

void interpret_blocks(Arguments& arguments) {
  const auto address = parse_number(arguments.address);
  if (!address || *address % kBlockBytes != 0) throw CLI::ValidationError("ADDRESS", "a multiple of 2M (2097152)");
  const auto count = parse_number(arguments.count);
  if (!count || *count == 0 || *count > limits::kBlocksPerCall)
    throw CLI::ValidationError("COUNT", "a number from 1 to 4096");
  arguments.command.blocks = {BlockAddress{*address}, *count};
  if (!is_valid(arguments.command.blocks)) throw CLI::ValidationError("ADDRESS", "the range ends past the last block");
}

// NAME[:SIZE], where a size may stand.
void interpret_volume(Arguments& arguments) {
  AdminRequest& request = arguments.command.admin;
  if (request.action == AdminAction::kList) return;
  const bool sized = request.action == AdminAction::kCreate || request.action == AdminAction::kResize;
  const size_t colon = sized ? arguments.volume.find(':') : std::string::npos;
  request.volume = arguments.volume.substr(0, colon);
  const bool is_named =
      request.action == AdminAction::kCreate ? is_new_volume_name(request.volume) : is_volume_name(request.volume);
  if (!is_named) throw CLI::ValidationError("NAME", kVolumeNameRule);
  request.key.rights = arguments.read_only ? KeyRights::kReadOnly : KeyRights::kReadWrite;
  if (request.action == AdminAction::kRemoveKey) {
    const auto id = parse_key_id(arguments.key);
    if (!id) throw CLI::ValidationError("ID", "16 hexadecimal digits, as `brickctl volume key list` tells them");
    request.key.id = *id;
  }
  if (colon == std::string::npos) return;
  const auto size = parse_number(arguments.volume.substr(colon + 1));
  if (!size) throw CLI::ValidationError("SIZE", "a size, as 500M or 1.5G");
  if (*size < kBlockBytes) throw CLI::ValidationError("SIZE", "at least one block, 2M");
  request.size_blocks = *size / kBlockBytes;
}

void interpret_scrub(Arguments& arguments) {
  if (arguments.rate.empty()) return;
  const auto rate = parse_number(arguments.rate);
  if (!rate || *rate == 0) throw CLI::ValidationError("--rate", "a size, as 100M");
  arguments.command.set.bytes_per_second = *rate;
}

void interpret(Arguments& arguments) {
  const char* const usual = arguments.command.verb == "bench" ? "off" : "on";
  const TlsMode tls = *parse_tls_mode(arguments.tls.empty() ? usual : arguments.tls);
  arguments.command.secret_file.tls = arguments.command.admin_secret_file.tls = tls;
  if (arguments.command.verb == "volume") interpret_volume(arguments);
  if (!arguments.address.empty()) interpret_blocks(arguments);
  if (!arguments.tag.empty()) interpret_notifications(arguments);
  if (arguments.command.verb == "bench") interpret_bench(arguments);
  if (arguments.command.verb == "ping") interpret_ping(arguments.command.ping);
  interpret_mount_verbs(arguments.command);
  interpret_scrub(arguments);
}

int run(const Command& command) {
  if (command.verb == "status") return run_status(command);
  if (command.verb == "list") return run_list(command);
  if (command.verb == "check") return run_check_command(command);
  if (command.verb == "bench") return run_bench(command);
  if (command.verb == "ping") return run_ping(command);
  if (command.verb == "notify") return run_notify(command);
  if (command.verb == "wait") return run_wait(command);
  if (command.verb == "explain") return run_explain(command);
  if (command.verb == "stats") return run_stats(command);
  if (command.verb == "profile") return run_profile(command);
  if (command.verb == "top") return run_top(command);
  if (command.verb == "volume" && is_about_keys(command.admin.action)) return run_volume_key(command);
  if (command.verb == "volume") return run_volume(command);
  if (command.verb == "handover") return run_handover(command);
  if (command.verb == "set" && command.set.action == "create") return run_set_create(command);
  if (command.verb == "set" && command.set.action == "status") return run_set_status(command);
  if (command.verb == "set" && command.set.action == "scrub") return run_set_scrub(command);
  if (command.verb == "set" && command.set.action == "recover") return run_set_recover(command);
  if (command.verb == "set") return run_set_change(command);
  return run_block_call(command);
}

int main(int argc, char** argv) {
  CLI::App app("brickctl makes raw block calls on a brick, measures it, and checks file systems.", "brickctl");
  app.set_version_flag("--version", std::string("brickctl " BRICKFS_VERSION));
  app.require_subcommand(1);
  Arguments arguments;
  add_verb(app, arguments, "status", "what the brick says about itself and the volume; also while the volume is held");
  add_verb(app, arguments, "list", "`start count` of each run of allocated blocks; also while the volume is held");
  add_block_verb(app, arguments, "alloc", "allocate blocks, which read as zeros");
  add_block_verb(app, arguments, "free", "free blocks");
  add_block_verb(app, arguments, "map", "map blocks and print their handles, which end with this command");
  add_block_verb(app, arguments, "unmap", "revoke this client's handles for blocks");
  add_check(app, arguments);
  add_bench(app, arguments);
  add_ping(app, arguments);
  add_notifications(app, arguments);
  add_explain(app, arguments);
  add_mount_verbs(app, arguments);
  add_volume(app, arguments);
  add_handover(app, arguments);
  add_set(app, arguments);
  try {
    app.parse(argc, argv);
    arguments.command.verb = app.get_subcommands().front()->get_name();
    interpret(arguments);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::Error& error) {
    std::fprintf(stderr, "brickctl: %s (see --help)\n", error.what());
    return kUsage;
  }
  const Status log = set_up_log("brickctl", "warn", LogTarget::kStandardError);
  return log.ok() ? run(arguments.command) : kUsage;
}

}  // namespace
}  // namespace brickfs

int main(int argc, char** argv) { return brickfs::main(argc, argv); }
