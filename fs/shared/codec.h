// SPDX-License-Identifier: Apache-2.0
// Structs to bytes and back: little-endian, without padding, one field after the other. What the fields of a struct
// are is said once, for both ways, by a tuple of pointers to its members: kFields<T>, or T::kFields. Numbers and
// enumerations take their size; bool a byte; text and vectors a 32-bit count first; an optional a byte that says
// whether it is there.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "transport/base/bytes.h"
#include "transport/base/result.h"

namespace brickfs::shared {

template <typename T>
constexpr auto kFields = T::kFields;

template <typename T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class Encoder {
 public:
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      put(static_cast<uint8_t>(value));
    } else if constexpr (Plain<T>) {
      append(bytes_of(value));
    } else {
      std::apply([&](auto... members) { (put(value.*members), ...); }, kFields<T>);
    }
  }
  void put(const std::string& text) {
    put(static_cast<uint32_t>(text.size()));
    append(std::as_bytes(std::span(text)));
  }
  void put(const std::vector<std::byte>& bytes) {
    put(static_cast<uint32_t>(bytes.size()));
    append(bytes);
  }
  template <typename T>
  void put(const std::vector<T>& items) {
    put(static_cast<uint32_t>(items.size()));
    for (const T& item : items) put(item);
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  std::vector<std::byte> bytes_;
};

// Takes nothing on trust: what is cut off, or says that it is longer than it is, makes it fail, and is zeros.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      get(byte);
      if (byte > 1) failed_ = true;
      value = byte == 1;
    } else if constexpr (Plain<T>) {
      const auto bytes = take(sizeof(T));
      value = bytes.size() == sizeof(T) ? load<T>(bytes) : T{};
    } else {
      std::apply([&](auto... members) { (get(value.*members), ...); }, kFields<T>);
    }
  }
  void get(std::string& text) {
    const auto bytes = take(count());
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void get(std::vector<std::byte>& value) {
    const auto bytes = take(count());
    value.assign(bytes.begin(), bytes.end());
  }
  template <typename T>
  void get(std::vector<T>& items) {
    const uint32_t wanted = count();
    items.clear();
    while (items.size() < wanted && !failed_) get(items.emplace_back());  // none of no bytes: what is there is a bound
  }
  template <typename T>
  void get(std::optional<T>& value) {
    bool is_there = false;
    get(is_there);
    value.reset();
    if (is_there && !failed_) get(value.emplace());
  }

  // Behind the last field.
  std::span<const std::byte> rest() const { return rest_; }
  bool failed() const { return failed_; }

 private:
  uint32_t count() {
    uint32_t value = 0;
    get(value);
    return value;
  }
  std::span<const std::byte> take(size_t bytes) {
    if (failed_ || rest_.size() < bytes) {
      failed_ = true;
      return {};
    }
    const auto taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

template <typename T>
std::vector<std::byte> encode(const T& value) {
  Encoder encoder;
  encoder.put(value);
  return encoder.take();
}

// All of them are one T. EPROTO.
template <typename T>
Result<T> decode(std::span<const std::byte> bytes) {
  T value{};
  Decoder decoder(bytes);
  decoder.get(value);
  if (decoder.failed() || !decoder.rest().empty()) return Error(EPROTO, "not what was asked for");
  return value;
}

}  // namespace brickfs::shared
