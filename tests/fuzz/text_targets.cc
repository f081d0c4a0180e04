// SPDX-License-Identifier: Apache-2.0
// What people, etcd and programs of this host write.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <string>

#include "fs/inode/acl.h"
#include "fs/library/options.h"
#include "fs/mount/mount_options.h"
#include "server/brickd_options.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/source.h"
#include "transport/etcd/bounded_json.h"
#include "transport/etcd/set_map_json.h"

namespace brickfs::fuzz {

// A map that is taken is the same when it has been written and read.
void set_map(Input input) {
  const std::string_view text = text_of(input);
  std::string why;
  static_cast<void>(is_bounded_json(text));
  static_cast<void>(parse_id(text));
  const auto map = parse_map(text, &why);
  if (!map.ok() || !check_map(*map, &why).ok()) return;
  const std::string written = format_map(*map);
  const auto again = parse_map(written, &why);
  CHECK(again.ok());
  CHECK(format_map(*again) == written);
}

void names(Input input) {
  Cut cut(input);
  const auto way = cut.number<uint8_t>();
  const std::string_view text = text_of(cut.rest());
  std::string why;
  if (way % 4 == 0) {
    if (const auto source = parse_source(text, &why); source.ok()) {
      const std::string written = format_source(*source);
      const auto again = parse_source(written, &why);
      CHECK(again.ok());
      CHECK(format_source(*again) == written);
    }
  } else if (way % 4 == 1) {
    static_cast<void>(parse_listen_url(text, &why));
  } else if (way % 4 == 2) {
    MountCommand command;
    static_cast<void>(parse_mount_options(text, command, &why));
  } else {
    static_cast<void>(library::parse_options(std::string(text).c_str(), &why));
  }
}

// brickd's, by the program's own options.
void configuration(Input input) {
  const UniqueFd file(memfd_create("brickd.conf", 0));
  CHECK(write(file.get(), input.data(), input.size()) == static_cast<ssize_t>(input.size()));
  std::string program = "brickd";
  std::string option = "--config";
  std::string path = "/proc/self/fd/" + std::to_string(file.get());
  std::array<char*, 4> arguments = {program.data(), option.data(), path.data(), nullptr};
  static_cast<void>(parse_brickd_options(3, arguments.data()));
}

void acl(Input input) { static_cast<void>(Acl::parse(input)); }

}  // namespace brickfs::fuzz
