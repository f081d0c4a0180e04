// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/call_counters.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <string_view>
#include <utility>

namespace brickfs::shared {
namespace {

// "GetAttributes", as the compiler has it: so a new call has a name.
template <typename T>
constexpr std::string_view name_of_type() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1);
}
static_assert(name_of_type<GetAttributes>() == "GetAttributes");

template <size_t... kAt>
constexpr std::array<std::string_view, kKinds> names_of(std::index_sequence<kAt...>) {
  return {name_of_type<std::variant_alternative_t<kAt, Request>>()...};
}
constexpr auto kNames = names_of(std::make_index_sequence<kKinds>());

std::string in_words(std::string_view name) {
  std::string words;
  for (const char c : name) {
    const bool begins = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (begins && !words.empty()) words += '_';
    words += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return words;
}

bool is_failure(size_t kind, int error) {
  const bool may_be_missing = error == ENOENT && kind == kind_of<Lookup>();
  const bool may_be_locked = error == EAGAIN && kind == kind_of<SetLock>();
  const bool may_lack = error == ENODATA && kind == kind_of<GetXattr>();
  return error != 0 && !may_be_missing && !may_be_locked && !may_lack;
}

}  // namespace

void CallCounters::count(size_t kind, std::chrono::nanoseconds took, int error, uint64_t bytes) {
  if (kind < kKinds && kind != kind_of<AwaitRecalls>()) counters_.count(kind, took, is_failure(kind, error), bytes);
}

std::vector<CallCounters::Call> CallCounters::calls() const {
  std::vector<Call> all;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const LatencyCounts counts = counters_.counts(kind);
    if (counts.count() > 0) all.push_back({in_words(kNames[kind]), counts});
  }
  std::ranges::sort(all, {}, &Call::name);
  return all;
}

}  // namespace brickfs::shared
