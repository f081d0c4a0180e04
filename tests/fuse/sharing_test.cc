// SPDX-License-Identifier: Apache-2.0
// A mount whose volume other machines have, too: what the kernel may keep, how files are opened, and locks.
#include "fs/fuse/serve/sharing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fs/fuse/serve/session.h"
#include "tests/support/fuse_bed.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kTopNode = 1;

class SharedMount {
 public:
  explicit SharedMount(Sharing how, uint32_t minor = kMinorOfEpochs) : bed_({.sharing = how}) {
    fuse_init_in in{};
    in.major = 7;
    in.minor = minor;
    in.flags = ~0U;
    in.flags2 = ~0U;
    const auto agreed = bed_.serve_and_take(kernel().request_with(FUSE_INIT, 0, in));
    agreed_ = load<fuse_init_out>(agreed.payload);
    fuse_create_in create{};
    create.mode = S_IFREG | 0644;
    create.flags = O_RDWR;
    created_ = load<CreateOut>(ask(FUSE_CREATE, kTopNode, create, std::string("file") + '\0').payload);
  }

  FuseBed& bed() { return bed_; }
  FakeKernel& kernel() { return bed_.kernel(); }
  uint64_t file() const { return created_.entry.nodeid; }
  const CreateOut& created() const { return created_; }
  uint64_t agreed() const { return agreed_.flags | uint64_t{agreed_.flags2} << 32; }

  template <typename In>
  FakeKernel::Answer ask(uint32_t opcode, uint64_t node, const In& in, std::string_view rest = {}) {
    return bed_.serve_and_take(kernel().request_with(opcode, node, in, rest));
  }
  FakeKernel::Answer look_up(std::string_view name) {
    return bed_.serve_and_take(kernel().request_name(FUSE_LOOKUP, kTopNode, name));
  }
  // For how long the kernel may keep: a name, its attributes, those of getattr.
  std::vector<uint64_t> kept() {
    const auto entry = load<fuse_entry_out>(look_up("file").payload);
    const auto attributes = load<fuse_attr_out>(ask(FUSE_GETATTR, file(), fuse_getattr_in{}).payload);
    return {entry.entry_valid, entry.attr_valid, attributes.attr_valid};
  }
  fuse_open_out open(uint32_t flags) {
    return load<fuse_open_out>(ask(FUSE_OPEN, file(), fuse_open_in{.flags = flags, .open_flags = 0}).payload);
  }
  static fuse_lk_in lock(uint64_t owner, uint32_t type, bool flock = false) {
    return {.fh = owner,
            .owner = owner,
            .lk = {.start = 0, .end = INT64_MAX, .type = type, .pid = static_cast<uint32_t>(owner)},
            .lk_flags = flock ? FUSE_LK_FLOCK : 0U,
            .padding = 0};
  }
  int set(uint64_t owner, uint32_t type, bool flock = false) {
    return -ask(FUSE_SETLK, file(), lock(owner, type, flock)).header.error;
  }

 private:
  FuseBed bed_;
  fuse_init_out agreed_{};
  CreateOut created_{};
};

constexpr uint64_t kOfLocks = FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS;

TEST(SharingOfFuse, WhoDoesNotInsistOnANewFileLooksForTheOneThatIsThere) {
  for (const Sharing how : {Sharing::kMember, Sharing::kCoordinator, Sharing::kNone}) {
    SharedMount mount(how);
    fuse_create_in create{};
    create.mode = S_IFREG | 0644;
    for (const uint32_t flags : {uint32_t{O_RDWR}, uint32_t{O_RDWR | O_EXCL}}) {
      create.flags = flags;
      const auto answer = mount.ask(FUSE_CREATE, kTopNode, create, std::string("file") + '\0');
      EXPECT_EQ(answer.header.error, how == Sharing::kNone || flags != O_RDWR ? -EEXIST : -ESTALE);
    }
  }
}

TEST(SharingOfFuse, AloneTheKernelKeepsAll) {
  SharedMount mount(Sharing::kNone);
  EXPECT_EQ(mount.agreed() & (kOfLocks | kDirectIoAllowMmap), 0U);
  EXPECT_EQ(mount.kept(), (std::vector<uint64_t>(3, kForeverSeconds)));
  EXPECT_EQ(load<fuse_entry_out>(mount.look_up("none").payload).entry_valid, kForeverSeconds);
  EXPECT_EQ(mount.created().open.open_flags, uint32_t{FOPEN_KEEP_CACHE});
  EXPECT_EQ(mount.ask(FUSE_OPEN, mount.file(), fuse_open_in{}).header.error, -ENOSYS);
  EXPECT_EQ(mount.ask(FUSE_FLUSH, mount.file(), fuse_flush_in{}).header.error, -ENOSYS);
  EXPECT_EQ(mount.ask(FUSE_GETLK, mount.file(), SharedMount::lock(1, F_WRLCK)).header.error, -ENOSYS);
  EXPECT_EQ(mount.set(1, F_WRLCK), ENOSYS);
}

TEST(SharingOfFuse, AMembersKernelKeepsNothing) {
  SharedMount mount(Sharing::kMember);
  EXPECT_EQ(mount.agreed() & (kOfLocks | kDirectIoAllowMmap), kOfLocks | kDirectIoAllowMmap);
  EXPECT_EQ(mount.kept(), (std::vector<uint64_t>(3, 0)));
  EXPECT_EQ(mount.look_up("none").header.error, -ENOENT);
  EXPECT_EQ(mount.created().open.open_flags, uint32_t{FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES});
  EXPECT_EQ(mount.open(O_RDONLY).open_flags, uint32_t{FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES});
}

TEST(SharingOfFuse, ACoordinatorsKernelKeepsAllUntilThereAreMembers) {
  SharedMount mount(Sharing::kCoordinator);
  EXPECT_EQ(mount.kept(), (std::vector<uint64_t>(3, kForeverSeconds)));
  EXPECT_EQ(mount.created().open.open_flags, uint32_t{FOPEN_KEEP_CACHE});
  EXPECT_NE(mount.open(O_RDWR).fh, mount.open(O_RDWR).fh);
  EXPECT_TRUE(mount.bed().is_silent());
  mount.bed().session().set_members(true);
  // Twice: all names, and the attributes of the file and the root.
  constexpr int kAllNames = 8;
  constexpr int kAttributes = FUSE_NOTIFY_INVAL_INODE;
  for (const int expected : {kAllNames, kAttributes, kAttributes, kAllNames, kAttributes, kAttributes}) {
    const auto notice = mount.kernel().answer();
    ASSERT_TRUE(notice);
    EXPECT_EQ(notice->header.error, expected);
  }
  EXPECT_EQ(mount.kept(), (std::vector<uint64_t>(3, 0)));
  EXPECT_EQ(mount.look_up("none").header.error, -ENOENT);
  mount.bed().session().set_members(false);
  EXPECT_TRUE(mount.bed().is_silent());
  EXPECT_EQ(mount.kept(), (std::vector<uint64_t>(3, kForeverSeconds)));
}

// It would take a file that others make longer to end where it did.
TEST(SharingOfFuse, ACoordinatorsKernelKeepsNoBytesWhileThereAreMembers) {
  SharedMount mount(Sharing::kCoordinator);
  EXPECT_EQ(mount.open(O_RDWR).open_flags, uint32_t{FOPEN_KEEP_CACHE});
  mount.bed().session().set_members(true);
  while (mount.kernel().answer()) continue;
  EXPECT_NE(mount.open(O_RDWR).open_flags & FOPEN_DIRECT_IO, 0U);
  mount.bed().session().set_members(false);
  EXPECT_EQ(mount.open(O_RDWR).open_flags, uint32_t{FOPEN_KEEP_CACHE});
}

TEST(SharingOfFuse, AKernelThatCannotForgetKeepsNothing) {
  SharedMount mount(Sharing::kCoordinator, kMinorOfEpochs - 1);
  EXPECT_EQ(mount.kept(), (std::vector<uint64_t>(3, 0)));
}

// An answer that was decided on before is not on its way any more.
TEST(SharingOfFuse, WhatIsUnderWayIsWaitedFor) {
  FuseNegotiation negotiation;
  fuse_init_in in{};
  in.major = 7;
  in.minor = kMinorOfEpochs;
  ASSERT_TRUE(negotiation.answer(bytes_of(in)).ok());
  FuseSharing sharing(Sharing::kCoordinator, negotiation);
  std::optional<FuseSharing::Validity> before(std::in_place, sharing);
  EXPECT_EQ(before->seconds(), kForeverSeconds);
  auto told = std::async(std::launch::async, [&sharing] { sharing.set_members(true); });
  EXPECT_EQ(told.wait_for(50ms), std::future_status::timeout);
  EXPECT_EQ(FuseSharing::Validity(sharing).seconds(), 0U) << "though others wait";
  before.reset();
  EXPECT_EQ(told.wait_for(60s), std::future_status::ready);
}

TEST(SharingOfFuse, WhoBecomesAMemberHasFilesOpenByPagesUntilTheyAreClosed) {
  SharedMount mount(Sharing::kCoordinator);
  FuseSharing& sharing = mount.bed().session().sharing();
  const auto by_pages = mount.open(O_RDWR);
  ASSERT_EQ(mount.open(O_WRONLY | O_APPEND).open_flags & FOPEN_DIRECT_IO, uint32_t{FOPEN_DIRECT_IO});
  mount.bed().session().set_members(true);
  while (mount.kernel().answer()) continue;
  sharing.become_member();
  EXPECT_EQ(mount.open(O_RDWR).open_flags, uint32_t{FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES});
  EXPECT_EQ(sharing.open_by_pages(), (std::vector<Ino>(2, Ino{mount.file()}))) << "the one that made it, too";
  fuse_release_in closed{};
  for (const uint64_t opened : {by_pages.fh, mount.created().open.fh}) {
    closed.fh = opened;
    EXPECT_EQ(mount.ask(FUSE_RELEASE, mount.file(), closed).header.error, 0);
  }
  EXPECT_TRUE(sharing.open_by_pages().empty());
  EXPECT_EQ(mount.kept(), (std::vector<uint64_t>(3, 0)));
}

TEST(SharingOfFuse, WhatIsAppendedGoesToTheEnd) {
  for (const Sharing how : {Sharing::kNone, Sharing::kMember, Sharing::kCoordinator}) {
    SharedMount mount(how);
    const auto write = [&mount](uint64_t offset, uint32_t flags, uint32_t write_flags, std::string_view text) {
      fuse_write_in in{};
      in.offset = offset;
      in.size = static_cast<uint32_t>(text.size());
      in.flags = flags;
      in.write_flags = write_flags;
      EXPECT_EQ(mount.ask(FUSE_WRITE, mount.file(), in, text).header.error, 0);
    };
    const auto size = [&mount] {
      return load<fuse_attr_out>(mount.ask(FUSE_GETATTR, mount.file(), fuse_getattr_in{}).payload).attr.size;
    };
    write(0, O_WRONLY, FUSE_WRITE_LOCKOWNER, "0123456789");
    write(3, O_WRONLY | O_APPEND, FUSE_WRITE_LOCKOWNER, "abc");
    EXPECT_EQ(size(), how == Sharing::kNone ? 10U : 13U);
    write(3, O_WRONLY, FUSE_WRITE_LOCKOWNER, "abc");
    write(3, O_WRONLY | O_APPEND, FUSE_WRITE_CACHE, "abc");
    EXPECT_EQ(size(), how == Sharing::kNone ? 10U : 13U) << "the page cache's are where it says";
  }
}

TEST(SharingOfFuse, LocksGoWithTheirOwnersAndOpenFiles) {
  SharedMount mount(Sharing::kMember);
  EXPECT_EQ(mount.set(1, F_WRLCK), 0);
  EXPECT_EQ(mount.set(2, F_RDLCK), EAGAIN);
  const auto found = load<fuse_lk_out>(mount.ask(FUSE_GETLK, mount.file(), SharedMount::lock(2, F_RDLCK)).payload);
  EXPECT_EQ(found.lk.type, uint32_t{F_WRLCK});
  EXPECT_EQ(found.lk.pid, 1U);
  EXPECT_EQ(mount.set(2, F_WRLCK, /*flock=*/true), 0);
  EXPECT_EQ(mount.set(1, 77), EINVAL);
  // By another open file than it was set by.
  fuse_flush_in flush{};
  flush.fh = 9;
  flush.lock_owner = 1;
  EXPECT_EQ(mount.ask(FUSE_FLUSH, mount.file(), flush).header.error, 0);
  EXPECT_EQ(mount.set(2, F_RDLCK), 0);
  EXPECT_EQ(mount.set(3, F_RDLCK, true), EAGAIN);
  fuse_release_in release{};
  release.fh = 2;
  EXPECT_EQ(mount.ask(FUSE_RELEASE, mount.file(), release).header.error, 0);
  EXPECT_EQ(mount.set(3, F_WRLCK, true), 0);
  EXPECT_EQ(mount.set(3, F_WRLCK), 0) << "what was left of the open file's";
}

TEST(SharingOfFuse, WhoWaitsForALockHoldsNobodyUp) {
  SharedMount mount(Sharing::kCoordinator);
  EXPECT_EQ(mount.set(1, F_WRLCK), 0);
  const uint64_t waiting = mount.kernel().request_with(FUSE_SETLKW, mount.file(), SharedMount::lock(2, F_WRLCK));
  mount.bed().serve();
  EXPECT_EQ(mount.kept().size(), 3U) << "by the only worker there is";
  const uint64_t unlocking = mount.kernel().request_with(FUSE_SETLK, mount.file(), SharedMount::lock(1, F_UNLCK));
  mount.bed().serve();
  std::set<uint64_t> answered;
  for (int i = 0; i < 2; ++i) {
    const auto answer = mount.kernel().answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->header.error, 0);
    answered.insert(answer->header.unique);
  }
  EXPECT_EQ(answered, (std::set<uint64_t>{waiting, unlocking}));
  EXPECT_EQ(mount.set(1, F_RDLCK), EAGAIN);
}

TEST(SharingOfFuse, ASignalEndsTheWaitForALock) {
  SharedMount mount(Sharing::kCoordinator);
  EXPECT_EQ(mount.set(1, F_WRLCK), 0);
  const uint64_t waiting = mount.kernel().request_with(FUSE_SETLKW, mount.file(), SharedMount::lock(2, F_WRLCK));
  mount.bed().serve();
  mount.kernel().request_with(FUSE_INTERRUPT, 0, fuse_interrupt_in{.unique = waiting});
  mount.bed().serve();
  EXPECT_EQ(mount.bed().take(waiting).header.error, -EINTR);
  EXPECT_EQ(mount.set(1, F_UNLCK), 0);
  EXPECT_EQ(mount.set(3, F_WRLCK), 0) << "it was not set";
}

// The signal comes while nobody has looked at the request yet.
TEST(SharingOfFuse, ASignalBeforeTheWaitEndsItToo) {
  SharedMount mount(Sharing::kCoordinator);
  EXPECT_EQ(mount.set(1, F_WRLCK), 0);
  auto buffers = FuseBuffers::make(mount.bed().volume());
  ASSERT_TRUE(buffers.ok());
  FuseDeviceRequest request(std::move(*buffers), mount.bed().session().cache(), mount.bed().session().operations(),
                            mount.kernel().device());
  const uint64_t waiting = mount.kernel().request_with(FUSE_SETLKW, mount.file(), SharedMount::lock(2, F_WRLCK));
  ASSERT_GT(request.receive(), 0);
  ASSERT_TRUE(request.waiter().ask(waiting)) << "FuseInterrupts";
  mount.bed().dispatcher().serve(request);
  EXPECT_EQ(mount.bed().take(waiting).header.error, -EINTR);
}

TEST(SharingOfFuse, NobodyWaitsForAMountThatEnds) {
  SharedMount mount(Sharing::kCoordinator);
  EXPECT_EQ(mount.set(1, F_WRLCK), 0);
  const uint64_t waiting = mount.kernel().request_with(FUSE_SETLKW, mount.file(), SharedMount::lock(2, F_WRLCK));
  mount.bed().serve();
  mount.bed().session().locks().stop();
  EXPECT_EQ(mount.bed().take(waiting).header.error, -EIO);
}

}  // namespace
}  // namespace brickfs
