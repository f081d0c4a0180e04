// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <sys/file.h>
#include <sys/xattr.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "tests/library/library_bed.h"
#include "tests/support/tcp_test_brick.h"

namespace brickfs::testing {
namespace {

class LibraryFiles : public ::testing::Test {
 protected:
  int open(const char* path, int flags, mode_t mode = 0644) {
    brickfs_file* file = nullptr;
    const int code = brickfs_open(fs_, path, flags, mode, &file);
    if (code != 0) return code;
    return brickfs_close(file);
  }
  int stat_code(const char* path, int flags = 0) {
    struct stat stat {};
    return brickfs_stat(fs_, path, flags, &stat);
  }
  struct stat stat_of(const char* path, int flags = 0) {
    struct stat stat {};
    EXPECT_EQ(brickfs_stat(fs_, path, flags, &stat), 0) << path;
    return stat;
  }

  OpenFs fs_;
};

TEST_F(LibraryFiles, BytesComeBack) {
  put(fs_, "file", "some text");
  EXPECT_EQ(get(fs_, "/file"), "some text");
  const OpenFile file(fs_, "file", O_RDWR);
  char text[8];
  EXPECT_EQ(brickfs_pread(file, text, 4, 5), 4);
  EXPECT_EQ(std::memcmp(text, "text", 4), 0);
  EXPECT_EQ(brickfs_pread(file, text, 8, 9), 0);
  EXPECT_EQ(brickfs_pread(file, text, 8, UINT64_MAX), -EINVAL);
  EXPECT_EQ(brickfs_pread(file, nullptr, 8, 0), -EFAULT);
  EXPECT_EQ(brickfs_pread(nullptr, text, 8, 0), -EFAULT);
}

TEST_F(LibraryFiles, MoreBytesThanOneBrickTransferHas) {
  constexpr size_t kBytes = 20u << 20;
  brickfs_buffer* buffer = nullptr;
  ASSERT_EQ(brickfs_fs_buffer(fs_, nullptr, 2 * kBytes, &buffer), 0);
  auto* const bytes = static_cast<unsigned char*>(brickfs_buffer_data(buffer));
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + i / 4096);
  const OpenFile file(fs_, "large");
  const std::vector<brickfs_vector> from = {{bytes, 5, buffer}, {bytes + 5, kBytes - 5, buffer}};
  EXPECT_EQ(brickfs_pwritev(file, from.data(), 2, 100), static_cast<int64_t>(kBytes));
  const brickfs_vector into{bytes + kBytes, kBytes, buffer};
  EXPECT_EQ(brickfs_preadv(file, &into, 1, 100), static_cast<int64_t>(kBytes));
  EXPECT_EQ(std::memcmp(bytes, bytes + kBytes, kBytes), 0);
  const brickfs_vector outside{bytes + kBytes + 1, kBytes, buffer};
  EXPECT_EQ(brickfs_preadv(file, &outside, 1, 0), -EINVAL);
  EXPECT_EQ(brickfs_preadv(file, &into, BRICKFS_VECTORS_MAX + 1, 0), -EINVAL);
  EXPECT_EQ(brickfs_buffer_free(buffer), 0);
}

TEST_F(LibraryFiles, OpenAnswersAsOpenDoes) {
  EXPECT_EQ(open("none", O_RDONLY), -ENOENT);
  EXPECT_EQ(open("", O_RDONLY), -ENOENT);
  EXPECT_EQ(open("file", O_RDWR | O_CREAT), 0);
  EXPECT_EQ(open("file", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(open("file/", O_RDONLY), -ENOTDIR);
  EXPECT_EQ(open("new/", O_RDWR | O_CREAT), -EISDIR);
  EXPECT_EQ(open("file/x", O_RDONLY), -ENOTDIR);
  EXPECT_EQ(open("file", O_RDONLY | O_DIRECTORY), -ENOTDIR);
  EXPECT_EQ(open("/", O_RDONLY), 0);
  EXPECT_EQ(open("/", O_RDWR), -EISDIR);
  EXPECT_EQ(open("file", O_ACCMODE), -EINVAL);
  EXPECT_EQ(open(std::string(300, 'n').c_str(), O_RDONLY), -ENAMETOOLONG);
  EXPECT_EQ(open(std::string(5000, '/').c_str(), O_RDONLY), -ENAMETOOLONG);
  ASSERT_EQ(brickfs_mknod(fs_, "pipe", S_IFIFO | 0644, 0), 0);
  EXPECT_EQ(open("pipe", O_RDONLY), -ENXIO);
  brickfs_file* file = nullptr;
  EXPECT_EQ(brickfs_open(nullptr, "file", O_RDONLY, 0, &file), -EFAULT);
  EXPECT_EQ(brickfs_open(fs_, nullptr, O_RDONLY, 0, &file), -EFAULT);
  EXPECT_EQ(brickfs_open(fs_, "file", O_RDONLY, 0, nullptr), -EFAULT);
}

TEST_F(LibraryFiles, OpenForOneIsNotOpenForTheOther) {
  put(fs_, "file", "text");
  char byte = 'x';
  {
    const OpenFile file(fs_, "file", O_RDONLY);
    EXPECT_EQ(brickfs_pwrite(file, &byte, 1, 0), -EBADF);
    EXPECT_EQ(brickfs_ftruncate(file, 0), -EINVAL);
    EXPECT_EQ(brickfs_fallocate(file, 0, 0, 1), -EBADF);
    EXPECT_EQ(brickfs_lock(file, F_WRLCK, 0, 0, 0), -EBADF);
  }
  const OpenFile file(fs_, "file", O_WRONLY);
  EXPECT_EQ(brickfs_pread(file, &byte, 1, 0), -EBADF);
}

TEST_F(LibraryFiles, AppendsGoToTheEnd) {
  const OpenFile file(fs_, "log", O_RDWR | O_CREAT | O_APPEND);
  EXPECT_EQ(brickfs_pwrite(file, "one", 3, 0), 3);
  EXPECT_EQ(brickfs_pwrite(file, "two", 3, 0), 3);
  EXPECT_EQ(get(fs_, "log"), "onetwo");
}

TEST_F(LibraryFiles, FileWithoutANameGoesWithItsHandle) {
  struct statvfs before {};
  struct statvfs after {};
  put(fs_, "any", "");
  ASSERT_EQ(brickfs_fs_statvfs(fs_, &before), 0);
  {
    const OpenFile file(fs_, "/", O_RDWR | O_TMPFILE);
    EXPECT_EQ(brickfs_pwrite(file, "text", 4, 0), 4);
    put(fs_, "kept", "text");
    const OpenFile kept(fs_, "kept", O_RDWR);
    EXPECT_EQ(brickfs_unlink(fs_, "kept"), 0);
    char text[4];
    EXPECT_EQ(brickfs_pread(kept, text, 4, 0), 4);
  }
  ASSERT_EQ(brickfs_fs_statvfs(fs_, &after), 0);
  EXPECT_EQ(before.f_ffree, after.f_ffree);
}

TEST_F(LibraryFiles, LinksAreFollowed) {
  ASSERT_EQ(brickfs_mkdir(fs_, "dir", 0755), 0);
  put(fs_, "dir/file", "text");
  ASSERT_EQ(brickfs_symlink(fs_, "dir", "link"), 0);
  ASSERT_EQ(brickfs_symlink(fs_, "/link/file", "dir/absolute"), 0);
  ASSERT_EQ(brickfs_symlink(fs_, "../dir/./file", "dir/relative"), 0);
  EXPECT_EQ(get(fs_, "link/file"), "text");
  EXPECT_EQ(get(fs_, "dir/absolute"), "text");
  EXPECT_EQ(get(fs_, "link/../dir/relative"), "text");
  EXPECT_EQ(open("dir/absolute", O_RDONLY | O_NOFOLLOW), -ELOOP);
  EXPECT_TRUE(S_ISLNK(stat_of("link", BRICKFS_NOFOLLOW).st_mode));
  EXPECT_TRUE(S_ISDIR(stat_of("link/", BRICKFS_NOFOLLOW).st_mode));
  EXPECT_TRUE(S_ISDIR(stat_of("link").st_mode));
  char target[3];
  EXPECT_EQ(brickfs_readlink(fs_, "link", target, 2), 3);
  EXPECT_EQ(brickfs_readlink(fs_, "dir", target, 2), -EINVAL);
  ASSERT_EQ(brickfs_symlink(fs_, "loop", "loop"), 0);
  EXPECT_EQ(stat_code("loop"), -ELOOP);
  EXPECT_EQ(open("loop", O_RDWR | O_CREAT), -ELOOP);
  ASSERT_EQ(brickfs_symlink(fs_, "made", "dangling"), 0);
  EXPECT_EQ(open("dangling", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(open("dangling", O_RDWR | O_CREAT), 0);
  EXPECT_TRUE(S_ISREG(stat_of("made").st_mode));
  EXPECT_EQ(stat_of("..").st_ino, stat_of("/").st_ino);
}

TEST_F(LibraryFiles, NamesAnswerAsSystemCallsDo) {
  ASSERT_EQ(brickfs_mkdir(fs_, "dir/", 0755), 0);
  put(fs_, "file", "text");
  EXPECT_EQ(brickfs_mkdir(fs_, "dir", 0755), -EEXIST);
  EXPECT_EQ(brickfs_mkdir(fs_, "/", 0755), -EEXIST);
  EXPECT_EQ(brickfs_unlink(fs_, "dir"), -EISDIR);
  EXPECT_EQ(brickfs_unlink(fs_, "file/"), -ENOTDIR);
  EXPECT_EQ(brickfs_rmdir(fs_, "file"), -ENOTDIR);
  EXPECT_EQ(brickfs_rmdir(fs_, "dir/."), -EINVAL);
  EXPECT_EQ(brickfs_rmdir(fs_, "/"), -EBUSY);
  EXPECT_EQ(brickfs_link(fs_, "dir", "other"), -EPERM);
  EXPECT_EQ(brickfs_link(fs_, "file", "dir/second"), 0);
  EXPECT_EQ(stat_of("file").st_nlink, 2u);
  EXPECT_EQ(brickfs_rename(fs_, "file", "dir/second", 0), 0);  // the same file: nothing happens
  EXPECT_EQ(brickfs_rename(fs_, "dir", "dir/below", 0), -EINVAL);
  EXPECT_EQ(brickfs_rename(fs_, "file", "dir", 0), -EISDIR);
  EXPECT_EQ(brickfs_rename(fs_, "dir", "file", 0), -ENOTDIR);
  EXPECT_EQ(brickfs_rename(fs_, "file", "moved/", 0), -ENOTDIR);
  EXPECT_EQ(brickfs_rename(fs_, "file", "dir/second", 1), -EEXIST);
  EXPECT_EQ(brickfs_rename(fs_, "file", "dir", 2), 0);
  EXPECT_TRUE(S_ISDIR(stat_of("file").st_mode));
  EXPECT_EQ(brickfs_rename(fs_, "file", "dir", 8), -EINVAL);
  EXPECT_EQ(brickfs_rename(fs_, ".", "dir", 0), -EBUSY);
  EXPECT_EQ(brickfs_rmdir(fs_, "file"), -ENOTEMPTY);
}

TEST_F(LibraryFiles, Attributes) {
  put(fs_, "file", "text");
  EXPECT_EQ(brickfs_chmod(fs_, "file", 0600), 0);
  EXPECT_EQ(brickfs_chown(fs_, "file", 12, static_cast<gid_t>(-1), 0), 0);
  const timespec times[2] = {{1000, 5}, {0, UTIME_OMIT}};
  const struct stat before = stat_of("file");
  EXPECT_EQ(brickfs_utimens(fs_, "file", times, 0), 0);
  const struct stat after = stat_of("file");
  EXPECT_EQ(after.st_mode, static_cast<mode_t>(S_IFREG | 0600));
  EXPECT_EQ(after.st_uid, 12u);
  EXPECT_EQ(after.st_gid, getegid());
  EXPECT_EQ(after.st_atim.tv_sec, 1000);
  EXPECT_EQ(after.st_atim.tv_nsec, 5);
  EXPECT_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
  const timespec wrong[2] = {{0, 1'000'000'000}, {0, 0}};
  EXPECT_EQ(brickfs_utimens(fs_, "file", wrong, 0), -EINVAL);
  EXPECT_EQ(brickfs_stat(fs_, "file", 1, nullptr), -EFAULT);
}

TEST_F(LibraryFiles, ExtendedAttributes) {
  put(fs_, "file", "");
  ASSERT_EQ(brickfs_symlink(fs_, "file", "link"), 0);
  EXPECT_EQ(brickfs_setxattr(fs_, "link", "user.a", "value", 5, XATTR_CREATE), 0);
  EXPECT_EQ(brickfs_setxattr(fs_, "file", "user.a", "value", 5, XATTR_CREATE), -EEXIST);
  EXPECT_EQ(brickfs_setxattr(fs_, "link", "user.a", "value", 5, BRICKFS_NOFOLLOW), -EPERM);
  EXPECT_EQ(brickfs_setxattr(fs_, "file", "other.a", "value", 5, 0), -EOPNOTSUPP);
  char value[5];
  EXPECT_EQ(brickfs_getxattr(fs_, "file", "user.a", nullptr, 0, 0), 5);
  EXPECT_EQ(brickfs_getxattr(fs_, "file", "user.a", value, 4, 0), -ERANGE);
  EXPECT_EQ(brickfs_getxattr(fs_, "file", "user.a", value, 5, 0), 5);
  EXPECT_EQ(std::memcmp(value, "value", 5), 0);
  EXPECT_EQ(brickfs_listxattr(fs_, "file", nullptr, 0, 0), 7);
  EXPECT_EQ(brickfs_removexattr(fs_, "file", "user.a", 0), 0);
  EXPECT_EQ(brickfs_removexattr(fs_, "file", "user.a", 0), -ENODATA);
}

TEST_F(LibraryFiles, DirectoriesAreListed) {
  ASSERT_EQ(brickfs_mkdir(fs_, "dir", 0755), 0);
  constexpr int kFiles = 300;
  for (int i = 0; i < kFiles; ++i)
    put(fs_, ("dir/f" + std::to_string(i)).c_str(), std::string(static_cast<size_t>(i), 'x'));
  brickfs_dir* dir = nullptr;
  ASSERT_EQ(brickfs_opendir(fs_, "dir", &dir), 0);
  brickfs_dirent entry{};
  struct stat stat {};
  std::map<std::string, off_t> sizes;
  uint64_t fifth = 0;
  while (brickfs_readdir(dir, &entry, &stat) == 1) {
    sizes[entry.name] = stat.st_size;
    EXPECT_EQ(entry.ino, stat.st_ino);
    EXPECT_EQ(entry.length, std::strlen(entry.name));
    if (sizes.size() == 5) fifth = entry.next;
  }
  EXPECT_EQ(sizes.size(), kFiles + 2u);
  EXPECT_EQ(sizes["f123"], 123);
  EXPECT_EQ(brickfs_seekdir(dir, fifth), 0);
  size_t rest = 0;
  while (brickfs_readdir(dir, &entry, nullptr) == 1) ++rest;
  EXPECT_EQ(rest, kFiles + 2u - 5u);
  EXPECT_EQ(brickfs_fs_close(fs_), -EBUSY);
  EXPECT_EQ(brickfs_closedir(dir), 0);
  EXPECT_EQ(brickfs_opendir(fs_, "dir/f1", &dir), -ENOTDIR);
}

TEST_F(LibraryFiles, HolesAndCopies) {
  const OpenFile file(fs_, "file");
  EXPECT_EQ(brickfs_pwrite(file, "data", 4, 1 << 20), 4);
  EXPECT_EQ(brickfs_seek(file, 0, SEEK_DATA), 1 << 20);
  EXPECT_EQ(brickfs_seek(file, 1 << 20, SEEK_HOLE), (1 << 20) + 4);
  EXPECT_EQ(brickfs_seek(file, 1 << 21, SEEK_DATA), -ENXIO);
  EXPECT_EQ(brickfs_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 21), 0);
  EXPECT_EQ(brickfs_seek(file, 0, SEEK_DATA), -ENXIO);
  EXPECT_EQ(brickfs_fallocate(file, 0x40000, 0, 1), -EOPNOTSUPP);
  EXPECT_EQ(brickfs_fallocate(file, 0, 0, 0), -EINVAL);
  EXPECT_EQ(brickfs_fallocate(file, 0, 1, INT64_MAX), -EFBIG);
  const OpenFile copy(fs_, "copy");
  put(fs_, "file", "text to copy");
  EXPECT_EQ(brickfs_copy_range(file, 5, copy, 0, 1000), 7);
  EXPECT_EQ(get(fs_, "copy"), "to copy");
  EXPECT_EQ(brickfs_copy_range(file, 0, file, 1, 5), -EINVAL);
  const OpenFs other("memory:16M");
  const OpenFile elsewhere(other, "file");
  EXPECT_EQ(brickfs_copy_range(file, 0, elsewhere, 0, 5), -EXDEV);
}

TEST_F(LibraryFiles, LocksAreBetweenOpenFiles) {
  const OpenFile a(fs_, "file");
  const OpenFile b(fs_, "file");
  EXPECT_EQ(brickfs_lock(a, F_WRLCK, 10, 10, 0), 0);
  EXPECT_EQ(brickfs_lock(b, F_RDLCK, 0, 10, 0), 0);
  EXPECT_EQ(brickfs_lock(b, F_RDLCK, 19, 1, 0), -EAGAIN);
  EXPECT_EQ(brickfs_test_lock(b, F_RDLCK, 19, 0), 1);
  EXPECT_EQ(brickfs_lock(a, F_RDLCK, 15, 5, 0), 0);  // part of it becomes shared
  EXPECT_EQ(brickfs_lock(b, F_RDLCK, 19, 1, 0), 0);
  EXPECT_EQ(brickfs_test_lock(b, F_RDLCK, 10, 1), 1);
  EXPECT_EQ(brickfs_lock(a, F_UNLCK, 0, 0, 0), 0);
  EXPECT_EQ(brickfs_test_lock(b, F_WRLCK, 0, 0), 0);
  EXPECT_EQ(brickfs_flock(a, LOCK_EX), 0);
  EXPECT_EQ(brickfs_flock(b, LOCK_SH | LOCK_NB), -EWOULDBLOCK);
  EXPECT_EQ(brickfs_lock(b, 77, 0, 0, 0), -EINVAL);
}

TEST_F(LibraryFiles, ALockIsWaitedFor) {
  brickfs_file* holder = nullptr;
  ASSERT_EQ(brickfs_open(fs_, "file", O_RDWR | O_CREAT, 0644, &holder), 0);
  ASSERT_EQ(brickfs_lock(holder, F_WRLCK, 0, 0, 1), 0);
  std::atomic<bool> had{false};
  std::thread waiter([&] {
    const OpenFile file(fs_, "file");
    EXPECT_EQ(brickfs_lock(file, F_WRLCK, 5, 1, 1), 0);
    had = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(had);
  EXPECT_EQ(brickfs_close(holder), 0);  // lets it go
  waiter.join();
  EXPECT_TRUE(had);
}

TEST_F(LibraryFiles, ALockIsNotWaitedForLongerThanSaid) {
  const OpenFile holder(fs_, "file");
  const OpenFile other(fs_, "file");
  ASSERT_EQ(brickfs_lock(holder, F_WRLCK, 0, 0, 1), 0);
  ASSERT_EQ(brickfs_flock(holder, LOCK_EX), 0);
  EXPECT_EQ(brickfs_lock_within(other, F_RDLCK, 5, 1, 20), -ETIMEDOUT);
  EXPECT_EQ(brickfs_lock_within(other, F_RDLCK, 5, 1, 0), -EAGAIN);
  EXPECT_EQ(brickfs_flock_within(other, LOCK_SH, 20), -ETIMEDOUT);
  EXPECT_EQ(brickfs_flock_within(other, LOCK_SH | LOCK_NB, 20), -EWOULDBLOCK);
  ASSERT_EQ(brickfs_lock(holder, F_UNLCK, 0, 0, 1), 0);
  EXPECT_EQ(brickfs_lock_within(other, F_RDLCK, 5, 1, 20), 0);
}

TEST_F(LibraryFiles, AWaitForALockEndsWithThePatienceOfItsThread) {
  const OpenFile holder(fs_, "file");
  const OpenFile other(fs_, "file");
  ASSERT_EQ(brickfs_lock(holder, F_WRLCK, 0, 0, 1), 0);
  brickfs_patience* patience = nullptr;
  ASSERT_EQ(brickfs_patience_new(&patience), 0);
  ASSERT_EQ(brickfs_patience_begin(patience, 20), 0);
  EXPECT_EQ(brickfs_lock(other, F_WRLCK, 0, 0, 1), -ETIMEDOUT);
  EXPECT_EQ(brickfs_flock(other, LOCK_EX), 0) << "nothing to wait for";
  ASSERT_EQ(brickfs_patience_end(patience), 0);
  ASSERT_EQ(brickfs_patience_cancel(patience), 0);  // before it begins
  ASSERT_EQ(brickfs_patience_begin(patience, 60'000), 0);
  EXPECT_EQ(brickfs_lock(other, F_WRLCK, 0, 0, 1), -ECANCELED);
  EXPECT_EQ(brickfs_lock_within(other, F_WRLCK, 0, 0, 60'000), -ECANCELED);
  ASSERT_EQ(brickfs_patience_end(patience), 0);
  EXPECT_EQ(brickfs_lock_within(other, F_WRLCK, 0, 0, 1), -ETIMEDOUT);
  EXPECT_EQ(brickfs_patience_free(patience), 0);
}

// What it has in memory is not the volume any more.
TEST(LibraryFs, ALostVolumeIsAnsweredForByNothing) {
  TcpTestBrick brick(memory_config(64));
  const std::string source = "tcp://127.0.0.1:" + std::to_string(brick.port());
  OpenFs first(source);
  put(first, "file", "text");
  ASSERT_EQ(brickfs_symlink(first, "file", "link"), 0);
  ASSERT_EQ(brickfs_setxattr(first, "file", "user.a", "b", 1, 0), 0);
  ASSERT_EQ(brickfs_fs_sync(first), 0);
  auto file = std::make_unique<OpenFile>(first, "file", O_RDONLY);
  brickfs_dir* dir = nullptr;
  ASSERT_EQ(brickfs_opendir(first, "/", &dir), 0);
  brickfs_dirent entry;
  ASSERT_EQ(brickfs_readdir(dir, &entry, nullptr), 1);
  brickfs_queue* queue = nullptr;
  brickfs_queue* another = nullptr;
  brickfs_buffer* buffer = nullptr;
  ASSERT_EQ(brickfs_fs_queue(first, 4, 0, &queue), 0);
  const OpenFs second(source, "steal");
  put(second, "file", "other");
  for (int i = 0; i < 1000 && brickfs_fs_sync(first) != -ESTALE; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  struct stat stat {};
  struct statvfs whole {};
  char text[8] = {};
  brickfs_file* more = nullptr;
  brickfs_dir* again = nullptr;
  EXPECT_EQ(brickfs_stat(first, "file", 0, &stat), -ESTALE);
  EXPECT_EQ(brickfs_stat(first, "none", 0, &stat), -ESTALE);
  EXPECT_EQ(brickfs_fstat(*file, &stat), -ESTALE);
  EXPECT_EQ(brickfs_open(first, "file", O_RDONLY, 0, &more), -ESTALE);
  EXPECT_EQ(brickfs_opendir(first, "/", &again), -ESTALE);
  EXPECT_EQ(brickfs_readdir(dir, &entry, nullptr), -ESTALE);
  EXPECT_EQ(brickfs_readlink(first, "link", text, sizeof(text)), -ESTALE);
  EXPECT_EQ(brickfs_getxattr(first, "file", "user.a", text, sizeof(text), 0), -ESTALE);
  EXPECT_EQ(brickfs_pread(*file, text, 4, 0), -ESTALE);
  EXPECT_EQ(brickfs_pread(*file, text, 4, 1 << 20), -ESTALE);
  EXPECT_EQ(brickfs_mkdir(first, "dir", 0755), -ESTALE);
  EXPECT_EQ(brickfs_fs_statvfs(first, &whole), -ESTALE);
  EXPECT_EQ(brickfs_seekdir(dir, 0), -ESTALE);
  EXPECT_EQ(brickfs_fs_is_read_only(first), -ESTALE);
  EXPECT_EQ(brickfs_fs_buffer(first, nullptr, 4096, &buffer), -ESTALE);
  EXPECT_EQ(brickfs_fs_queue(first, 1, 0, &another), -ESTALE);
  EXPECT_EQ(brickfs_flock(*file, LOCK_SH), -ESTALE);
  const brickfs_request request{.operation = BRICKFS_READ, .file = *file, .offset = 1 << 20, .data = text, .length = 4};
  brickfs_completion done{};
  ASSERT_EQ(brickfs_submit(queue, &request, 1), 1);
  ASSERT_EQ(brickfs_poll(queue, &done, 1, 1, -1), 1);
  EXPECT_EQ(done.result, -ESTALE);
  EXPECT_EQ(brickfs_queue_free(queue), 0);
  EXPECT_EQ(brickfs_closedir(dir), 0);
  file.reset();
  EXPECT_NE(first.close(), 0);
  EXPECT_EQ(get(second, "file"), "other");
}

TEST(LibraryFs, WhatWasClosedIsThere) {
  TcpTestBrick brick(memory_config(64));
  const std::string source = "tcp://127.0.0.1:" + std::to_string(brick.port());
  {
    const OpenFs fs(source);
    put(fs, "file", "text");
  }
  const OpenFs fs(source, "ro");
  EXPECT_EQ(get(fs, "file"), "text");
  EXPECT_EQ(brickfs_fs_is_read_only(fs), 1);
  brickfs_file* file = nullptr;
  EXPECT_EQ(brickfs_open(fs, "file", O_RDWR, 0, &file), -EROFS);
  EXPECT_EQ(brickfs_open(fs, "new", O_RDWR | O_CREAT, 0, &file), -EROFS);
  EXPECT_EQ(brickfs_mkdir(fs, "dir", 0755), -EROFS);
  const OpenFs second(source, "ro");
  EXPECT_EQ(get(second, "file"), "text");
  brickfs_fs* writer = nullptr;
  EXPECT_EQ(brickfs_fs_open(source.c_str(), "wait=0", &writer), -EBUSY);
}

TEST(LibraryFs, AHeldVolumeIsRefusedAndCanBeTaken) {
  TcpTestBrick brick(memory_config(64));
  const std::string source = "tcp://127.0.0.1:" + std::to_string(brick.port());
  OpenFs first(source);
  put(first, "file", "text");
  ASSERT_EQ(brickfs_fs_sync(first), 0);
  brickfs_fs* fs = nullptr;
  EXPECT_EQ(brickfs_fs_open(source.c_str(), "wait=0", &fs), -EBUSY);
  EXPECT_NE(std::string(brickfs_error()).find("is held by"), std::string::npos) << brickfs_error();
  {
    const OpenFs second(source, "steal");
    EXPECT_EQ(get(second, "file"), "text");
    const std::string text = "lost";
    brickfs_file* file = nullptr;
    int code = brickfs_open(first, "more", O_RDWR | O_CREAT, 0644, &file);
    if (code == 0) {
      EXPECT_EQ(brickfs_pwrite(file, text.data(), text.size(), 0), -ESTALE);
      EXPECT_EQ(brickfs_close(file), 0);
    }
    EXPECT_NE(brickfs_fs_sync(first), 0);
    EXPECT_NE(first.close(), 0);
    struct stat stat {};
    EXPECT_EQ(brickfs_stat(second, "more", 0, &stat), -ENOENT);
  }
}

TEST(LibraryFs, WrongOpensSayWhy) {
  brickfs_fs* fs = nullptr;
  EXPECT_EQ(brickfs_fs_open("nonsense", nullptr, &fs), -EINVAL);
  EXPECT_NE(std::string(brickfs_error()), "");
  EXPECT_EQ(brickfs_fs_open("memory:16M", "ro,nonsense", &fs), -EINVAL);
  EXPECT_STREQ(brickfs_error(), "unknown option: nonsense");
  EXPECT_EQ(brickfs_fs_open("memory:16M", "timeo=x", &fs), -EINVAL);
  EXPECT_STREQ(brickfs_error(), "bad value: timeo=x");
  EXPECT_EQ(brickfs_fs_open("memory:16M", "durable", &fs), -ENOTSUP);
  EXPECT_EQ(brickfs_fs_open("memory:16M", "secret=\"/a,b\"", &fs), -ENOENT);
  EXPECT_NE(std::string(brickfs_error()).find("/a,b"), std::string::npos) << brickfs_error();
  EXPECT_EQ(brickfs_fs_open("tcp://127.0.0.1:1", nullptr, &fs), -ECONNREFUSED);
  EXPECT_EQ(brickfs_fs_open("tcp://no-such-host.invalid", nullptr, &fs), -EHOSTUNREACH);
  EXPECT_NE(std::string(brickfs_error()).find("nobody here knows a host of that name"), std::string::npos)
      << brickfs_error();
  EXPECT_EQ(brickfs_fs_open(nullptr, nullptr, &fs), -EFAULT);
  EXPECT_EQ(brickfs_fs_close(nullptr), -EFAULT);
  const OpenFs good;
  EXPECT_STREQ(brickfs_error(), "");
}

TEST(LibraryFs, OwnersAndModesAsTheOptionsSay) {
  const OpenFs fs("memory:16M", "uid=5,gid=6,umask=077");
  put(fs, "file", "");
  struct stat stat {};
  ASSERT_EQ(brickfs_stat(fs, "file", 0, &stat), 0);
  EXPECT_EQ(stat.st_uid, 5u);
  EXPECT_EQ(stat.st_gid, 6u);
  EXPECT_EQ(stat.st_mode & 07777, 0600u);
}

TEST(LibraryFs, FullVolume) {
  const OpenFs fs("memory:32M");
  const OpenFile file(fs, "file");
  const std::string bytes(1 << 20, 'x');
  int64_t written = 0;
  uint64_t offset = 0;
  while ((written = brickfs_pwrite(file, bytes.data(), bytes.size(), offset)) > 0) offset += bytes.size();
  EXPECT_EQ(written, -ENOSPC);
  EXPECT_GT(offset, 8u << 20);
  EXPECT_EQ(brickfs_ftruncate(file, 0), 0);
  EXPECT_EQ(brickfs_fsync(file), 0);
  EXPECT_EQ(brickfs_pwrite(file, bytes.data(), bytes.size(), 0), static_cast<int64_t>(bytes.size()));
}

// Of each thread of this process: the signals that are blocked.
std::map<std::string, std::string> blocked_signals() {
  std::map<std::string, std::string> blocked;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:")) blocked[task.path().filename()] = line.substr(8);
    }
  }
  return blocked;
}

TEST(LibraryFs, SignalsAreTheProgramsOwn) {
  const auto before = blocked_signals();
  const OpenFs fs("memory:64M");
  put(fs, "file", "text");
  size_t of_library = 0;
  for (const auto& [thread, mask] : blocked_signals()) {
    if (before.contains(thread)) {
      EXPECT_EQ(mask, before.at(thread));
      continue;
    }
    EXPECT_NE(std::stoull(mask, nullptr, 16) & (uint64_t{1} << (SIGTERM - 1)), 0u) << mask;
    ++of_library;
  }
  EXPECT_GE(of_library, 3u);
}

struct Lines {
  std::atomic<int> count{0};
  std::atomic<bool> wrong{false};
};

TEST(LibraryLog, LinesGoToTheCallbackAndNowhereElse) {
  Lines lines;
  const auto take = [](void* context, int level, const char* line) {
    auto* const all = static_cast<Lines*>(context);
    ++all->count;
    if (level < BRICKFS_LOG_INFO || std::strchr(line, '\n') != nullptr) all->wrong = true;
  };
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(brickfs_set_log(take, &lines, BRICKFS_LOG_INFO), 0);
  { const OpenFs fs("memory:16M"); }
  EXPECT_EQ(brickfs_set_log(nullptr, nullptr, BRICKFS_LOG_INFO), 0);
  EXPECT_GT(lines.count, 0);
  EXPECT_FALSE(lines.wrong);
  const int before = lines.count;
  { const OpenFs fs("memory:16M"); }
  EXPECT_EQ(lines.count, before);
  EXPECT_EQ(brickfs_set_log(take, nullptr, 7), -EINVAL);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace brickfs::testing
