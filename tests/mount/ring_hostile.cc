// SPDX-License-Identifier: Apache-2.0
// A program that wants the mount of its ring never to end. It prints "begun" when it is at it.
//   ring_hostile flood FILE           messages without end, until the ring has ended: then "ended"
#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/mount/raw_ring.h"

namespace {

using namespace brickfs::direct;
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
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&ring] {
      const Message forget{.kind = Message::Kind::kForget, .number = 77'777, .buffer_bytes = 0};
      while (send_packet(ring.connected.get(), &forget, sizeof(forget)).code() != ENOTCONN)
        ring.control->said.fetch_add(1);
    });
  }
  tell("begun");
  for (std::thread& thread : threads) thread.join();
  tell("ended");
}

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc >= 3);
  const std::string_view what = argv[1];
  UniqueFd file(open(argv[2], O_RDONLY | O_CLOEXEC));
  EXPECT(file);
  if (what == "flood") flood(std::move(file));
  return 0;
}
