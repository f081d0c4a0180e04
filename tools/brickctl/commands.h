// SPDX-License-Identifier: Apache-2.0
// brickctl's raw verbs. Each prints its result on standard output, for people or as JSON (json.h), and returns the exit
// code; what went wrong is one line on standard error.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include "tools/brickctl/options.h"
#include "transport/brick/administration.h"
#include "transport/brick/block.h"

namespace brickfs {

struct Command {
  std::string verb;
  std::string source;  // or a path on a mount, where the verb takes one
  SecretFile secret_file;
  BlockRange blocks;  // of alloc, free, map, unmap
  BenchOptions bench;
  PingOptions ping;
  NoticeOptions notice;
  bool json = false;
  bool repair = false;                  // of check
  bool accept_older = false;            // of check
  bool over_files = false;              // of alloc, free, map
  std::optional<double> watch_seconds;  // of stats and top: again and again, so often
  double profile_seconds = 0;
  AdminRequest admin;    // of volume
  std::string key_file;  // of volume key add
  std::string member;    // of handover; empty: any
  SetOptions set;
  SecretFile admin_secret_file;  // of volume and set
};

// Says in one line why the command fails. Its exit code.
int fail(const Command& command, const std::string& why, int exit_code = EXIT_FAILURE);

int run_status(const Command& command);
int run_list(const Command& command);
int run_block_call(const Command& command);  // alloc, free, map, unmap
int run_check_command(const Command& command);
int run_bench(const Command& command);
int run_ping(const Command& command);
int run_notify(const Command& command);
int run_wait(const Command& command);
int run_explain(const Command& command);
int run_stats(const Command& command);
int run_profile(const Command& command);
int run_top(const Command& command);
int run_volume(const Command& command);
int run_volume_key(const Command& command);
int run_handover(const Command& command);
int run_set_create(const Command& command);
int run_set_change(const Command& command);  // replace, drain, remove, move, add, rebalance
int run_set_status(const Command& command);
int run_set_scrub(const Command& command);
int run_set_recover(const Command& command);

}  // namespace brickfs
