// SPDX-License-Identifier: Apache-2.0
#include "transport/etcd/bounded_json.h"

#include <nlohmann/json.hpp>

namespace brickfs {
namespace {

using Json = nlohmann::json;

// Reads it as events, of which nothing is kept. False from one of them ends it.
class Counter final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(); }
  bool boolean(bool) override { return add(); }
  bool number_integer(number_integer_t) override { return add(); }
  bool number_unsigned(number_unsigned_t) override { return add(); }
  bool number_float(number_float_t, const string_t&) override { return add(); }
  bool string(string_t&) override { return add(); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t&) override { return add(); }
  bool start_object(size_t) override { return begin(); }
  bool start_array(size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool add() { return ++values_ <= kJsonValues; }
  bool begin() { return ++depth_ <= kJsonDepth && add(); }
  bool end() {
    --depth_;
    return true;
  }

  size_t depth_ = 0;
  size_t values_ = 0;
};

}  // namespace

bool is_bounded_json(std::string_view text) {
  Counter counter;
  return Json::sax_parse(text, &counter);
}

}  // namespace brickfs
