// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "fs/shm_queue/serve/program.h"
#include "transport/base/bytes.h"

namespace brickfs {
namespace {

constexpr uint64_t kLimit = 3 * kMiB;

// Of another user, with a limit, until it is killed.
pid_t begin_program() {
  const pid_t program = fork();
  if (program != 0) return program;
  const rlimit limit{.rlim_cur = kLimit, .rlim_max = RLIM_INFINITY};
  const bool is_ready = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                        setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0;
  if (is_ready) raise(SIGSTOP);
  _exit(1);
}

// Of this thread.
bool drop_resource_capability() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2]{};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  data[0].effective &= ~(1u << CAP_SYS_RESOURCE);
  return syscall(SYS_capset, &header, data) == 0;
}

TEST(FileSizeLimit, IsKnownOfAnotherUsersProgramWithAndWithoutTheCapability) {
  if (geteuid() != 0) GTEST_SKIP() << "as root only";
  const pid_t program = begin_program();
  int status = 0;
  ASSERT_EQ(waitpid(program, &status, WUNTRACED), program);
  ASSERT_TRUE(WIFSTOPPED(status));
  const auto expect_limit = [&] {
    FileSizeLimit limit(program);
    EXPECT_TRUE(limit.allows(kLimit));
    EXPECT_FALSE(limit.allows(kLimit + 1));
  };
  expect_limit();
  std::thread([&] {
    ASSERT_TRUE(drop_resource_capability());
    expect_limit();
    FileSizeLimit limit(program);
    EXPECT_TRUE(limit.allows(kLimit));
    kill(program, SIGKILL);
    EXPECT_EQ(waitpid(program, &status, 0), program);
    EXPECT_FALSE(limit.allows(0));
  }).join();
  EXPECT_FALSE(FileSizeLimit(0).allows(0));
}

}  // namespace
}  // namespace brickfs
