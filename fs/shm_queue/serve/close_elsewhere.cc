// SPDX-License-Identifier: Apache-2.0
#include "fs/shm_queue/serve/close_elsewhere.h"

#include <atomic>
#include <cerrno>
#include <memory>
#include <system_error>
#include <thread>

namespace brickfs {
namespace {

constexpr int kMostClosing = 64;
std::atomic<int> closing{0};

}  // namespace

Status close_elsewhere(std::vector<UniqueFd> descriptors) {
  if (descriptors.empty()) return {};
  const bool too_many = ++closing > kMostClosing;
  auto moved = std::make_unique<std::vector<UniqueFd>>(std::move(descriptors));
  try {
    std::thread([of_thread = moved.get()] {
      delete of_thread;
      --closing;
    }).detach();
  } catch (const std::system_error&) {
    (void)moved.release();  // they stay open, and count: this thread may have to wait for them, too
    return Error(EUSERS, "no thread to close a descriptor");
  }
  (void)moved.release();  // the thread's
  return too_many ? Status(Error(EUSERS, "descriptors that are not closed")) : Status();
}

bool closes_too_many() { return closing > kMostClosing; }

}  // namespace brickfs
