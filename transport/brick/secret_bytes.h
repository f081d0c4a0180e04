// SPDX-License-Identifier: Apache-2.0
// Bytes that nobody else may read: in pages of their own, which no core dump has (MADV_DONTDUMP) and which are
// overwritten before they go back to the system. Copies share them.
//
// Threads: any; the bytes never change.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <string_view>

namespace brickfs {

class SecretBytes {
 public:
  SecretBytes() = default;
  template <std::convertible_to<std::string_view> Text>
  SecretBytes(const Text& text) : SecretBytes(std::string_view(text).data(), std::string_view(text).size()) {}

  bool empty() const { return size() == 0; }
  size_t size() const { return view().size(); }
  const char* data() const { return view().data(); }
  std::string_view view() const;
  friend bool operator==(const SecretBytes& a, const SecretBytes& b) { return a.view() == b.view(); }

 private:
  class Pages;
  SecretBytes(const char* bytes, size_t size);

  std::shared_ptr<const Pages> pages_;  // null: no bytes
};

}  // namespace brickfs
