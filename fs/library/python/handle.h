// SPDX-License-Identifier: Apache-2.0
// A handle of libbrickfs that a Python object has. It is its process's that opened it: in a child of fork(2) calls
// raise OSError (EBADF), and to close or to forget it does nothing to what is the parent's.
//
// Threads: with the interpreter's lock, also the end of a Use.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace brickfs::python {

// The process that made an object.
class Origin {
 public:
  bool is_here() const { return process_ == getpid(); }

 private:
  const pid_t process_ = getpid();
};

[[noreturn]] inline void raise_os_error(int number, const char* text) {
  const pybind11::tuple arguments = pybind11::make_tuple(number, text);
  PyErr_SetObject(PyExc_OSError, arguments.ptr());
  throw pybind11::error_already_set();
}

template <typename T>
class Handle {
 public:
  // Of a call under way: as long as there is one the handle is not closed. It passes for the pointer.
  class Use {
   public:
    explicit Use(Handle& of) : of_(&of) { ++of_->uses_; }
    Use(Use&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (of_ != nullptr) --of_->uses_;
    }
    operator T*() const { return of_->opened_; }

   private:
    Handle* of_;
  };

  // `closed`: what to say of its use after close().
  Handle(T* opened, int (*close)(T*), const char* closed) : opened_(opened), close_(close), closed_(closed) {}
  // Without the interpreter's lock: closing may wait for a brick.
  ~Handle() {
    if (opened_ == nullptr || !origin_.is_here()) return;
    const pybind11::gil_scoped_release unlocked;
    close_(opened_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  Use use() {
    if (opened_ == nullptr) throw pybind11::value_error(closed_);
    if (!origin_.is_here()) raise_os_error(EBADF, "it was opened before fork(2), and is the parent's");
    return Use(*this);
  }
  bool is_closed() const { return opened_ == nullptr; }
  // What close() of the library answers; -EBUSY: it is open still.
  int close() {
    if (uses_ > 0 && origin_.is_here()) return -EBUSY;
    T* const closing = std::exchange(opened_, nullptr);
    if (closing == nullptr || !origin_.is_here()) return 0;
    int code = 0;
    {
      const pybind11::gil_scoped_release unlocked;
      code = close_(closing);
    }
    if (code == -EBUSY) opened_ = closing;
    return code;
  }

 private:
  T* opened_;
  int (*const close_)(T*);
  const char* const closed_;
  const Origin origin_;
  int uses_ = 0;
};

}  // namespace brickfs::python
