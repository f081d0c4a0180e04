// SPDX-License-Identifier: Apache-2.0
// What each kind of request does and is answered with, well-formed or not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fs/fuse/serve/session.h"
#include "tests/support/fuse_bed.h"

namespace brickfs {
namespace {

using namespace std::string_view_literals;

constexpr uint64_t kRootNode = 1;

// The kernel's ABI: what follows the header of a request at least.
struct Shape {
  uint32_t opcode;
  size_t arguments_bytes;
  size_t names;
};
constexpr Shape kShapes[] = {
    {FUSE_LOOKUP, 0, 1},       {FUSE_GETATTR, 16, 0}, {FUSE_SETATTR, 88, 0},  {FUSE_SYMLINK, 0, 2},
    {FUSE_MKNOD, 16, 1},       {FUSE_MKDIR, 8, 1},    {FUSE_UNLINK, 0, 1},    {FUSE_RMDIR, 0, 1},
    {FUSE_RENAME, 8, 2},       {FUSE_LINK, 8, 1},     {FUSE_READ, 40, 0},     {FUSE_WRITE, 40, 0},
    {FUSE_SETXATTR, 8, 1},     {FUSE_GETXATTR, 8, 1}, {FUSE_LISTXATTR, 8, 0}, {FUSE_REMOVEXATTR, 0, 1},
    {FUSE_READDIR, 40, 0},     {FUSE_CREATE, 16, 1},  {FUSE_INTERRUPT, 8, 0}, {FUSE_FALLOCATE, 32, 0},
    {FUSE_READDIRPLUS, 40, 0}, {FUSE_RENAME2, 16, 2}, {FUSE_LSEEK, 24, 0},    {FUSE_COPY_FILE_RANGE, 56, 0},
    {FUSE_TMPFILE, 16, 0},
};

class DispatcherOfFuse : public ::testing::Test {
 protected:
  FakeKernel& kernel() { return bed_.kernel(); }
  FakeKernel::Answer ask(uint32_t opcode, uint64_t node, std::span<const std::byte> body = {}) {
    return bed_.serve_and_take(kernel().request(opcode, node, body));
  }
  template <typename In>
  FakeKernel::Answer ask_with(uint32_t opcode, uint64_t node, const In& in, std::string_view rest = {}) {
    return bed_.serve_and_take(kernel().request_with(opcode, node, in, rest));
  }
  FakeKernel::Answer ask_name(uint32_t opcode, uint64_t node, std::string_view name) {
    return bed_.serve_and_take(kernel().request_name(opcode, node, name));
  }
  static std::string text_of(const FakeKernel::Answer& answer) {
    return {reinterpret_cast<const char*>(answer.payload.data()), answer.payload.size()};
  }
  uint64_t create(std::string_view name, uint32_t mode = S_IFREG | 0644) {
    fuse_create_in in{};
    in.mode = mode;
    const auto answer = ask_with(FUSE_CREATE, kRootNode, in, std::string(name) + '\0');
    EXPECT_EQ(answer.header.error, 0);
    EXPECT_EQ(answer.payload.size(), sizeof(CreateOut));
    return load<fuse_entry_out>(answer.payload).nodeid;
  }
  // What the kernel is told to drop of an inode's attributes.
  std::vector<uint64_t> dropped() {
    std::vector<uint64_t> nodes;
    for (const auto& notice : bed_.notices()) {
      EXPECT_EQ(notice.header.error, FUSE_NOTIFY_INVAL_INODE);
      EXPECT_EQ(load<fuse_notify_inval_inode_out>(notice.payload).off, -1);
      nodes.push_back(load<fuse_notify_inval_inode_out>(notice.payload).ino);
    }
    return nodes;
  }

  FuseBed bed_;
};

std::string text(size_t count) { return std::string(count, '\0'); }

TEST_F(DispatcherOfFuse, RefusesWhatIsTooShort) {
  const uint64_t file = create("file");
  for (const Shape& shape : kShapes) {
    for (size_t bytes = 0; bytes < shape.arguments_bytes; ++bytes) {
      const std::string body = text(bytes);
      EXPECT_EQ(ask(shape.opcode, file, std::as_bytes(std::span(body))).header.error, -EINVAL)
          << shape.opcode << " with " << bytes << " bytes";
    }
  }
  EXPECT_TRUE(bed_.is_silent());
}

TEST_F(DispatcherOfFuse, RefusesNamesThatAreNone) {
  const uint64_t folder = kRootNode;
  for (const Shape& shape : kShapes) {
    if (shape.names == 0) continue;
    for (const std::string_view rest :
         {""sv, "endless"sv, "\0"sv, "\0two\0"sv, "one"sv, "one\0endless"sv, "one\0\0"sv}) {
      const bool has_one = rest.starts_with("one\0"sv);
      if (has_one && shape.names == 1) continue;
      const std::string body = text(shape.arguments_bytes).append(rest);
      EXPECT_EQ(ask(shape.opcode, folder, std::as_bytes(std::span(body))).header.error, -EINVAL)
          << shape.opcode << " with " << rest;
    }
  }
  EXPECT_EQ(bed_.filesystem().stat().inodes, 1u) << "nothing was made";
}

TEST_F(DispatcherOfFuse, RefusesWhatIsNotAsLongAsItSays) {
  fuse_in_header header{};
  header.opcode = FUSE_LOOKUP;
  header.unique = 2;
  header.nodeid = kRootNode;
  for (const uint32_t length : {0u, 39u, 41u, 1'000u, UINT32_MAX}) {
    header.len = length;
    kernel().send(bytes_of(header));
    EXPECT_EQ(bed_.serve_and_take(header.unique).header.error, -EIO) << length;
  }
  kernel().send(bytes_of(header).first(39));
  bed_.serve();
  EXPECT_TRUE(bed_.is_silent()) << "it is not known what it is";
}

TEST_F(DispatcherOfFuse, KnowsNothingOfOtherOperations) {
  const std::string body = text(200);
  for (const uint32_t opcode : {0u,
                                7u,
                                19u,
                                uint32_t{FUSE_OPEN},
                                uint32_t{FUSE_FLUSH},
                                uint32_t{FUSE_OPENDIR},
                                uint32_t{FUSE_GETLK},
                                uint32_t{FUSE_SETLK},
                                uint32_t{FUSE_SETLKW},
                                uint32_t{FUSE_ACCESS},
                                uint32_t{FUSE_BMAP},
                                uint32_t{FUSE_IOCTL},
                                uint32_t{FUSE_POLL},
                                uint32_t{FUSE_NOTIFY_REPLY},
                                48u,
                                53u,
                                63u,
                                64u,
                                4096u,
                                UINT32_MAX}) {
    EXPECT_EQ(ask(opcode, kRootNode, std::as_bytes(std::span(body))).header.error, -ENOSYS) << opcode;
  }
}

// Each is answered once, with an error that the kernel takes, and does no harm beyond what it asks for.
TEST_F(DispatcherOfFuse, IsNotHarmedByAnyBytes) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const uint64_t file = create("file");
  for (int i = 0; i < 20'000; ++i) {
    const auto opcode = static_cast<uint32_t>(random() % 64);
    if (opcode == FUSE_INIT) continue;
    std::vector<std::byte> body(random() % 4 == 0 ? random() % 6'000 : random() % 120);
    for (std::byte& byte : body) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : random() % 3);
    // A datagram holds less than the device's answers may have.
    const bool lists = opcode == FUSE_READ || opcode == FUSE_READDIR || opcode == FUSE_READDIRPLUS;
    if (lists && body.size() >= sizeof(fuse_read_in)) {
      const auto bytes = static_cast<uint32_t>(random() % 65'536);
      std::memcpy(body.data() + offsetof(fuse_read_in, size), &bytes, sizeof(bytes));
    }
    const uint64_t node = std::vector<uint64_t>{kRootNode, file, random(), 0}[random() % 4];
    kernel().ask_as(static_cast<uint32_t>(random() % 2), 0);
    const uint64_t unique = kernel().request(opcode, node, body);
    bed_.serve();
    if (opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET) continue;
    const auto answer = bed_.take(unique);
    EXPECT_LE(answer.header.error, 0);
    EXPECT_GT(answer.header.error, -512);
    if (answer.header.error != 0) {
      EXPECT_TRUE(answer.payload.empty());
    }
  }
  kernel().ask_as(0, 0);
  EXPECT_TRUE(bed_.is_silent());
  const uint64_t other = create("another");
  const auto written = bed_.serve_and_take(kernel().request_write(other, 0, std::vector<std::byte>(100, std::byte{7})));
  EXPECT_EQ(load<fuse_write_out>(written.payload).size, 100u);
  EXPECT_EQ(bed_.serve_and_take(kernel().request_read(other, 0, 4096)).payload,
            std::vector<std::byte>(100, std::byte{7}));
}

TEST_F(DispatcherOfFuse, WritesAndReads) {
  const uint64_t file = create("file");
  const std::vector<std::byte> data(5'000, std::byte{0x33});
  EXPECT_EQ(load<fuse_write_out>(bed_.serve_and_take(kernel().request_write(file, 3'000, data)).payload).size, 5'000u);
  const auto got = bed_.serve_and_take(kernel().request_read(file, 2'999, 65'536));
  ASSERT_EQ(got.payload.size(), 5'001u);
  EXPECT_EQ(got.payload[0], std::byte{0});
  EXPECT_EQ(got.payload[1], std::byte{0x33});
  fuse_lseek_in seek{};
  seek.whence = SEEK_HOLE;
  EXPECT_EQ(load<fuse_lseek_out>(ask_with(FUSE_LSEEK, file, seek).payload).offset, 8'000u);
  fuse_copy_file_range_in copy{};
  copy.nodeid_out = create("copy");
  copy.len = 6'000;
  EXPECT_EQ(load<fuse_write_out>(ask_with(FUSE_COPY_FILE_RANGE, file, copy).payload).size, 6'000u);
  EXPECT_EQ(load<fuse_attr_out>(ask_with(FUSE_GETATTR, copy.nodeid_out, fuse_getattr_in{}).payload).attr.size, 6'000u);
  fuse_setattr_in shorter{};
  shorter.valid = FATTR_SIZE;
  shorter.size = 10;
  EXPECT_EQ(load<fuse_attr_out>(ask_with(FUSE_SETATTR, file, shorter).payload).attr.size, 10u);
  const auto birth = ask(kOpcodeStatx, file);
  ASSERT_EQ(birth.payload.size(), sizeof(StatxOut));
  EXPECT_EQ(load<StatxOut>(birth.payload).stat.size, 10u);
  EXPECT_GT(load<StatxOut>(birth.payload).stat.btime.seconds, 0);
  EXPECT_EQ(ask(FUSE_FSYNC, file).header.error, 0);
  EXPECT_EQ(ask(FUSE_SYNCFS, kRootNode).header.error, 0);
}

TEST_F(DispatcherOfFuse, AWriteThatLiesAboutItsLengthIsNone) {
  const uint64_t file = create("file");
  for (const uint32_t claimed : {0u, 99u, 101u, 600'000u, UINT32_MAX}) {
    fuse_write_in in{};
    in.size = claimed;
    EXPECT_EQ(ask_with(FUSE_WRITE, file, in, text(100)).header.error, -EINVAL) << claimed;
  }
  // As one of several that wait: the memory for small ones is small.
  fuse_write_in in{};
  in.size = 100;
  const uint64_t first = kernel().request_with(FUSE_WRITE, file, in, text(100'000));
  const uint64_t second = kernel().request_with(FUSE_WRITE, file, in, text(100));
  EXPECT_EQ(bed_.serve_and_take(first).header.error, -EINVAL);
  EXPECT_EQ(bed_.serve_and_take(second).header.error, 0);
  fuse_read_in read{};
  read.size = 100;
  const uint64_t third = kernel().request_with(FUSE_READ, file, read, text(100'000));
  const uint64_t fourth = kernel().request_with(FUSE_READ, file, read);
  EXPECT_EQ(bed_.serve_and_take(third).payload.size(), 100u);
  EXPECT_EQ(bed_.serve_and_take(fourth).payload.size(), 100u);
}

TEST_F(DispatcherOfFuse, MakesAndRemovesNames) {
  fuse_mkdir_in folder{};
  folder.mode = 0755;
  const auto made = ask_with(FUSE_MKDIR, kRootNode, folder, "folder\0"sv);
  const uint64_t node = load<fuse_entry_out>(made.payload).nodeid;
  EXPECT_EQ(load<fuse_entry_out>(made.payload).attr.mode, S_IFDIR | 0755u);
  const uint64_t link =
      load<fuse_entry_out>(ask(FUSE_SYMLINK, node, std::as_bytes(std::span("link\0target\0"sv))).payload).nodeid;
  EXPECT_EQ(text_of(ask(FUSE_READLINK, link)), "target");
  fuse_mknod_in fifo{};
  fifo.mode = S_IFIFO | 0600;
  EXPECT_EQ(load<fuse_entry_out>(ask_with(FUSE_MKNOD, node, fifo, "fifo\0"sv).payload).attr.mode, S_IFIFO | 0600u);
  fuse_link_in second{};
  second.oldnodeid = create("file");
  EXPECT_EQ(load<fuse_entry_out>(ask_with(FUSE_LINK, node, second, "second\0"sv).payload).attr.nlink, 2u);
  fuse_rename2_in rename{};
  rename.newdir = kRootNode;
  rename.flags = 1;  // RENAME_NOREPLACE
  EXPECT_EQ(ask_with(FUSE_RENAME2, node, rename, "second\0file\0"sv).header.error, -EEXIST);
  rename.flags = 0;
  EXPECT_EQ(ask_with(FUSE_RENAME2, node, rename, "fifo\0file\0"sv).header.error, 0);
  fuse_rename_in plain{};
  plain.newdir = kRootNode;
  EXPECT_EQ(ask_with(FUSE_RENAME, node, plain, "second\0back\0"sv).header.error, 0);
  EXPECT_EQ(load<fuse_entry_out>(ask_name(FUSE_LOOKUP, kRootNode, "back").payload).nodeid, second.oldnodeid);
  EXPECT_EQ(ask_name(FUSE_RMDIR, kRootNode, "folder").header.error, -ENOTEMPTY);
  EXPECT_EQ(ask_name(FUSE_UNLINK, node, "link").header.error, 0);
  EXPECT_EQ(ask_name(FUSE_RMDIR, kRootNode, "folder").header.error, 0);
  const auto none = ask_name(FUSE_LOOKUP, kRootNode, "folder");
  EXPECT_EQ(none.header.error, 0) << "the kernel is to remember that there is none";
  EXPECT_EQ(load<fuse_entry_out>(none.payload).nodeid, 0u);
  fuse_create_in temporary{};
  temporary.mode = S_IFREG | 0600;
  const auto nameless = ask_with(FUSE_TMPFILE, kRootNode, temporary, "/\0"sv);
  EXPECT_EQ(nameless.payload.size(), sizeof(CreateOut));
  EXPECT_EQ(load<fuse_entry_out>(nameless.payload).attr.nlink, 0u);
}

TEST_F(DispatcherOfFuse, TakesExtendedAttributes) {
  const uint64_t file = create("file");
  SetxattrIn set{.size = 5, .flags = 0};
  EXPECT_EQ(ask_with(FUSE_SETXATTR, file, set, "user.a\0value"sv).header.error, 0);
  set.size = 6;
  EXPECT_EQ(ask_with(FUSE_SETXATTR, file, set, "user.b\0value"sv).header.error, -EINVAL) << "it is shorter";
  fuse_getxattr_in get{};
  EXPECT_EQ(load<fuse_getxattr_out>(ask_with(FUSE_GETXATTR, file, get, "user.a\0"sv).payload).size, 5u);
  get.size = 4;
  EXPECT_EQ(ask_with(FUSE_GETXATTR, file, get, "user.a\0"sv).header.error, -ERANGE);
  get.size = 5;
  EXPECT_EQ(text_of(ask_with(FUSE_GETXATTR, file, get, "user.a\0"sv)), "value");
  get.size = 100;
  EXPECT_EQ(text_of(ask_with(FUSE_LISTXATTR, file, get)), "user.a\0"sv);
  EXPECT_EQ(ask_name(FUSE_REMOVEXATTR, file, "user.a").header.error, 0);
  EXPECT_EQ(ask_with(FUSE_GETXATTR, file, get, "user.a\0"sv).header.error, -ENODATA);
}

// The kernel gives back what it got: by lookups, by what was made, and by listings with attributes.
TEST_F(DispatcherOfFuse, CountsWhatTheKernelKnows) {
  const auto is_known = [this](uint64_t node) {
    const auto known = bed_.filesystem().referenced_from(Ino{1});
    return std::find(known.begin(), known.end(), Ino{node}) != known.end();
  };
  const auto forget = [this](uint64_t node, uint64_t count) {
    fuse_forget_in in{};
    in.nlookup = count;
    kernel().request_with(FUSE_FORGET, node, in);
    bed_.serve();
  };
  const uint64_t a = create("a");
  const uint64_t b = create("b");
  forget(a, 1);
  EXPECT_FALSE(is_known(a));
  fuse_read_in in{};
  in.size = 4'096;
  EXPECT_EQ(ask_with(FUSE_READDIR, kRootNode, in).header.error, 0);
  EXPECT_FALSE(is_known(a)) << "names alone";
  const auto listed = ask_with(FUSE_READDIRPLUS, kRootNode, in);
  EXPECT_NE(text_of(listed).find("a"), std::string::npos);
  EXPECT_TRUE(is_known(a));
  forget(a, 1);
  EXPECT_FALSE(is_known(a));
  forget(b, 1);
  EXPECT_TRUE(is_known(b)) << "by the listing";
  // Two of which the second is cut off.
  struct {
    fuse_batch_forget_in in{};
    fuse_forget_one one{};
  } batch;
  batch.in.count = UINT32_MAX;
  batch.one.nodeid = b;
  batch.one.nlookup = 1;
  kernel().request_with(FUSE_BATCH_FORGET, 0, batch, "1234567"sv);
  bed_.serve();
  EXPECT_FALSE(is_known(b));
  EXPECT_TRUE(bed_.is_silent()) << "no answer is expected";
  for (const uint64_t count : {UINT64_MAX, uint64_t{0}}) forget(a, count);
  EXPECT_EQ(load<fuse_entry_out>(ask_name(FUSE_LOOKUP, kRootNode, "a").payload).nodeid, a);
}

// What comes of an answer that was not taken is as if it had not been given.
TEST_F(DispatcherOfFuse, TakesBackWhatTheKernelDidNotTake) {
  const uint64_t file = create("file");
  fuse_forget_in in{};
  in.nlookup = 1;
  kernel().request_with(FUSE_FORGET, file, in);
  bed_.serve();
  kernel().request_name(FUSE_LOOKUP, kRootNode, "file");
  kernel().hang_up();
  bed_.serve();
  EXPECT_TRUE(bed_.filesystem().referenced_from(Ino{2}).empty());
}

TEST_F(DispatcherOfFuse, AnInterruptOfWhatIsNotHereIsToComeAgain) {
  fuse_interrupt_in in{};
  in.unique = 12'345;
  EXPECT_EQ(ask_with(FUSE_INTERRUPT, 0, in).header.error, -EAGAIN);
}

TEST_F(DispatcherOfFuse, BeginsOnce) {
  EXPECT_EQ(bed_.begun(), 0);
  fuse_init_in in{};
  in.major = 8;
  EXPECT_EQ(load<fuse_init_out>(ask_with(FUSE_INIT, 0, in).payload).major, 7u);
  EXPECT_EQ(bed_.begun(), 0) << "it asks again";
  bed_.negotiate(44);
  EXPECT_EQ(bed_.begun(), 1);
  EXPECT_EQ(ask(FUSE_DESTROY, 0).header.error, 0);
}

// Of that which somebody else was told of: he may get that answer later than this one. Each that changes a node without
// telling its attributes, with what it changes besides.
TEST_F(DispatcherOfFuse, TellsTheKernelWhatAnOperationStamps) {
  const auto tell = [this](uint64_t node) {
    kernel().ask_as(0, 77);
    EXPECT_EQ(ask_with(FUSE_GETATTR, node, fuse_getattr_in{}).header.error, 0);
    kernel().ask_as(0, 78);
    (void)dropped();
  };
  const uint64_t file = create("file");
  fuse_mkdir_in folder{};
  folder.mode = 0755;
  const uint64_t node = load<fuse_entry_out>(ask_with(FUSE_MKDIR, kRootNode, folder, "folder\0"sv).payload).nodeid;
  const auto expect = [&](uint32_t opcode, uint64_t changed, std::string body) {
    tell(changed);
    EXPECT_EQ(ask(opcode, changed, std::as_bytes(std::span(body))).header.error, 0) << opcode;
    EXPECT_EQ(dropped(), std::vector<uint64_t>{changed}) << opcode;
    if (bed_.filesystem().take_told(Ino{changed})) ADD_FAILURE() << opcode << " told of it";
  };
  const auto with = [](const auto& in, std::string_view rest) {
    return std::string(reinterpret_cast<const char*>(&in), sizeof(in)).append(rest);
  };
  fuse_create_in create_in{};
  create_in.mode = S_IFREG | 0600;
  expect(FUSE_CREATE, node, with(create_in, "created\0"sv));
  fuse_mknod_in mknod_in{};
  mknod_in.mode = S_IFREG | 0600;
  expect(FUSE_MKNOD, node, with(mknod_in, "node\0"sv));
  expect(FUSE_MKDIR, node, with(folder, "inner\0"sv));
  expect(FUSE_SYMLINK, node, std::string("link\0target\0"sv));
  fuse_link_in link_in{};
  link_in.oldnodeid = file;
  expect(FUSE_LINK, node, with(link_in, "hard\0"sv));
  expect(FUSE_UNLINK, node, std::string("hard\0"sv));
  expect(FUSE_RMDIR, node, std::string("inner\0"sv));
  expect(FUSE_SETXATTR, file, with(SetxattrIn{.size = 1, .flags = 0}, "user.a\0v"sv));
  expect(FUSE_REMOVEXATTR, file, std::string("user.a\0"sv));
  fuse_fallocate_in allocate{};
  allocate.length = 4'096;
  expect(FUSE_FALLOCATE, file, with(allocate, {}));
  // A rename stamps both directories and what is moved.
  for (const uint64_t each : {node, kRootNode, file}) tell(each);
  fuse_rename_in rename{};
  rename.newdir = node;
  EXPECT_EQ(ask_with(FUSE_RENAME, kRootNode, rename, "file\0file\0"sv).header.error, 0);
  auto nodes = dropped();
  std::sort(nodes.begin(), nodes.end());
  std::vector<uint64_t> expected = {kRootNode, file, node};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(nodes, expected);
}

TEST_F(DispatcherOfFuse, TellsTheKernelThatSetUidBitsAreCleared) {
  bed_.negotiate(44);
  const uint64_t file = create("file");
  const auto set_bits = [&] {
    kernel().ask_as(0, 77);
    fuse_setattr_in mode{};
    mode.valid = FATTR_MODE;
    mode.mode = S_IFREG | 06755;
    EXPECT_EQ(ask_with(FUSE_SETATTR, file, mode).header.error, 0);
    (void)bed_.filesystem().take_told(Ino{file});
    (void)dropped();
    kernel().ask_as(1000, 78);
  };
  const auto mode = [&] { return bed_.filesystem().get_attributes(Ino{file})->mode & 07777; };
  set_bits();
  bed_.serve_and_take(kernel().request_write(file, 0, std::vector<std::byte>(10), FUSE_WRITE_KILL_SUIDGID));
  EXPECT_EQ(dropped(), std::vector<uint64_t>{file});
  EXPECT_EQ(mode(), 0755u);
  bed_.serve_and_take(kernel().request_write(file, 0, std::vector<std::byte>(10), FUSE_WRITE_KILL_SUIDGID));
  EXPECT_TRUE(dropped().empty()) << "there are none any more";
  set_bits();
  fuse_fallocate_in allocate{};
  allocate.length = 10;
  EXPECT_EQ(ask_with(FUSE_FALLOCATE, file, allocate).header.error, 0);
  EXPECT_EQ(dropped(), std::vector<uint64_t>{file});
  EXPECT_EQ(mode(), 0755u);
  set_bits();
  fuse_copy_file_range_in copy{};
  copy.nodeid_out = file;
  copy.len = 10;
  kernel().ask_as(0, 77);
  const uint64_t other = create("other");
  bed_.serve_and_take(kernel().request_write(other, 0, std::vector<std::byte>(10)));
  kernel().ask_as(1000, 78);
  (void)dropped();
  EXPECT_EQ(ask_with(FUSE_COPY_FILE_RANGE, other, copy).header.error, 0);
  EXPECT_EQ(dropped(), std::vector<uint64_t>{file});
  EXPECT_EQ(mode(), 0755u);
}

TEST(DispatcherOfFuseRules, WithAllowRootNobodyElseIsLetIn) {
  FuseBed bed({.only_owner_and_root = true, .owner = 500});
  const Ino file = make_file(bed.filesystem(), "file");
  const auto lookup = [&](uint32_t uid) {
    bed.kernel().ask_as(uid, 1);
    return bed.serve_and_take(bed.kernel().request_name(FUSE_LOOKUP, kRootNode, "file")).header.error;
  };
  EXPECT_EQ(lookup(0), 0);
  EXPECT_EQ(lookup(500), 0);
  EXPECT_EQ(lookup(501), -EACCES);
  EXPECT_EQ(bed.serve_and_take(bed.kernel().request_read(raw(file), 0, 10)).header.error, 0) << "it is open";
}

TEST(DispatcherOfFuseRules, NamesAreDurableBeforeTheAnswer) {
  FuseBed bed({.syncs_names = true});
  const uint64_t commits = bed.brick().faults().calls(BrickCall::kCommit);
  fuse_mkdir_in folder{};
  EXPECT_EQ(bed.serve_and_take(bed.kernel().request_with(FUSE_MKDIR, kRootNode, folder, "folder\0"sv)).header.error, 0);
  EXPECT_GT(bed.brick().faults().calls(BrickCall::kCommit), commits);
}

// Older kernels ask for readers, too: those would take the error away from the writer.
TEST(DispatcherOfFuseRules, WhatWasLostIsToldWhereOnlyWritersAsk) {
  for (const uint32_t minor : {28u, 34u, 35u, 44u}) {
    FuseBed bed({.writeback_cache = true});
    bed.negotiate(minor);
    const Ino file = make_file(bed.filesystem(), "file");
    bed.session().writeback()->written(file, 4096, Error(ENOSPC, "volume full"));
    fuse_getattr_in by_file{};
    by_file.getattr_flags = FUSE_GETATTR_FH;
    const auto ask = [&] {
      return bed.serve_and_take(bed.kernel().request_with(FUSE_GETATTR, raw(file), by_file)).header.error;
    };
    EXPECT_EQ(ask(), minor < 35 ? 0 : -ENOSPC) << minor;
    EXPECT_EQ(ask(), 0) << minor;
  }
}

// It is an error, but the change has been made.
TEST(DispatcherOfFuseRules, OfNamesThatAreNotDurableTheKernelForgetsWhatItKnows) {
  FuseBed bed({.syncs_names = true});
  FakeKernel& kernel = bed.kernel();
  const Ino file = make_file(bed.filesystem(), "file");
  ASSERT_TRUE(bed.filesystem().link(file, kRootIno, "second").ok());
  ASSERT_TRUE(bed.filesystem().sync_all().ok());
  bed.brick().faults().refuse(true);
  bed.brick().faults().lose();
  bed.volume().give_up_outage();
  const auto expect_failure = [&](uint64_t unique, std::string_view name, const std::set<uint64_t>& inodes) {
    EXPECT_EQ(bed.serve_and_take(unique).header.error, -EIO) << name;
    (void)bed.notices();
    const auto entry = kernel.answer();
    ASSERT_TRUE(entry.has_value()) << name;
    ASSERT_EQ(entry->header.error, FUSE_NOTIFY_INVAL_ENTRY) << "behind the answer";
    const auto out = load<fuse_notify_inval_entry_out>(entry->payload);
    EXPECT_EQ(out.parent, kRootNode);
    EXPECT_EQ(out.namelen, name.size());
    EXPECT_STREQ(reinterpret_cast<const char*>(entry->payload.data() + sizeof(out)), std::string(name).c_str());
    std::set<uint64_t> dropped;
    for (size_t i = 0; i < inodes.size(); ++i) {
      const auto notice = kernel.answer();
      ASSERT_EQ(notice->header.error, FUSE_NOTIFY_INVAL_INODE);
      dropped.insert(load<fuse_notify_inval_inode_out>(notice->payload).ino);
    }
    EXPECT_EQ(dropped, inodes) << name;
  };
  expect_failure(kernel.request_name(FUSE_UNLINK, kRootNode, "second"), "second", {kRootNode, raw(file)});
  EXPECT_EQ(bed.filesystem().lookup(kRootIno, "second").code(), ENOENT);
  fuse_link_in again{};
  again.oldnodeid = raw(file);
  expect_failure(kernel.request_with(FUSE_LINK, kRootNode, again, "again\0"sv), "again", {kRootNode, raw(file)});
  fuse_rename_in rename{};
  rename.newdir = kRootNode;
  const uint64_t unique = kernel.request_with(FUSE_RENAME, kRootNode, rename, "file\0moved\0"sv);
  expect_failure(unique, "file", {kRootNode, raw(file)});
  EXPECT_EQ(kernel.answer()->header.error, FUSE_NOTIFY_INVAL_ENTRY) << "of the other name";
  EXPECT_EQ(kernel.answer()->header.error, FUSE_NOTIFY_INVAL_INODE);
  EXPECT_TRUE(bed.filesystem().lookup(kRootIno, "moved").ok());
}

TEST(DispatcherOfFuseRules, NothingOfALostVolumeIsTold) {
  FuseBed bed;
  const Ino file = make_file(bed.filesystem(), "file");
  bed.brick().faults().fence();
  (void)bed.filesystem().sync_all();  // meets with it
  ASSERT_FALSE(bed.dispatcher().refusal().ok());
  const int lost = -bed.dispatcher().refusal().code();
  FakeKernel& kernel = bed.kernel();
  EXPECT_EQ(bed.serve_and_take(kernel.request_name(FUSE_LOOKUP, kRootNode, "file")).header.error, lost);
  EXPECT_EQ(bed.serve_and_take(kernel.request_read(raw(file), 0, 10)).header.error, lost);
  EXPECT_EQ(bed.serve_and_take(kernel.request_with(FUSE_GETATTR, raw(file), fuse_getattr_in{})).header.error, lost);
  EXPECT_EQ(bed.serve_and_take(kernel.request_with(FUSE_GETATTR, kRootNode, fuse_getattr_in{})).header.error, 0);
  EXPECT_EQ(bed.serve_and_take(kernel.request(FUSE_STATFS, kRootNode, {})).header.error, 0);
}

}  // namespace
}  // namespace brickfs
