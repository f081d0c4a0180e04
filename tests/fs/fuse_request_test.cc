// SPDX-License-Identifier: Apache-2.0
// Requests as they come from /dev/fuse, and what goes back.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "fs/base/timespec.h"
#include "fs/fuse/cache/kernel_cache.h"
#include "fs/fuse/protocol/negotiation.h"
#include "fs/fuse/protocol/request.h"
#include "fs/fuse/serve/device_source.h"
#include "tests/support/fake_kernel.h"
#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

std::vector<std::byte> some_bytes(size_t count) { return std::vector<std::byte>(count, std::byte{0x5a}); }

class RequestOfFuse : public ::testing::Test {
 protected:
  RequestOfFuse() : cache_(*volume_), queue_(kernel_.device()), interrupts_(volume_->volume(), nullptr) {
    cache_.connect(kernel_.device());
    source_ = make_source();
  }
  ~RequestOfFuse() override {
    cache_.stop();
    queue_.stop();
  }

  std::unique_ptr<FuseDeviceSource> make_source() {
    return std::make_unique<FuseDeviceSource>(volume_->volume(), cache_, operations_, queue_, interrupts_,
                                              kernel_.device(), std::move(*FuseBuffers::make(volume_->volume())),
                                              false);
  }
  // What comes with the next receive().
  std::vector<FuseRequest*> receive() {
    std::vector<FuseRequest*> requests;
    EXPECT_TRUE(source_->receive(requests).ok());
    return requests;
  }
  void done(FuseRequest& request) {
    EXPECT_TRUE(request.is_answered());
    if (!request.release()) return;
    EXPECT_TRUE(source_->give_back(request).ok());
  }

  MountedVolume volume_;
  FakeKernel kernel_;
  KernelCache cache_;
  OperationCounters operations_;
  FuseDeviceQueue queue_;
  std::unique_ptr<FuseDeviceSource> source_;
  std::unique_ptr<FuseDeviceSource> other_;
  FuseInterrupts interrupts_;  // first to go: it knows requests of theirs
};

TEST_F(RequestOfFuse, IsCountedOnceItIsAnswered) {
  kernel_.request(FUSE_GETATTR, 1, std::vector<std::byte>(sizeof(fuse_getattr_in)));
  FuseRequest& request = *receive().at(0);
  EXPECT_TRUE(operations_.operations().empty());
  request.answer(Error(EIO, ""));
  done(request);
  const auto operations = operations_.operations();
  ASSERT_EQ(operations.size(), 1u);
  EXPECT_EQ(operations[0].name, "getattr");
  EXPECT_EQ(operations[0].counts.count(), 1u);
  EXPECT_EQ(operations[0].counts.failures, 1u);
}

TEST_F(RequestOfFuse, HasItsNamesAndArguments) {
  fuse_rename2_in in{};
  in.newdir = 7;
  std::vector<std::byte> body(sizeof(in));
  std::memcpy(body.data(), &in, sizeof(in));
  for (const char c : std::string_view("old\0new\0", 8)) body.push_back(static_cast<std::byte>(c));
  kernel_.request(FUSE_RENAME2, 5, body);
  FuseRequest& request = *receive().at(0);
  EXPECT_EQ(request.ino(), Ino{5});
  ASSERT_NE(request.arguments<fuse_rename2_in>(), nullptr);
  EXPECT_EQ(request.arguments<fuse_rename2_in>()->newdir, 7u);
  EXPECT_EQ(request.arguments<fuse_setattr_in>(), nullptr) << "it is shorter";
  EXPECT_EQ(request.name(sizeof(in)), "old");
  EXPECT_EQ(request.name(sizeof(in) + 4), "new");
  EXPECT_EQ(request.name(sizeof(in) + 8), "") << "behind its end";
  EXPECT_EQ(request.transfer(), nullptr);
  EXPECT_TRUE(request.answer(Error(ENOENT)));
  done(request);
  const auto answer = kernel_.answer();
  EXPECT_EQ(answer->header.error, -ENOENT);
  EXPECT_EQ(answer->header.unique, request.header().unique);
}

TEST_F(RequestOfFuse, AWriteHasItsDataInRegisteredMemory) {
  kernel_.request_write(5, 8192, some_bytes(4096), FUSE_WRITE_CACHE | FUSE_WRITE_KILL_SUIDGID);
  FuseRequest& request = *receive().at(0);
  const FuseRequest::Transfer& transfer = *request.transfer();
  EXPECT_EQ(transfer.offset, 8192u);
  EXPECT_EQ(transfer.data.length_bytes, 4096u);
  EXPECT_EQ(transfer.data.data[4095], std::byte{0x5a});
  EXPECT_TRUE(transfer.for_page_cache && transfer.writes_back && transfer.kills_privileges);
  request.dismiss();
  done(request);
}

TEST_F(RequestOfFuse, AWriteWithoutAllItsDataIsNone) {
  fuse_write_in in{};
  in.size = 4096;
  kernel_.request(FUSE_WRITE, 5, bytes_of(in));
  FuseRequest& request = *receive().at(0);
  EXPECT_EQ(request.transfer(), nullptr);
  request.dismiss();
  done(request);
}

TEST_F(RequestOfFuse, AReadOfTooMuchIsOfWhatThereIsRoomFor) {
  kernel_.request_read(5, 0, UINT32_MAX);
  FuseRequest& request = *receive().at(0);
  EXPECT_EQ(request.transfer()->bytes, kFuseTransferBytes);
  EXPECT_EQ(request.transfer()->data.length_bytes, kFuseTransferBytes);
  request.dismiss();
  done(request);
}

TEST_F(RequestOfFuse, SmallOnesThatWaitAreReceivedTogether) {
  for (int i = 0; i < 3; ++i) kernel_.request_read(5, 4096 * i, 4096);
  kernel_.request_name(FUSE_LOOKUP, 1, "name");
  kernel_.request_read(5, 0, 4096);
  const auto together = receive();
  ASSERT_EQ(together.size(), 4u) << "up to the first that is none";
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(together[i]->is_small());
    EXPECT_EQ(together[i]->transfer()->offset, 4096 * i);
  }
  EXPECT_EQ(together[3]->name(0), "name");
  for (FuseRequest* const request : together) {
    request->answer(Status());
    done(*request);
  }
  const auto alone = receive();
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_FALSE(alone[0]->is_small()) << "there is none beside it";
  alone[0]->answer(Status());
  done(*alone[0]);
}

TEST_F(RequestOfFuse, MemoryThatIsInUseIsNotGivenToOthers) {
  kernel_.request_read(5, 0, 4096);
  kernel_.request_read(5, 4096, 4096);
  const auto first = receive();
  ASSERT_EQ(first.size(), 2u);
  first[1]->answer(Status());
  done(*first[1]);
  kernel_.request_read(5, 8192, 4096);
  kernel_.request_read(5, 12288, 4096);
  const auto second = receive();
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(first[0]->transfer()->offset, 0u);
  for (FuseRequest* const request : {first[0], second[0], second[1]}) {
    request->answer(Status());
    done(*request);
  }
}

TEST_F(RequestOfFuse, NoMoreThanGoTogether) {
  for (int i = 0; i < 20; ++i) kernel_.request_read(5, 0, 4096);
  const auto together = receive();
  EXPECT_EQ(together.size(), 16u);
  EXPECT_EQ(receive().size(), 1u) << "all memory for small ones is in use";
}

// Of an inode that somebody else was told of: he may get that answer later than this one.
TEST_F(RequestOfFuse, TheKernelIsToldWhatChangedBeforeTheAnswer) {
  const Ino file = make_file(*volume_, "file");
  (void)volume_->get_attributes(file);
  kernel_.request_name(FUSE_UNLINK, raw(kRootIno), "file");
  FuseRequest& request = *receive().at(0);
  request.stamped(file);
  request.stamped(file);
  request.answer(Status());
  const auto notice = kernel_.answer();
  EXPECT_EQ(notice->header.unique, 0u);
  EXPECT_EQ(notice->header.error, FUSE_NOTIFY_INVAL_INODE);
  EXPECT_EQ(load<fuse_notify_inval_inode_out>(notice->payload).ino, raw(file));
  EXPECT_EQ(load<fuse_notify_inval_inode_out>(notice->payload).off, -1) << "its pages stay";
  EXPECT_EQ(kernel_.answer()->header.unique, request.header().unique);
  done(request);
  kernel_.request_name(FUSE_UNLINK, raw(kRootIno), "file");
  FuseRequest& again = *receive().at(0);
  again.stamped(file);
  again.answer(Status());
  EXPECT_EQ(kernel_.answer()->header.unique, again.header().unique) << "nobody has been told since";
  done(again);
}

TEST_F(RequestOfFuse, ADirectWriteIsAnsweredWhenPagesAreDropped) {
  const Ino file = make_file(*volume_, "file");
  volume_->note_cached(file, 0, 4096);
  kernel_.request_write(raw(file), 0, some_bytes(4096));
  FuseRequest& request = *receive().at(0);
  request.answer_written(Result<uint64_t>(4096));
  const uint64_t unique = request.header().unique;
  done(request);
  const auto notice = kernel_.answer();
  EXPECT_EQ(notice->header.error, FUSE_NOTIFY_INVAL_INODE);
  EXPECT_EQ(load<fuse_notify_inval_inode_out>(notice->payload).off, 0);
  const auto answer = kernel_.answer();
  EXPECT_EQ(answer->header.unique, unique);
  EXPECT_EQ(load<fuse_write_out>(answer->payload).size, 4096u);
}

TEST_F(RequestOfFuse, AWriteOfThePageCacheDropsNothing) {
  const Ino file = make_file(*volume_, "file");
  volume_->note_cached(file, 0, 4096);
  kernel_.request_write(raw(file), 0, some_bytes(4096), FUSE_WRITE_CACHE);
  FuseRequest& request = *receive().at(0);
  request.answer_written(Result<uint64_t>(4096));
  EXPECT_EQ(kernel_.answer()->header.unique, request.header().unique);
  done(request);
}

TEST_F(RequestOfFuse, OneThatIsAnsweredLaterKeepsNoWorker) {
  kernel_.request(FUSE_LSEEK, 5, std::vector<std::byte>(sizeof(fuse_lseek_in)));
  FuseRequest& request = *receive().at(0);
  const uint64_t unique = request.header().unique;
  const FuseRequest::Answer answer_it = request.answer_later();
  done(request);
  kernel_.request_name(FUSE_LOOKUP, 1, "name");
  FuseRequest& next = *receive().at(0);
  EXPECT_EQ(&next, &request) << "the same memory";
  next.answer(Error(ENOENT));
  done(next);
  EXPECT_EQ(kernel_.answer()->header.unique, next.header().unique);
  EXPECT_EQ(operations_.operations().size(), 1u);
  answer_it(0, bytes_of(fuse_lseek_out{4096}));
  const auto answer = kernel_.answer();
  EXPECT_EQ(answer->header.unique, unique);
  EXPECT_EQ(load<fuse_lseek_out>(answer->payload).offset, 4096u);
  EXPECT_EQ(operations_.operations().size(), 2u);
}

TEST_F(RequestOfFuse, AnotherWorkerServesWhatIsPassed) {
  kernel_.request_read(5, 0, 4096);
  kernel_.request_read(5, 4096, 4096);
  const auto together = receive();
  ASSERT_EQ(together.size(), 2u);
  EXPECT_FALSE(source_->pass(*together[0])) << "nobody is idle";
  std::vector<FuseRequest*> passed;
  other_ = make_source();
  std::thread other([&] {
    EXPECT_TRUE(other_->receive(passed).ok());
    for (FuseRequest* const request : passed) {
      EXPECT_FALSE(request->is_small()) << "by itself";
      request->answer(Status());
      done(*request);
    }
  });
  while (!source_->pass(*together[0])) std::this_thread::yield();
  other.join();
  ASSERT_EQ(passed.size(), 1u);
  EXPECT_EQ(passed[0], together[0]);
  together[1]->answer(Status());
  done(*together[1]);
}

class Negotiation : public ::testing::Test {
 protected:
  static fuse_init_in kernel_of(uint32_t minor, uint64_t flags) {
    fuse_init_in in{};
    in.major = 7;
    in.minor = minor;
    in.flags = static_cast<uint32_t>(flags);
    in.flags2 = static_cast<uint32_t>(flags >> 32);
    return in;
  }
  static uint64_t flags_of(const fuse_init_out& out) { return out.flags | uint64_t{out.flags2} << 32; }
  static constexpr uint64_t kAll = ~uint64_t{0};

  FuseNegotiation negotiation_;
};

TEST_F(Negotiation, TakesWhatIsWantedAndOffered) {
  const auto out = negotiation_.answer(bytes_of(kernel_of(44, kAll)));
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->major, 7u);
  EXPECT_EQ(out->max_write, 512u * 1024);
  EXPECT_EQ(out->max_pages, 512u * 1024 / 4096);
  EXPECT_TRUE(negotiation_.is_done() && negotiation_.kills_privileges());
  EXPECT_NE(flags_of(*out) & FUSE_EXPLICIT_INVAL_DATA, 0u);
  EXPECT_EQ(flags_of(*out) & (FUSE_AUTO_INVAL_DATA | FUSE_ATOMIC_O_TRUNC | FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS), 0u);
  EXPECT_EQ(flags_of(*out) & (FUSE_WRITEBACK_CACHE | kFuseOverIoUring | kRequestTimeout), 0u);
}

TEST_F(Negotiation, WhatIsAskedForIsThere) {
  negotiation_.want_writeback();
  negotiation_.want_uring();
  negotiation_.want_request_timeout(77);
  const auto out = negotiation_.answer(bytes_of(kernel_of(44, kAll)));
  const uint64_t wanted = FUSE_WRITEBACK_CACHE | kFuseOverIoUring | kRequestTimeout | FUSE_INIT_EXT;
  EXPECT_EQ(flags_of(*out) & wanted, wanted);
  EXPECT_EQ(out->unused[1], 77u);
  EXPECT_TRUE(negotiation_.has_uring());
}

TEST_F(Negotiation, NothingIsTakenThatIsNotOffered) {
  negotiation_.want_uring();
  const auto out = negotiation_.answer(bytes_of(kernel_of(37, kAll & ~uint64_t{FUSE_INIT_EXT})));
  EXPECT_EQ(flags_of(*out) & kFuseOverIoUring, 0u) << "flags2 means nothing without FUSE_INIT_EXT";
  EXPECT_FALSE(negotiation_.has_uring());
  FuseNegotiation other;
  EXPECT_EQ(flags_of(*other.answer(bytes_of(kernel_of(37, 0)))), 0u);
  EXPECT_FALSE(other.kills_privileges());
}

TEST_F(Negotiation, AnOldKernelIsRefusedAndANewerOneAsksAgain) {
  EXPECT_EQ(negotiation_.answer(bytes_of(kernel_of(20, kAll))).code(), EPROTO);
  EXPECT_EQ(negotiation_.answer({}).code(), EPROTO);
  fuse_init_in newer = kernel_of(0, 0);
  newer.major = 8;
  EXPECT_EQ(negotiation_.answer(bytes_of(newer))->major, 7u);
  EXPECT_FALSE(negotiation_.is_done());
}

TEST(AnswersOfFuse, TimesAreClampedAsByLinux) {
  EXPECT_EQ(to_time_ns({.tv_sec = INT64_MAX, .tv_nsec = 0}), TimeNs{INT64_MAX});
  EXPECT_EQ(to_time_ns({.tv_sec = INT64_MIN, .tv_nsec = 0}), TimeNs{INT64_MIN});
  const timespec before = to_timespec(TimeNs{-1});
  EXPECT_EQ(before.tv_sec, -1);
  EXPECT_EQ(before.tv_nsec, 999'999'999);
}

}  // namespace
}  // namespace brickfs
