// SPDX-License-Identifier: Apache-2.0
#include "transport/base/local_time.h"

#include <array>
#include <ctime>

namespace brickfs {

std::string local_time(int64_t unix_seconds) {
  const std::time_t seconds = unix_seconds;
  std::tm parts{};
  std::array<char, 32> text{};
  if (::localtime_r(&seconds, &parts) == nullptr) return "an unknown time";
  std::strftime(text.data(), text.size(), "%F %T", &parts);
  return text.data();
}

}  // namespace brickfs
