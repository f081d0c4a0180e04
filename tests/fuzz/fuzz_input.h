// SPDX-License-Identifier: Apache-2.0
// An input cut into what a target needs: what is not there any more is zeros.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "tests/fuzz/fuzz_targets.h"

namespace brickfs::fuzz {

class Cut {
 public:
  explicit Cut(Input input) : rest_(input) {}
  bool empty() const { return rest_.empty(); }
  Input rest() const { return rest_; }
  template <typename Number>
  Number number() {
    Number value{};
    const Input bytes = this->bytes(sizeof(value));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  // As many as there are, at most so many.
  Input bytes(size_t most) {
    const Input taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  // With its length in front.
  Input piece() { return bytes(number<uint16_t>()); }

 private:
  Input rest_;
};

inline std::string_view text_of(Input input) { return {reinterpret_cast<const char*>(input.data()), input.size()}; }

}  // namespace brickfs::fuzz
