// SPDX-License-Identifier: Apache-2.0
// brickd's configuration file: the options of its command line, one a line. brickd.conf(5).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <istream>
#include <string>
#include <vector>

namespace brickfs {

// CLI11 has the items from this and gives what is on the command line too precedence. It knows no lines, so each line
// is tried on a parser of its own first: what is wrong with it is said with its number.
class BrickdConfig final : public CLI::Config {
 public:
  using Define = std::function<void(CLI::App&)>;
  // `app` is to read its file by this; `define` gives a parser the options that may stand in it.
  BrickdConfig(const CLI::App& app, Define define) : app_(app), define_(std::move(define)) {}

  // Throws CLI::ConfigError: FILE:LINE: what is wrong.
  std::vector<CLI::ConfigItem> from_config(std::istream& file) const override;
  // Not offered: a file is written by people.
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

 private:
  void add_line(const std::string& line, std::vector<CLI::ConfigItem>& items) const;
  void try_out(const CLI::ConfigItem& item) const;

  const CLI::App& app_;
  const Define define_;
};

}  // namespace brickfs
