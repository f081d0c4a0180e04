// SPDX-License-Identifier: Apache-2.0
// A program that says and submits to a ring what makes no sense. Each case ends as it must, and the mount goes on.
//   ring_nonsense FILE [SECONDS]      a file on a mount with ring=on; SECONDS of scribbling over the shared memory
#include <fcntl.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "tests/mount/raw_ring.h"

namespace {

using namespace brickfs::shm_queue;
using brickfs::UniqueFd;

int file = -1;

// What the mount answers to that as the first message; below 0 an errno, ENOTCONN: it hangs up.
int begin_with(const void* message, size_t length, int memory) {
  const UniqueFd connected = connect_to_mount(file);
  EXPECT(send_packet(connected.get(), message, length, memory).ok());
  Reply reply{};
  UniqueFd nothing;
  const auto received = receive_packet(connected.get(), &reply, sizeof(reply), &nothing);
  return received.ok() ? reply.result : -received.code();
}

int begin_with(const Message& message, int memory) { return begin_with(&message, sizeof(message), memory); }

void wrong_beginnings() {
  const UniqueFd good = make_memory(kBytes, kSeals);
  EXPECT(begin_with(begin_message(kBufferBytes), good.get()) == 0);
  const UniqueFd unsealed = make_memory(kBytes, 0);
  EXPECT(begin_with(begin_message(kBufferBytes), unsealed.get()) == -EINVAL);
  const UniqueFd grows = make_memory(kBytes, F_SEAL_GROW);
  EXPECT(begin_with(begin_message(kBufferBytes), grows.get()) == -EINVAL);
  const UniqueFd small = make_memory(kBytes - 1, kSeals);
  EXPECT(begin_with(begin_message(kBufferBytes), small.get()) == -EINVAL);
  const UniqueFd read_only = make_memory(kBytes, kSeals);
  EXPECT(fcntl(read_only.get(), F_ADD_SEALS, F_SEAL_WRITE) == 0);
  EXPECT(begin_with(begin_message(kBufferBytes), read_only.get()) == -EPERM);
  EXPECT(begin_with(begin_message(kBufferBytes), file) == -EINVAL);
  EXPECT(begin_with(begin_message(kBufferBytes), -1) == -EINVAL);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{4097}, kMostBufferBytes + 4096, UINT64_MAX})
    EXPECT(begin_with(begin_message(bytes), good.get()) == -EINVAL);
  Message message = begin_message(kBufferBytes);
  message.number = kVersion + 1;
  EXPECT(begin_with(message, good.get()) == -EPROTO);
  message = {.kind = Message::Kind::kFile, .number = 0, .buffer_bytes = 0};
  EXPECT(begin_with(message, good.get()) == -EPROTO);
  EXPECT(begin_with("x", 1, good.get()) == -ENOTCONN);
  char large[512] = {};
  EXPECT(begin_with(large, sizeof(large), good.get()) == -ENOTCONN);
  (void)connect_to_mount(file);  // who says nothing
}

void wrong_requests() {
  RawRing ring(file);
  const int shown = ring.show(file);
  EXPECT(shown >= 0);
  Entry good{};
  good.operation = Operation::kRead;
  good.file = static_cast<uint32_t>(shown);
  good.length = 512;
  EXPECT(ring.submit(good) >= 0);
  const auto with = [&](auto change) {
    Entry entry = good;
    change(entry);
    return ring.submit(entry);
  };
  EXPECT(with([](Entry& entry) { entry.operation = Operation{0}; }) == -EINVAL);
  EXPECT(with([](Entry& entry) { entry.operation = Operation{4}; }) == -EINVAL);
  EXPECT(with([](Entry& entry) { entry.flags = 0x80; }) == -EINVAL);
  EXPECT(with([](Entry& entry) { entry.file += 1; }) == -EINVAL);
  EXPECT(with([](Entry& entry) { entry.file = UINT32_MAX; }) == -EINVAL);
  EXPECT(with([](Entry& entry) { entry.length = UINT32_MAX; }) == -EINVAL);
  EXPECT(with([](Entry& entry) { entry.length = kBufferBytes + 1; }) == -EINVAL);
  EXPECT(with([](Entry& entry) { entry.buffer_offset = kBufferBytes - 511; }) == -EINVAL);
  EXPECT(with([](Entry& entry) { entry.buffer_offset = UINT64_MAX; }) == -EINVAL);
  EXPECT(with([](Entry& entry) { entry.buffer_offset = UINT64_MAX - 511; }) == -EINVAL);
  EXPECT(with([](Entry& entry) { entry.offset = UINT64_MAX; }) == -EINVAL);
  // Files of others, and things that are none.
  EXPECT(ring.show(-1) == -EBADF);
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT(ring.show(null.get()) == -EXDEV);
  EXPECT(ring.show(ring.connected.get()) == -EXDEV);
  const Message forget{.kind = Message::Kind::kForget, .number = 77'777, .buffer_bytes = 0};
  ring.say(&forget, sizeof(forget), null.get());
  EXPECT(ring.submit(good) >= 0);
  // The memory cannot be taken from under the mount, which would have to fill the hole from its own.
  EXPECT(madvise(ring.mapped + kControlBytes, kBufferBytes, MADV_REMOVE) != 0 && errno == EPERM);
  EXPECT(ring.submit(good) >= 0);
}

// A program's memory is its own: it brings pages that are there.
void memory_is_the_programs() {
  UniqueFd holes(memfd_create("nonsense", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT(holes && ftruncate(holes.get(), kBytes) == 0 && fcntl(holes.get(), F_ADD_SEALS, kSeals) == 0);
  EXPECT(begin_with(begin_message(kBufferBytes), holes.get()) == -ENOMEM);
  const UniqueFd one_hole = make_memory(kBytes, kSeals);
  EXPECT(fallocate(one_hole.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kBytes - 4096, 4096) == 0);
  EXPECT(begin_with(begin_message(kBufferBytes), one_hole.get()) == -ENOMEM);
  const UniqueFd sealed = make_memory(kBytes, kSeals | F_SEAL_SEAL);
  EXPECT(begin_with(begin_message(kBufferBytes), sealed.get()) == -EPERM);
  const UniqueFd twice = make_memory(kBytes, kSeals);
  EXPECT(begin_with(begin_message(kBufferBytes), twice.get()) == 0);
  EXPECT(fallocate(twice.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0 && errno == EPERM);
}

// One user's rings have so much memory in all.
void memory_of_a_user_is_bounded() {
  constexpr uid_t kUser = 1234;
  constexpr uint64_t kRingBytes = kControlBytes + kMostBufferBytes;
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    EXPECT(setgroups(0, nullptr) == 0 && setresgid(kUser, kUser, kUser) == 0 && setresuid(kUser, kUser, kUser) == 0);
    const Message begin = begin_message(kMostBufferBytes);
    std::vector<UniqueFd> rings;
    for (int answer = 0; answer == 0;) {
      const UniqueFd memory = make_memory(kRingBytes, kSeals);
      rings.push_back(connect_to_mount(file));
      EXPECT(send_packet(rings.back().get(), &begin, sizeof(begin), memory.get()).ok());
      Reply reply{};
      UniqueFd nothing;
      EXPECT(receive_packet(rings.back().get(), &reply, sizeof(reply), &nothing).ok());
      answer = reply.result;
      EXPECT(answer == 0 || answer == -EUSERS);
    }
    EXPECT(rings.size() == kMostMemoryOfUser / kRingBytes + 1);
    _exit(0);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

void what_ends_a_ring() {
  {
    RawRing ring(file);
    Entry entry{};
    entry.slot = kSlots;
    EXPECT(ring.submit(entry) == INT64_MIN && ring.ends());
  }
  {
    RawRing ring(file);
    ring.control->submitted = 100'000;
    ring.wake();
    EXPECT(ring.ends());
  }
  {
    RawRing ring(file);
    ring.control->submitted = UINT32_MAX;
    ring.wake();
    EXPECT(ring.ends());
  }
  {
    RawRing ring(file);
    const Message unknown{.kind = Message::Kind{99}, .number = 0, .buffer_bytes = 0};
    ring.say(&unknown, sizeof(unknown), file);
    EXPECT(ring.ends());
  }
  {
    RawRing ring(file);
    ring.say("??", 2, file);
    EXPECT(ring.ends());
  }
  {
    RawRing ring(file);  // the mount is told that it sleeps, and that it does not, whatever it does
    std::atomic<bool> stopping{false};
    std::thread other([&] {
      for (uint32_t word = 0; !stopping; ++word) ring.control->sleeps = word % 3;
    });
    for (int i = 0; i < 100; ++i) {
      ring.control->said.fetch_add(1);
      usleep(1'000);
    }
    ring.connected.reset();
    for (int i = 0; i < 5'000 && ring.control->ended == 0; ++i) usleep(1'000);
    EXPECT(ring.control->ended == 1);
    stopping = true;
    other.join();
  }
  {
    RawRing ring(file);  // what is submitted is never told
    ring.control->submitted.fetch_add(1);
  }
}

// While another thread writes there, too.
void put(const Entry& entry, Entry& shared) {
  const auto words = std::bit_cast<std::array<uint32_t, sizeof(Entry) / 4>>(entry);
  auto* const to = reinterpret_cast<std::atomic<uint32_t>*>(&shared);
  for (size_t i = 0; i < words.size(); ++i) to[i] = words[i];
}

// What is submitted changes all the time.
void scribble(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::mt19937_64 randomness(time.count());
  while (std::chrono::steady_clock::now() < end) {
    RawRing ring(file);
    const int shown = ring.show(file);
    std::thread other([&] {
      std::mt19937_64 other_randomness(7);
      for (int i = 0; i < 20'000; ++i) {
        auto* const words = reinterpret_cast<std::atomic<uint32_t>*>(ring.control->entries.data());
        words[other_randomness() % (sizeof(ring.control->entries) / 4)] =
            static_cast<uint32_t>(other_randomness() % 600);
      }
    });
    for (int i = 0; i < 300 && ring.control->ended == 0; ++i) {
      Entry entry{};
      entry.slot = static_cast<uint32_t>(randomness() % kSlots);
      entry.operation = Operation::kRead;  // only: the file is another's, too
      entry.file = static_cast<uint32_t>(shown);
      entry.length = 4096;
      put(entry, ring.control->entries[ring.control->submitted % kSlots]);
      ring.control->submitted.fetch_add(1 + (randomness() % 50 == 0 ? 1'000 : 0));
      if (randomness() % 8 == 0) ring.wake();
    }
    other.join();
  }
}

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc >= 2);
  file = open(argv[1], O_RDONLY | O_CLOEXEC);
  EXPECT(file >= 0);
  wrong_beginnings();
  wrong_requests();
  memory_is_the_programs();
  memory_of_a_user_is_bounded();
  what_ends_a_ring();
  if (argc > 2) scribble(std::chrono::milliseconds(static_cast<int64_t>(strtod(argv[2], nullptr) * 1'000)));
  return 0;
}
