// SPDX-License-Identifier: Apache-2.0
// A program that wants the mount of its ring never to end. It prints "begun" when it is at it.
//   ring_hostile flood FILE      messages without end, until the ring has ended: then "ended"
//   ring_hostile deaf FILE DIR   hands over descriptors of a file that nobody can close, in all ways, until it reads
//                                the end of its input; DIR is where that one's file system is mounted meanwhile
#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/mount/deaf_server.h"
#include "tests/mount/raw_ring.h"

namespace {

using namespace brickfs::shm_queue;
using brickfs::UniqueFd;

void tell(const char* word) {
  puts(word);
  fflush(stdout);
}

// With a long queue: on few processors these threads do not always run.
void flood(UniqueFd file) {
  RawRing ring(file.get());
  file.reset();
  constexpr int kQueueBytes = 128 << 20;
  EXPECT(setsockopt(ring.connected.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kQueueBytes, sizeof(kQueueBytes)) == 0);
  std::atomic<bool> is_full{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const Message forget{.kind = Message::Kind::kForget, .number = 77'777, .buffer_bytes = 0};
      for (int code = 0; code != ENOTCONN; ring.control->said.fetch_add(1)) {
        code = send_packet(ring.connected.get(), &forget, sizeof(forget)).code();
        if (code == EAGAIN) is_full = true;
      }
    });
  }
  for (int i = 0; i < 300 && !is_full; ++i) usleep(10'000);
  tell("begun");
  for (std::thread& thread : threads) thread.join();
  tell("ended");
}

constexpr uid_t kUser = 1234;

UniqueFd open_deaf(const char* directory) {
  UniqueFd opened(open((std::string(directory) + "/file").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT(opened);
  return opened;
}

void send_two(int socket, int first, int second) {
  const Message message{.kind = Message::Kind::kFile, .number = 0, .buffer_bytes = 0};
  iovec part{const_cast<Message*>(&message), sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const int descriptors[] = {first, second};
  memcpy(CMSG_DATA(rights), descriptors, sizeof(descriptors));
  EXPECT(sendmsg(socket, &header, 0) == static_cast<ssize_t>(sizeof(message)));
}

// From when `dirty` is written on, whoever closes a descriptor of that file waits, and who has its last one.
void hand_over(const UniqueFd& file, const char* directory) {
  const Message message{.kind = Message::Kind::kFile, .number = 0, .buffer_bytes = 0};
  RawRing second_of_two(file.get());
  RawRing never_told(file.get());
  RawRing shown(file.get());
  UniqueFd dirty = open_deaf(directory);
  {
    const UniqueFd one = open_deaf(directory);
    const UniqueFd other = open_deaf(directory);
    send_two(second_of_two.connected.get(), file.get(), one.get());
    EXPECT(send_packet(never_told.connected.get(), &message, sizeof(message), other.get()).ok());
  }
  char page[4096] = {};
  EXPECT(write(dirty.get(), page, sizeof(page)) == static_cast<ssize_t>(sizeof(page)));
  EXPECT(shown.show(dirty.get()) == -EACCES);
  second_of_two.control->said.fetch_add(1);
  second_of_two.wake();
  EXPECT(second_of_two.answer() >= 0);
  never_told.connected.reset();
  { const RawRing next(file.get()); }
  int refused = 0;
  for (int i = 0; i < 1'000; ++i) {
    UniqueFd connected = try_to_connect(file.get());
    if (connected) {
      RawRing ring(std::move(connected));
      if (ring.begun == 0) (void)ring.show(dirty.get());
    } else {
      ++refused;
    }
  }
  EXPECT(refused > 500);
  tell("begun");
  (void)dirty.release();  // it is closed when its server is no more
}

void be_deaf(UniqueFd file, const char* directory) {
  const DeafServer server(directory, kUser);
  const pid_t program = fork();
  EXPECT(program >= 0);
  if (program == 0) {
    EXPECT(setgroups(0, nullptr) == 0 && setresgid(kUser, kUser, kUser) == 0 && setresuid(kUser, kUser, kUser) == 0);
    server.leave();
    EXPECT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    hand_over(file, directory);
    file.reset();
    while (getchar() != EOF) continue;
    _exit(0);
  }
  file.reset();
  // Until its input ends it is not to be waited for: it cannot end before its server does.
  while (getchar() != EOF) continue;
  umount2(directory, MNT_FORCE);
  int status = 0;
  EXPECT(waitpid(program, &status, 0) == program && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc >= 3);
  const std::string_view what = argv[1];
  UniqueFd file(open(argv[2], O_RDONLY | O_CLOEXEC));
  EXPECT(file);
  if (what == "flood") flood(std::move(file));
  if (what == "deaf" && argc == 4) be_deaf(std::move(file), argv[3]);
  return 0;
}
