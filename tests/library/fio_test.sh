#!/usr/bin/env bash
# fio's engine for libbrickfs (tools/bench/fio_engine): built against the installed fio's source package, it writes, and finds again what it
# wrote, and only that.   fio_test.sh
. "$(dirname "$0")/../mount/lib.sh"
engine=$("$TESTS/../tools/bench/fio_engine" "$BUILD") || die "the engine is not built"
start_brick tcp 512M

job() {  # WAY OPTION...
  local way=$1; shift
  timeout 120 fio --name=job --ioengine="external:$engine" --source="${FROM:-$SOURCE}" --way="$way" --size=16M --bs=4k --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
    --output="$WORK/fio.log" "$@" 2>>"$WORK/fio.log"
}
FROM=
for way in blocks files ring; do
  [ "$way" != files ] || { kill_brickd; rm -f "$WORK/store"; restart_brickd; }  # a volume has blocks of a program, or files
  [ "$way" != ring ] || { mount_brickfs ring=on; FROM=$MNT; }
  for depth in 1 16; do
    say "$way, $depth deep: two jobs write at random, sync, and verify"
    job "$way" --rw=randwrite --iodepth="$depth" --numjobs=2 --fsync=500 || die "$way, $depth deep"
    grep -q 'err= 0' "$WORK/fio.log" || die "fio says nothing of errors"
  done
  say "$way: what another run wrote is there, unless it was changed"
  job "$way" --rw=write --do_verify=0 || die "$way: writing"
  job "$way" --rw=read --bsrange=4k-4k || die "$way: what was written is not there"
  job "$way" --rw=write --offset=8M --size=64k --verify=0 --refill_buffers || die "$way: changing"
  job "$way" --rw=read 2>/dev/null && die "$way: a changed page passes for what was written"
done
unmount_brickfs
FROM=
say "the files are those of a mount"
"$BRICKCTL" check "$SOURCE" >"$WORK/check.log" 2>&1 || die "brickctl check finds damage"
mount_brickfs
[ "$(stat -c %s "$MNT"/job.* | sort -u)" = 16777216 ] || die "files: $(ls -l "$MNT")"
unmount_brickfs
say "what cannot be had is said in a line"
job blocks --rw=read 2>/dev/null && die "a volume with files passes for one of blocks"
job files --rw=read --source=tcp://127.0.0.1:1/none && die "no brick, and no error"
grep -q 'brickfs: tcp://127.0.0.1:1/none: Connection refused' "$WORK/fio.log" || die "not said: $(cat "$WORK/fio.log")"
