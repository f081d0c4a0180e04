// SPDX-License-Identifier: Apache-2.0
// brickfs-run: runs a program with libbrickfs-run.so preloaded, so that its files on mounts with queues go by them.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kUsage = 2;
constexpr int kCannotRun = 126;  // as of shells and env(1)
constexpr int kNotFound = 127;
constexpr const char* kPreload = "LD_PRELOAD";

constexpr const char* kHelp =
    R"(Runs a program whose files on brickfs mounts with -o ring=on are read and written past the kernel,
where that helps.
Usage: brickfs-run [OPTIONS] PROGRAM [ARGUMENT]...

Options:
  -h,--help                   Print this help message and exit
  --version                   Print the version and exit

Environment: BRICKFS_RUN_STATS=1  each process says when it ends what went which way
Programs that are linked statically, or that run as another user than who starts them, run as ever.
)";

// Beside this program, as it is built; or where it is installed.
std::string find_library() {
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
  if (length <= 0) return {};
  const std::string program(self, static_cast<size_t>(length));
  const std::string folder = program.substr(0, program.rfind('/'));
  for (const std::string& path : {folder + "/libbrickfs-run.so", folder + "/../" BRICKFS_RUN_LIBRARY}) {
    char whole[PATH_MAX];
    if (realpath(path.c_str(), whole) != nullptr) return whole;
  }
  return {};
}

int fail(int code, const std::string& why) {
  fprintf(stderr, "brickfs-run: %s\n", why.c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "-h" || first == "--help") return fputs(kHelp, stdout) >= 0 ? 0 : 1;
  if (first == "--version") return puts("brickfs-run " BRICKFS_VERSION) >= 0 ? 0 : 1;
  const int program = first == "--" ? 2 : 1;
  if (program >= argc || (program == 1 && first.starts_with("-")))
    return fail(kUsage, (argc > 1 && first != "--" ? "unknown option " + first : "no program is named") +
                            " (see brickfs-run --help)");
  const std::string library = find_library();
  if (library.empty()) return fail(kCannotRun, "libbrickfs-run.so is not where it is installed");
  if (library.find_first_of(" :") != std::string::npos)
    return fail(kCannotRun, "the loader takes no library with a space or a colon in its path: " + library);
  const char* const before = getenv(kPreload);
  const std::string all = before != nullptr && *before != '\0' ? library + ":" + before : library;
  if (setenv(kPreload, all.c_str(), 1) != 0) return fail(kCannotRun, strerror(errno));
  execvp(argv[program], argv + program);
  const int code = errno;
  return fail(code == ENOENT ? kNotFound : kCannotRun, std::string(argv[program]) + ": " + strerror(code));
}
