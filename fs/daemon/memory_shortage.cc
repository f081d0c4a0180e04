// SPDX-License-Identifier: Apache-2.0
#include "fs/daemon/memory_shortage.h"

#include <sys/prctl.h>

#include <fstream>

#include "transport/base/log.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

namespace brickfs {
namespace {

constexpr int kScore = -500;  // of -1000 to 1000: before it goes who takes half of the memory or less
constexpr const char* kScorePath = "/proc/self/oom_score_adj";

}  // namespace

void prepare_for_memory_shortage() {
  if (::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0) log::debug("PR_SET_IO_FLUSHER is not allowed here");
  int score = 0;
  if (!(std::ifstream(kScorePath) >> score) || score != 0) return;
  std::ofstream file(kScorePath);
  file << kScore << std::flush;
  if (!file) log::debug("oom_score_adj cannot be lowered here");
}

}  // namespace brickfs
