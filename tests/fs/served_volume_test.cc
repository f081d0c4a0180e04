// SPDX-License-Identifier: Apache-2.0
// A volume that a mount serves, on a brick over TCP, which goes from one machine to another.
#include "fs/served/served_volume.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "fs/shared/handover.h"
#include "fs/source/source_volume.h"
#include "tests/support/eventually.h"
#include "tests/support/reserved_port.h"
#include "tests/support/stopped_process.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/base/log.h"
#include "transport/membership/coordinator_name.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

using testing::eventually;

class Served : public ::testing::Test {
 protected:
  std::unique_ptr<ServedVolume> open() {
    MountCommand command;
    command.source = source_;
    command.mountpoint = "/mnt";
    command.shared = true;
    std::string why;
    auto opened = ServedVolume::open(command, {}, &why);
    EXPECT_TRUE(opened.ok()) << why;
    if (!opened.ok()) return nullptr;
    (*opened)->start_sharing(nullptr);
    return std::move(*opened);
  }
  // As a third machine does that coordinates, and cannot be reached.
  std::unique_ptr<VolumeClient> steal() {
    VolumeOptions options;
    options.open.client = ClientId{4711};
    options.open.client_name = name_of_coordinator("a third one", {"127.0.0.1", nobody_.number()});
    options.open.steal = true;
    auto stolen = VolumeClient::open(brick_.connect(), std::move(options), nullptr);
    EXPECT_TRUE(stolen.ok());
    return stolen.ok() ? std::move(*stolen) : nullptr;
  }
  Status hand_over() {
    std::string why;
    const Source source = TRY(parse_source(source_, &why));
    const auto holder = TRY(find_holder(source, {}));
    const auto address = holder ? address_of_coordinator(holder->name) : std::nullopt;
    if (!address) return Error(ENOENT, "nobody shares it");
    const auto answer = TRY(shared::ask_handover(*address, {}, {holder->client, source.volume, ""}));
    return answer.status == 0 ? Status() : Status(Error(answer.status, "it is refused"));
  }

  testing::TcpTestBrick brick_{testing::memory_config(64)};
  const std::string source_ = fmt::format("tcp://127.0.0.1:{}/default", brick_.port());
  const testing::ReservedPort nobody_;
};

bool is_closed(FileOperations& files) {
  Interruption at_once;
  at_once.raise();
  return files.get_attributes(kRootIno, {.interruption = &at_once}).code() == EINTR;
}

// What its programs were told may be nowhere else. They do not go on with the volume as another has it, and an fsync
// that succeeds.
TEST_F(Served, IsLostToTheProgramsOfWhoCannotWriteItAllBeforeItIsHandedOver) {
  const auto first = open();
  const auto second = open();
  ASSERT_TRUE(first && second);
  FileOperations& files = first->files();
  Caller caller;
  caller.is_administrator = [] { return true; };
  const auto made = files.create(kRootIno, "file", S_IFREG | 0644, caller, {});
  ASSERT_TRUE(made.ok());
  std::string text(4096, 'a');
  const LocalSlice slice{reinterpret_cast<std::byte*>(text.data()), static_cast<uint32_t>(text.size()), 0};
  ASSERT_TRUE(files.write(made->ino, 0, std::span(&slice, 1), false, nullptr, false, {}).ok());

  // One operation is under way, so the volume is not let go of yet.
  auto under_way = files.joint_transfer({});
  ASSERT_TRUE(under_way->begin_read(made->ino, 0, slice, Touch::kNothing));
  ASSERT_TRUE(hand_over().ok());
  ASSERT_TRUE(eventually([&] { return is_closed(files); }));
  const auto third = steal();
  (void)under_way->move();
  under_way.reset();
  EXPECT_TRUE(eventually([&] { return !is_closed(files); }));
  EXPECT_EQ(files.volume().final_error().code(), ESTALE);
  EXPECT_EQ(files.sync(made->ino, {}).code(), ESTALE);
}

// The process has slept, so its answers wait until it is known what has changed meanwhile: also that to itself, which
// becomes a member to hand the volume over.
TEST_F(Served, MayBeUnmountedWhileItIsBeingHandedOver) {
  const auto first = open();
  const auto second = open();
  ASSERT_TRUE(first && second);
  testing::stop_for(std::chrono::milliseconds(1'500));
  Status handed_over;
  std::thread asks([&] { handed_over = hand_over(); });
  EXPECT_TRUE(eventually([&] { return first->members().size() == 2; })) << "it does not come to itself";
  EXPECT_TRUE(first->unmount().ok());
  asks.join();
  EXPECT_TRUE(handed_over.ok()) << describe(handed_over.error());
  EXPECT_TRUE(second->files().get_attributes(kRootIno, {}).ok());
}

// Descriptors run short when a member has just taken the volume, and comes to itself.
class FewDescriptors {
 public:
  FewDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    instance_ = this;
    static constexpr log::Sink kTakenPlace{line, nullptr, log::Level::kInfo};
    log::set_sink(&kTakenPlace);
  }
  ~FewDescriptors() {
    log::set_sink(nullptr);
    release();
    instance_ = nullptr;
  }
  bool have_run_short() const { return short_; }
  void release() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  static void line(void*, log::Level, const char* text) {
    if (std::string_view(text).find("has taken its place") == std::string_view::npos || instance_->short_) return;
    const rlimit none{0, instance_->before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    instance_->short_ = true;
  }

  static inline FewDescriptors* instance_ = nullptr;
  rlimit before_{};
  std::atomic<bool> short_{false};
};

TEST_F(Served, FindsItselfThoughItsFirstWayToItselfIsLost) {
  const auto first = open();
  const auto second = open();
  ASSERT_TRUE(first && second);
  FewDescriptors descriptors;
  ASSERT_TRUE(hand_over().ok());
  ASSERT_TRUE(eventually([&] { return descriptors.have_run_short(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  descriptors.release();
  EXPECT_TRUE(eventually([&] { return !second->files().volume().is_away(); }))
      << "it looks for its predecessor for ever";
  EXPECT_TRUE(second->files().get_attributes(kRootIno, {}).ok());
  EXPECT_TRUE(first->files().get_attributes(kRootIno, {}).ok());
}

}  // namespace
}  // namespace brickfs
