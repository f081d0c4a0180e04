// SPDX-License-Identifier: Apache-2.0
// What a commit has written to the store by the time of each sync: this program's fdatasync looks, then does it.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "server/embedded_brick.h"
#include "tests/support/brick_contract.h"

namespace {

std::function<void()>* at_sync = nullptr;

}  // namespace

extern "C" int fdatasync(int fd) {
  if (at_sync != nullptr) (*at_sync)();
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}

namespace brickfs::testing {
namespace {

constexpr char kStamp[] = "these bytes are in a block just allocated";

bool has_stamp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return bytes.find(kStamp) != bytes.npos;
}

// A power failure may keep any of what was not synced: so no byte is written before the table that says whose it is.
TEST(CommitOrder, TheBlockTableIsSyncedBeforeBytesAreWritten) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("store");
  BrickConfig config;
  config.memory_bytes = 2 * kBlockBytes;
  config.store_path = path;
  config.store_bytes = 2 * kBlockBytes;
  std::string why;
  auto service = BrickService::open(config, &why);
  ASSERT_TRUE(service.ok()) << why;
  auto brick = make_embedded_brick(std::shared_ptr<BrickService>(*std::move(service)));
  OpenRequest request;
  request.client = ClientId{1};
  ASSERT_TRUE(brick->open(request, nullptr).ok());
  ASSERT_TRUE(brick->alloc(blocks(0)).ok());
  const auto handles = brick->map(blocks(0), Access::kReadWrite);
  ASSERT_TRUE(handles.ok());
  std::vector<std::byte> stamp(sizeof(kStamp));
  std::memcpy(stamp.data(), kStamp, sizeof(kStamp));
  ASSERT_TRUE(write(*brick, handles->front(), 0, stamp).ok());

  std::vector<bool> written;  // by each sync
  std::function<void()> look = [&] { written.push_back(has_stamp(path)); };
  at_sync = &look;
  const CommitRange range{0, sizeof(kStamp), false};
  const bool committed = brick->commit({&range, 1}).ok();
  const bool again = brick->commit({&range, 1}).ok();  // with the table as it was: one sync does
  at_sync = nullptr;
  EXPECT_TRUE(committed && again);
  EXPECT_EQ(written, (std::vector<bool>{false, true, true}));
}

}  // namespace
}  // namespace brickfs::testing
