// SPDX-License-Identifier: Apache-2.0
// Which of a mount's threads takes the next request from /dev/fuse.
//
// Left to the kernel, each request wakes the thread that has slept longest: it wakes up a processor, and finds nothing
// of its in any cache. So while requests come one after the other, one thread (the *only* one) serves them all, and
// looks for the next one before it sleeps; the others are parked. At a request that is known to take long it passes
// that part on to who was parked last. Of the parked, the *deputy* looks in now and then: when requests wait behind the
// one being served, it calls all, who then take requests as they come, until they come one by one again. But if all
// that comes are requests for few bytes, the only one goes on and serves together what waits: those threads would do
// nothing but wait for the brick. At as many as go together it passes what still waits on, too. docs/decisions, 38, 41
// and 47.
//
// Threads: receive() and pass_on() from those that have a Seat, stop() from any.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/short_wait.h"

namespace brickfs {

class FuseDeviceQueue {
 public:
  // Makes a read() that waits return; its handler does nothing.
  static constexpr int kWakeSignal = SIGUSR1;

  // `looks`: as above; else all threads take requests at any time. `device` must outlive it.
  FuseDeviceQueue(int device, bool looks) : device_(device), looks_(looks) {}
  FuseDeviceQueue(const FuseDeviceQueue&) = delete;
  FuseDeviceQueue& operator=(const FuseDeviceQueue&) = delete;

  // The calling thread takes part as long as it lives.
  class Seat {
   public:
    explicit Seat(FuseDeviceQueue& queue);
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

   private:
    friend class FuseDeviceQueue;
    FuseDeviceQueue& queue_;
    const pthread_t thread_;
    std::atomic<bool> reading_{false};
    CondVar called_;  // while it is parked
    bool serving_ = false;
    ShortWait wait_{std::chrono::microseconds(100), std::chrono::microseconds(500)};  // when it serves alone
  };

  // The thread has finished the request it had, and waits for the next. As read(): -1 and errno; EINTR also for stop().
  ssize_t receive(Seat& seat, std::span<std::byte> room);
  // Of the request just received: whether it may be served together with others.
  void note(Seat& seat, bool joins);
  // The thread had better take what else waits, too, and serve it together with such a one.
  bool serves_together(const Seat& seat) const { return together_ && only_ == &seat; }
  // It has, so many.
  void served_together(size_t requests);
  // The request just received will take long: another thread takes the next.
  void pass_on(const Seat& seat);
  // As many as go together are at hand: another thread takes what waits beside them, if anything does.
  void pass_on_what_waits(const Seat& seat);
  // Whoever is parked, or will be, returns from receive(). Who waits in read() has to be woken with the signal.
  void stop();

 private:
  ssize_t take(Seat& seat, std::span<std::byte> room);
  ssize_t receive_as_any(Seat& seat, std::span<std::byte> room);
  ssize_t receive_as_only(Seat& seat, std::span<std::byte> room);
  bool comes() const;
  void begin_turn(const Seat& seat);
  void end_turn(const Seat& seat);
  void try_to_be_the_only(Seat& seat);
  bool is_one_enough(bool serves, unsigned crowded, unsigned unchanged);
  void call_off_readers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void call_all() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void park(Seat& seat);
  void stand_by(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int device_;
  const bool looks_;
  std::atomic<bool> stopping_{false};
  std::atomic<unsigned> serving_{0};        // threads that are at a request
  std::atomic<unsigned> unaccompanied_{0};  // requests in a row that came while no other was being served
  std::atomic<Seat*> only_{nullptr};        // who serves alone; null: all do. Changed under the mutex
  std::atomic<uint64_t> turn_{0};           // of that one: odd while it serves
  std::atomic<bool> deputy_sleeps_{false};  // until the only one has a request
  std::atomic<unsigned> joining_{0};        // requests in a row that may be served together with others
  std::atomic<bool> together_{false};       // the only one looks for such
  std::atomic<unsigned> found_none_{0};     // times in a row

  Mutex mutex_;
  CondVar deputy_wakes_;
  bool has_deputy_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Seat*> seats_ ABSL_GUARDED_BY(mutex_);
  std::vector<Seat*> parked_ ABSL_GUARDED_BY(mutex_);  // but for the deputy; latest last
};

}  // namespace brickfs
