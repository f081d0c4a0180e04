// SPDX-License-Identifier: Apache-2.0
// What every call of the C interface does: an Error becomes an errno below zero, and no exception leaves.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "transport/base/result.h"

namespace brickfs::library {

inline int code_of(const Status& status) { return -status.code(); }
inline int code_of(Error error) { return -error.code(); }

// Of what moves bytes: so many, or the error.
inline int64_t count_of(const Result<uint64_t>& count) {
  return count.ok() ? static_cast<int64_t>(*count) : -count.code();
}

// `body` answers with a number of its own type.
template <typename Body>
auto guarded(Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (const std::exception&) {  // a thread that cannot be started
    return -EAGAIN;
  }
}

// As `guarded`, of an open: what it leaves in `why` is brickfs_error() of this thread.
void set_open_error(std::string why);

// What has to be closed before its owner is.
class Children {
 public:
  void add() { count_.fetch_add(1); }
  void remove() { count_.fetch_sub(1); }
  bool none() const { return count_.load() == 0; }

 private:
  std::atomic<uint64_t> count_{0};
};

}  // namespace brickfs::library
