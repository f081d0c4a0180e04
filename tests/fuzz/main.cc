// SPDX-License-Identifier: Apache-2.0
// brickfs-fuzz: a target with libFuzzer, or with the inputs of files.
//
//   brickfs-fuzz --list
//   brickfs-fuzz TARGET [FILE|DIRECTORY]...     each input once; with libFuzzer its own arguments (-help=1)
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_targets.h"
#include "transport/base/log.h"

#ifdef BRICKFS_LIBFUZZER
extern "C" int LLVMFuzzerRunDriver(int* argc, char*** argv, int (*run)(const uint8_t* data, size_t size));
#endif

namespace brickfs::fuzz {
namespace {

const Target* chosen = nullptr;

#ifdef BRICKFS_LIBFUZZER
int run_one(const uint8_t* data, size_t size) {
  chosen->run(std::as_bytes(std::span(data, size)));
  return 0;
}
#endif

[[maybe_unused]] size_t run_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::printf("%s: %s, %zu bytes\n", chosen->name, path.c_str(), bytes.size());
  std::fflush(stdout);
  chosen->run(std::as_bytes(std::span(bytes)));
  return 1;
}

[[maybe_unused]] size_t run_all(std::span<char*> paths) {
  size_t inputs = 0;
  for (const char* const path : paths) {
    if (!std::filesystem::is_directory(path))
      inputs += run_file(path);
    else
      for (const auto& entry : std::filesystem::directory_iterator(path)) inputs += run_file(entry.path());
  }
  return inputs;
}

int run(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--list") {
    for (const Target& target : kTargets) std::puts(target.name);
    return 0;
  }
  const auto found = std::ranges::find_if(
      kTargets, [&](const Target& target) { return argc >= 2 && std::string_view(argv[1]) == target.name; });
  if (found == kTargets.end())
    return std::fputs("usage: brickfs-fuzz --list | TARGET [FILE|DIRECTORY]...\n", stderr), 2;
  chosen = &*found;
  log::set_level(log::Level::kOff);  // what others do wrong is worth a line each
  argv[1] = argv[0];
  ++argv;
  --argc;
#ifdef BRICKFS_LIBFUZZER
  return LLVMFuzzerRunDriver(&argc, &argv, run_one);
#else
  return run_all(std::span(argv + 1, static_cast<size_t>(argc - 1))) > 0 ? 0 : 2;
#endif
}

}  // namespace
}  // namespace brickfs::fuzz

int main(int argc, char** argv) { return brickfs::fuzz::run(argc, argv); }
