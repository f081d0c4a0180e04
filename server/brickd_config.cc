// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_config.h"

#include <fmt/core.h>

#include <algorithm>

namespace brickfs {
namespace {

constexpr const char* kBlanks = " \t\r";

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(kBlanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// What is not a name must not reach a parser of command lines.
bool is_option_name(const std::string& text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, fits);
}

[[noreturn]] void refuse(const std::string& why) { throw CLI::ConfigError(why, CLI::ExitCodes::ConfigError); }

// `NAME = VALUE`, or the NAME of a switch.
CLI::ConfigItem parse_line(const std::string& line) {
  const size_t equals = line.find('=');
  CLI::ConfigItem item;
  item.name = trimmed(line.substr(0, equals));
  if (!is_option_name(item.name)) refuse(fmt::format("not an option, NAME = VALUE: {}", line));
  item.inputs.push_back(equals == std::string::npos ? "true" : trimmed(line.substr(equals + 1)));
  if (item.inputs.front().empty()) refuse(item.name + ": it has no value");
  return item;
}

}  // namespace

std::vector<CLI::ConfigItem> BrickdConfig::from_config(std::istream& file) const {
  std::vector<CLI::ConfigItem> items;
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue;
    try {
      add_line(line, items);
    } catch (const CLI::Error& error) {
      refuse(fmt::format("{}:{}: {}", app_.get_config_ptr()->as<std::string>(), number, error.what()));
    }
  }
  return items;
}

// One item for all lines of a name: CLI11 takes the first item only.
void BrickdConfig::add_line(const std::string& line, std::vector<CLI::ConfigItem>& items) const {
  CLI::ConfigItem item = parse_line(line);
  const auto known = std::ranges::find(items, item.name, &CLI::ConfigItem::name);
  if (known == items.end()) {
    try_out(item);
    items.push_back(std::move(item));
  } else {
    known->inputs.push_back(item.inputs.front());
    try_out(*known);
  }
}

void BrickdConfig::try_out(const CLI::ConfigItem& item) const {
  CLI::App parser;
  parser.set_help_flag();
  define_(parser);
  const CLI::Option* option = parser.get_option_no_throw("--" + item.name);
  if (option == nullptr) refuse(item.name + ": no such option");
  std::vector<std::string> words;
  for (const std::string& value : item.inputs) words.push_back("--" + item.name + "=" + value);
  std::ranges::reverse(words);  // as CLI11 wants a vector of words
  parser.parse(std::move(words));
}

}  // namespace brickfs
