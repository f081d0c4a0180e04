// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an Error. The only way failure travels between layers; nothing throws across one.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace brickfs {

// An errno value and a static sentence that says what was being done. Equal when the errno is.
class [[nodiscard]] Error {
 public:
  constexpr explicit Error(int code, const char* what = "") : code_(code), what_(what) {}
  constexpr int code() const { return code_; }
  constexpr const char* what() const { return what_; }
  constexpr bool operator==(const Error& other) const { return code_ == other.code_; }
  constexpr bool is(int code) const { return code_ == code; }

 private:
  int code_;
  const char* what_;  // static storage
};

// "WHAT: REASON", for people.
std::string describe(Error error);

// errno as left by the call that has just failed.
inline Error errno_error(const char* what) { return Error(errno, what); }

template <typename T>
class [[nodiscard]] Result {
 public:
  using Value = T;
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(error) {}         // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  // Precondition: !ok().
  Error error() const { return error_; }
  int code() const { return ok() ? 0 : error_.code(); }
  // Precondition of the rest: ok().
  T& value() & { return value_.value(); }
  const T& value() const& { return value_.value(); }
  T&& value() && { return std::move(value_).value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Error error_{0};
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using Value = void;
  Result() = default;
  Result(Error error) : error_(error) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  Error error() const { return *error_; }
  int code() const { return ok() ? 0 : error_->code(); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

// Evaluates to the value, or returns the error from the enclosing function.
#define TRY(expression)                            \
  ({                                               \
    auto try_result_ = (expression);               \
    if (!try_result_.ok()) [[unlikely]] {          \
      return try_result_.error();                  \
    }                                              \
    ::brickfs::take_value(std::move(try_result_)); \
  })

template <typename T>
T take_value(Result<T>&& result) {
  return std::move(result).value();
}
inline void take_value(Result<void>&&) {}

}  // namespace brickfs
