#!/usr/bin/env bash
# brickd is configured and built inside a mount, and what was built there works.   self_build_test.sh tcp|rdma|file|memory
. "$(dirname "$0")/lib.sh"
start_brick "$1" 2G
mount_brickfs
say "copy the sources"
mkdir "$MNT/src"
(cd "$TESTS/.." && tar -cf - CMakeLists.txt CMakePresets.json fs transport server tests tools docs README.md) | tar -xf - -C "$MNT/src"
say "configure and build"
export CCACHE_DISABLE=1
cmake -S "$MNT/src" -B "$MNT/src/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DBRICKFS_TESTS=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 >"$WORK/cmake.log" 2>&1 || die "cmake"
cmake --build "$MNT/src/build" --target brickd >"$WORK/build.log" 2>&1 || die "the build"
ninja -C "$MNT/src/build" -n brickd >"$WORK/again" || die "ninja -n"
! grep -E 'Building|Linking' "$WORK/again" || die "ninja sees work to do after the build: time stamps are not kept"
say "run what was built, from the mount, on a store in the mount"
inner=$MNT/src/build/server/brickd
"$inner" --version >"$WORK/version" || die "brickd --version"
"$inner" --listen tcp://127.0.0.1:0 --memory 64M --file "$MNT/inner.store" --size 64M --port-file "$WORK/inner.port" --foreground 2>"$WORK/inner.log" &
inner_pid=$!
BACKGROUND_PIDS+=("$inner_pid")
within 20 test -s "$WORK/inner.port" || die "brickd does not start from the mount"
mkdir "$WORK/inner"
"$BRICKFS" "tcp://127.0.0.1:$(head -n 1 "$WORK/inner.port")/default" "$WORK/inner"
echo hello >"$WORK/inner/file"
[ "$(cat "$WORK/inner/file")" = hello ] || die "a mount of a brick in the mount"
umount "$WORK/inner"
kill "$inner_pid"
wait "$inner_pid" || die "brickd ends with $?"
unmount_brickfs
[ "$1" = memory ] || check_volume
