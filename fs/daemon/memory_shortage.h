// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace brickfs {

// For a process that a file system depends on, before it has threads: allocations of memory do not wait for dirty pages
// of a file system to be written, which may be its own (prctl(2), PR_SET_IO_FLUSHER), and the kernel ends others first
// when there is none left (oom_score_adj, unless that was set by somebody). Where we may not, nothing happens.
void prepare_for_memory_shortage();

}  // namespace brickfs
