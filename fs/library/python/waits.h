// SPDX-License-Identifier: Apache-2.0
// Calls of the library that may wait, for Python: without the interpreter's lock, and so that signals end those that
// can be done again.
//
// Threads: any, with the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "fs/library/brickfs.h"
#include "fs/library/python/handle.h"

namespace brickfs::python {

namespace py = pybind11;
using Clock = std::chrono::steady_clock;

constexpr double kPiece = 0.2;  // seconds, of a wait that Python's signals end

[[noreturn]] inline void raise(int64_t code, const std::string& about = {}) {
  errno = static_cast<int>(-code);
  if (about.empty()) {
    PyErr_SetFromErrno(PyExc_OSError);
  } else {
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, about.c_str());
  }
  throw py::error_already_set();
}

// Runs a call of the library without the interpreter's lock.
template <typename Call>
int64_t wait_for(Call call, const std::string& about = {}) {
  int64_t code = 0;
  {
    const py::gil_scoped_release unlocked;
    code = call();
  }
  if (code < 0) raise(code, about);
  return code;
}

// The calling thread's own, for waits in pieces. Null: there is no memory, or it is a child of fork(2).
inline brickfs_patience* patience_of_thread() {
  struct Own {
    ~Own() {
      if (origin.is_here()) brickfs_patience_free(patience);  // else its clock is the parent's
    }
    brickfs_patience* patience = nullptr;
    Origin origin;
  };
  thread_local Own own;
  if (own.patience == nullptr) static_cast<void>(brickfs_patience_new(&own.patience));
  return own.origin.is_here() ? own.patience : nullptr;
}

// Of what can be done again: in pieces, so that signals of Python end it. Each is twice the one before, so that what is
// slow gets through. A thread that has a patience of its own waits as wait_for().
template <typename Call>
int64_t wait_in_pieces(Call call) {
  brickfs_patience* const patience = patience_of_thread();
  for (std::chrono::milliseconds piece(static_cast<int>(kPiece * 1000));; piece *= 2) {
    int64_t code = 0;
    bool is_over = false;
    {
      const py::gil_scoped_release unlocked;
      const auto until = Clock::now() + piece;
      const bool begun = patience != nullptr && brickfs_patience_begin(patience, static_cast<int>(piece.count())) == 0;
      code = call();
      is_over = begun && code == -ETIMEDOUT && Clock::now() >= until;
      if (begun) brickfs_patience_end(patience);
    }
    if (code >= 0) return code;
    if (!is_over) raise(code);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

// In pieces, so that signals of Python (a KeyboardInterrupt) end it. The call: with the milliseconds that it may wait.
template <typename Call>
void wait_for_lock(bool wait, Call call) {
  const std::chrono::milliseconds piece(wait ? static_cast<int>(kPiece * 1000) : 0);
  for (;;) {
    int code = 0;
    bool is_over = false;
    {
      const py::gil_scoped_release unlocked;
      const auto until = Clock::now() + piece;
      code = call(static_cast<int>(piece.count()));
      is_over = wait && code == -ETIMEDOUT && Clock::now() >= until;  // else a patience is
    }
    if (code == 0) return;
    if (!is_over) raise(code);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

}  // namespace brickfs::python
