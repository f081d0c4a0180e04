// SPDX-License-Identifier: Apache-2.0
// Which holes of a file lseek(2) is told of, where the kernel may have pages that brickfs has not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <utility>
#include <vector>

#include "fs/fuse/serve/session.h"
#include "tests/support/fuse_bed.h"

namespace brickfs {
namespace {

// What lseek() answers; ULONG_MAX: ENXIO.
uint64_t seek(FuseBed& bed, Ino file, uint64_t offset, uint32_t whence) {
  fuse_lseek_in in{};
  in.offset = offset;
  in.whence = whence;
  const auto answer = bed.serve_and_take(bed.kernel().request_with(FUSE_LSEEK, raw(file), in));
  if (answer.header.error == -ENXIO) return ULONG_MAX;
  EXPECT_EQ(answer.header.error, 0);
  return answer.header.error == 0 ? load<fuse_lseek_out>(answer.payload).offset : 0;
}

Ino make_sparse_file(FuseBed& bed) {  // a megabyte of nothing, and a unit
  const Ino file = make_file(bed.filesystem(), "file");
  bed.serve_and_take(bed.kernel().request_write(raw(file), kMiB, std::vector<std::byte>(4096, std::byte{7})));
  return file;
}

// The pages that the kernel has been told to drop of it, each as where they begin and how many bytes.
std::vector<std::pair<int64_t, int64_t>> dropped_pages(FuseBed& bed) {
  std::vector<std::pair<int64_t, int64_t>> dropped;
  for (const auto& notice : bed.notices()) {
    EXPECT_EQ(notice.header.error, FUSE_NOTIFY_INVAL_INODE);
    const auto out = load<fuse_notify_inval_inode_out>(notice.payload);
    dropped.emplace_back(out.off, out.len);
  }
  return dropped;
}

TEST(HolesOfFuse, AreToldOnceTheKernelHasNoPagesThere) {
  FuseBed bed;
  bed.negotiate(44);
  const Ino file = make_sparse_file(bed);
  (void)bed.notices();
  EXPECT_EQ(seek(bed, file, 0, SEEK_DATA), kMiB);
  EXPECT_EQ(seek(bed, file, kMiB, SEEK_HOLE), kMiB + 4096) << "the end";
  EXPECT_TRUE(dropped_pages(bed).empty()) << "it has none";
  bed.filesystem().note_cached(file, 0, 4096);
  EXPECT_EQ(seek(bed, file, 4096, SEEK_DATA), kMiB);
  EXPECT_EQ(seek(bed, file, 0, SEEK_HOLE), 0u);
  EXPECT_EQ(dropped_pages(bed), (std::vector<std::pair<int64_t, int64_t>>{{4096, kMiB - 4096}, {0, kMiB}}));
  bed.filesystem().note_cached(file, kMiB, 4096);
  EXPECT_EQ(seek(bed, file, kMiB, SEEK_DATA), kMiB);
  EXPECT_EQ(seek(bed, file, kMiB, SEEK_HOLE), kMiB + 4096);
  EXPECT_EQ(seek(bed, file, kMiB + 4096, SEEK_DATA), ULONG_MAX);
  EXPECT_TRUE(dropped_pages(bed).empty()) << "no answer relies on a hole";
  bed.session().stop();
  EXPECT_EQ(seek(bed, file, 0, SEEK_DATA), 0u) << "nobody drops them any more";
  EXPECT_EQ(seek(bed, file, 0, SEEK_HOLE), kMiB + 4096);
}

TEST(HolesOfFuse, AreNotToldWhereTheKernelCallsPagesWrittenTooEarly) {
  FuseBed bed;
  bed.negotiate(43);
  const Ino file = make_sparse_file(bed);
  EXPECT_EQ(seek(bed, file, 0, SEEK_DATA), kMiB);
  bed.filesystem().note_cached(file, 0, 4096);
  EXPECT_EQ(seek(bed, file, 0, SEEK_DATA), 0u);
  EXPECT_EQ(seek(bed, file, 0, SEEK_HOLE), kMiB + 4096);
}

TEST(HolesOfFuse, AreTheKernelsBusinessWhereItWritesBack) {
  FuseBed bed({.writeback_cache = true});
  bed.negotiate(44);
  const Ino file = make_sparse_file(bed);
  EXPECT_EQ(bed.serve_and_take(bed.kernel().request_with(FUSE_LSEEK, raw(file), fuse_lseek_in{})).header.error,
            -ENOSYS);
}

}  // namespace
}  // namespace brickfs
