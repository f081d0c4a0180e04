// SPDX-License-Identifier: Apache-2.0
// brickctl's raw verbs. Each prints its result on standard output, for people or as JSON (json.h), and returns the exit
// code; what went wrong is one line on standard error.
#pragma once

#include <string>

#include "tools/brickctl/options.h"
#include "transport/brick/block.h"

namespace brickfs {

struct Command {
  std::string verb;
  std::string source;
  std::string secret_file;
  BlockRange blocks;  // of alloc, free, map, unmap
  BenchOptions bench;
  PingOptions ping;
  bool json = false;
  bool repair = false;  // of check
};

int run_status(const Command& command);
int run_list(const Command& command);
int run_block_call(const Command& command);  // alloc, free, map, unmap
int run_check_command(const Command& command);
int run_bench(const Command& command);
int run_ping(const Command& command);

}  // namespace brickfs
