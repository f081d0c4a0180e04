#!/usr/bin/env bash
# brickfs is configured and built inside its own mount, and what was built there works.   self_build_test.sh tcp|rdma|file|memory
. "$(dirname "$0")/lib.sh"
start_brick "$1" 2G
mount_brickfs
say "copy the sources"
mkdir "$MNT/src"
(cd "$TESTS/.." && tar -cf - CMakeLists.txt CMakePresets.json fs transport server tests tools docs README.md) | tar -xf - -C "$MNT/src"
say "configure and build"
export CCACHE_DISABLE=1
cmake -S "$MNT/src" -B "$MNT/src/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DBRICKFS_TESTS=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 >"$WORK/cmake.log" 2>&1 || die "cmake"
cmake --build "$MNT/src/build" --target brickfs brickd >"$WORK/build.log" 2>&1 || die "the build"
ninja -C "$MNT/src/build" -n brickfs brickd >"$WORK/again" || die "ninja -n"
! grep -E 'Building|Linking' "$WORK/again" || die "ninja sees work to do after the build: time stamps are not kept"
say "run what was built, from the mount"
for program in fs/brickfs server/brickd; do
  "$MNT/src/build/$program" --version >"$WORK/version" || die "$program --version"
done
mkdir "$WORK/inner"
"$MNT/src/build/fs/brickfs" "file:$MNT/inner.store,64M" "$WORK/inner"
echo hello >"$WORK/inner/file"
[ "$(cat "$WORK/inner/file")" = hello ] || die "a mount inside the mount"
umount "$WORK/inner"
within 20 bash -c "! fuser -s '$MNT/inner.store'" || die "the inner mount does not let go of its store"
unmount_brickfs
[ "$1" = memory ] || check_volume
