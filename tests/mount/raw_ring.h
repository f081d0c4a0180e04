// SPDX-License-Identifier: Apache-2.0
// A ring as its messages and its memory are, without the library: for programs that misuse it.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "fs/shm_queue/memory.h"
#include "fs/shm_queue/socket.h"
#include "tests/mount/ring_expect.h"

namespace brickfs::shm_queue {

constexpr uint64_t kBufferBytes = 64 * 1024;
constexpr uint64_t kBytes = kControlBytes + kBufferBytes;
constexpr unsigned kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// To the mount that has this file; none if that lets nobody in.
inline UniqueFd try_to_connect(int file) {
  struct stat attributes {};
  EXPECT(fstat(file, &attributes) == 0);
  const std::string path =
      shm_queue::socket_path(std::to_string(major(attributes.st_dev)) + ":" + std::to_string(minor(attributes.st_dev)));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  UniqueFd connected(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval most{.tv_sec = 5, .tv_usec = 0};  // for an answer
  EXPECT(setsockopt(connected.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) == 0);
  if (connect(connected.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return {};
  return connected;
}

inline UniqueFd connect_to_mount(int file) {
  UniqueFd connected = try_to_connect(file);
  EXPECT(connected);
  return connected;
}

inline UniqueFd make_memory(uint64_t bytes, unsigned seals) {
  UniqueFd memory(memfd_create("nonsense", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT(memory && ftruncate(memory.get(), static_cast<off_t>(bytes)) == 0);
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, memory.get(), 0);
  EXPECT(mapped != MAP_FAILED && munmap(mapped, bytes) == 0);
  EXPECT(seals == 0 || fcntl(memory.get(), F_ADD_SEALS, seals) == 0);
  return memory;
}

inline Message begin_message(uint64_t buffer_bytes) {
  return {.kind = Message::Kind::kBegin, .number = kVersion, .buffer_bytes = buffer_bytes};
}

// A ring that has begun as it should, whose memory is open to all.
struct RawRing {
  explicit RawRing(int file) : RawRing(connect_to_mount(file)) { EXPECT(begun == 0); }
  explicit RawRing(UniqueFd socket) : connected(std::move(socket)) {
    const UniqueFd memory = make_memory(kBytes, kSeals);
    mapped = static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0));
    EXPECT(mapped != MAP_FAILED);
    control = reinterpret_cast<ControlArea*>(mapped);
    const Message begin = begin_message(kBufferBytes);
    (void)send_packet(connected.get(), &begin, sizeof(begin), memory.get());
    begun = answer();
  }
  ~RawRing() { munmap(mapped, kBytes); }
  RawRing(const RawRing&) = delete;
  RawRing& operator=(const RawRing&) = delete;

  void wake() const {
    control->sleeps = 0;
    futex_wake(control->sleeps);
  }
  void say(const void* message, size_t length, int descriptor) {
    (void)send_packet(connected.get(), message, length, descriptor);
    control->said.fetch_add(1);
    wake();
  }
  int show(int descriptor) {
    const Message message{.kind = Message::Kind::kFile, .number = 0, .buffer_bytes = 0};
    say(&message, sizeof(message), descriptor);
    return answer();
  }
  // As the mount says, or why it says nothing: EAGAIN, if it does not for too long.
  int answer() {
    Reply reply{};
    UniqueFd nothing;
    const auto received = receive_packet(connected.get(), &reply, sizeof(reply), &nothing);
    return received.ok() ? reply.result : -received.code();
  }
  // What is answered to it; INT64_MIN: the ring has been ended.
  int64_t submit(Entry entry) {
    if (entry.slot < kSlots) control->answers[entry.slot].verdict = Verdict{};
    control->entries[control->submitted % kSlots] = entry;
    control->submitted.fetch_add(1);
    wake();
    for (int i = 0; i < 5'000; ++i) {
      if (entry.slot < kSlots && control->answers[entry.slot].verdict.load() != Verdict{})
        return control->answers[entry.slot].number;
      if (control->ended != 0) return INT64_MIN;
      usleep(1'000);
    }
    EXPECT(!"an answer within 5 s");
    return 0;
  }
  bool ends() const {
    pollfd hung_up{connected.get(), 0, 0};
    return poll(&hung_up, 1, 5'000) == 1 && (hung_up.revents & POLLHUP) != 0;
  }

  UniqueFd connected;
  int begun = -1;  // what the mount has answered
  std::byte* mapped = nullptr;
  ControlArea* control = nullptr;
};

}  // namespace brickfs::shm_queue
