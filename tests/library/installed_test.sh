#!/usr/bin/env bash
# What is installed is enough for programs of others: the examples, by pkg-config and by CMake's package, in C and C++.
. "$(dirname "$0")/../mount/lib.sh"
root=$(cd "$TESTS/.." && pwd)
prefix=$WORK/prefix
cmake --install "$BUILD/fs/library" --prefix "$prefix" >"$WORK/install.log" || die "cmake --install fails"
library=$(dirname "$(find "$prefix" -name 'libbrickfs.so.0')")
export LD_LIBRARY_PATH=$library PKG_CONFIG_PATH=$library/pkgconfig
start_brickd --memory 256M --file "$WORK/store" --size 256M --volume notices
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default

expect() { local text=$1; shift; [ "$("$@" 2>&1)" = "$text" ] || die "$*: $("$@" 2>&1 | tail -n 3)"; }
say "by pkg-config"
for example in files blocks notify; do
  cc -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$WORK/$example" "$root/fs/library/examples/$example.c" $(pkg-config --cflags --libs brickfs)
done
printf '#include <brickfs.h>\nint main() { return *brickfs_version() == 0; }\n' >"$WORK/plain.cc"
c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -o "$WORK/plain" "$WORK/plain.cc" $(pkg-config --cflags --libs brickfs)
"$WORK/plain" || die "no version"
flags=$(pkg-config --cflags brickfs)
[[ "$flags $(pkg-config --libs brickfs)" == *"$WORK/prefix"*"$WORK/prefix"* ]] || die "pkg-config names another place than that where it is: $flags"
printf '#include <brickfs.h>\nint main(void) { return BRICKFS_LIBRARY_VERSION_NUMBER < 100 || *brickfs_version() == 0; }\n' >"$WORK/strict.c"
for standard in c99 c11 c17; do
  # shellcheck disable=SC2086
  cc -std=$standard -pedantic -pedantic-errors -Wall -Wextra -Werror -fsyntax-only $flags "$WORK/strict.c" || die "brickfs.h is not strict $standard"
done
for source in memory:64M "$SOURCE"; do expect "hello, brick" "$WORK/files" "$source"; done
expect "the last counter is 63" "$WORK/blocks" memory:64M
NOTICES=${SOURCE%/*}/notices
"$WORK/notify" "$NOTICES" read 3 >"$WORK/words" & BACKGROUND_PIDS+=($!)
timeout 20 "$WORK/notify" "$NOTICES" write one two "and three" || die "the example of notifications does not write"
wait "${BACKGROUND_PIDS[-1]}" || die "the example of notifications does not read"
expect "$(printf 'one\ntwo\nand three')" cat "$WORK/words"
say "by CMake's package"
cmake -S "$root/fs/library/examples" -B "$WORK/cmake" -DCMAKE_PREFIX_PATH="$prefix" >"$WORK/cmake.log" 2>&1 || { cat "$WORK/cmake.log"; die "find_package fails"; }
cmake --build "$WORK/cmake" >>"$WORK/cmake.log" 2>&1 || { cat "$WORK/cmake.log"; die "the build fails"; }
expect "hello, brick" "$WORK/cmake/files" "$SOURCE"

say "nothing but the interface is seen"
nm -D --defined-only "$library/libbrickfs.so.0" | awk '{ print $3 }' | grep -v '^brickfs_[a-z_]*@@BRICKFS_0$' | grep -v '^BRICKFS_0' && die "the above"
for name in $(sed -n 's/.*\(brickfs_[a-z_]*\)(.*/\1/p' "$root/fs/library/brickfs.h" | sort -u); do
  nm -D --defined-only "$library/libbrickfs.so.0" | grep " $name@@" >/dev/null || grep "typedef.*$name" "$root/fs/library/brickfs.h" >/dev/null || die "$name is declared and not there"
done
if [ -d "$prefix/lib/python3" ]; then
  say "Python"
  export PYTHONPATH=$prefix/lib/python3/dist-packages
  expect "the sum is 8589869056" "$([ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3)" "$root/fs/library/examples/save_array.py" "$SOURCE"
fi
