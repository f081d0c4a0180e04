#!/usr/bin/env bash
# A large source tree (some 27,000 files) is unpacked, configured and built on brickfs, and removed; what was built runs. Takes long: by
# hand, or with a part of it.   build_test.sh [tcp|file|memory [TARGET]]        TARGET: all-libiberty all-bfd ... , all (half an hour)
. "$(dirname "$0")/lib.sh"
kind=${1:-file} target=${2:-all-binutils}
need gcc make texinfo bison flex
start_brick "$kind" 6G
mount_brickfs
tarball=$(source_tarball)
say "unpack"
mkdir "$MNT/source" "$MNT/build"
tar -xf "$tarball" -C "$MNT/source" --strip-components=1
free=$(free_units)
say "configure and make $target"
cd "$MNT/build"
../source/configure --disable-nls --disable-gdb --disable-gprofng --disable-werror --quiet CFLAGS='-O0 -pipe' MAKEINFO=true >"$WORK/configure.log" 2>&1 || die "configure"
timeout 3600 make -j2 -s MAKEINFO=true "$target" >"$WORK/make.log" 2>&1 || die "make"
say "nothing is left to be made"
make -s MAKEINFO=true "$target" >"$WORK/again.log" 2>&1 || die "make again"
! grep -qE '(CC|CCLD|AR) ' "$WORK/again.log" || die "it is made again: times are not kept"
if [ -x binutils/readelf ]; then ./binutils/readelf -h binutils/readelf >/dev/null || die "what was built does not run"; fi
cd /
rm -rf "$MNT/build" && mkdir "$MNT/build"
given_back() { [ "$(free_units)" -ge $((free - 2048)) ]; }  # but a few blocks of 512 units that the journal or a checkpoint may have taken
within 20 given_back || die "removing the build gives nothing back: $free units before, $(free_units) after"
unmount_brickfs
[ "$kind" = memory ] || check_volume
