#!/usr/bin/env bash
# shellcheck disable=SC2015  # A && B || die: die does not return
# The guest itself: it hands out status and output, writes to nothing but its shares, notices its kernel's complaints, ends in
# time, and leaves nothing behind.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
guest=$here/guest
work=$(mktemp -d "${TMPDIR:-/tmp}/brickfs-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work/tmp
mkdir "$TMPDIR" "$work/share"
die() { printf 'FAILED: %s\n' "$*" >&2; cat "$work"/out "$work"/err >&2; exit 1; }
ends() {  # STATUS OPTIONS... -- COMMAND...
  local expected=$1 status=0; shift
  "$guest" "$@" >"$work/out" 2>"$work/err" || status=$?
  [ "$status" = "$expected" ] || die "exit $status instead of $expected: guest $*"
  [ -z "$(ls "$TMPDIR")" ] || die "left behind: $(ls "$TMPDIR")"
}

# The single quotes are right: the guest is to expand what is in them.
# shellcheck disable=SC2016
ends 7 --devices 2 --share "$work/share" --env "GREETING=good day" --memory 1024 -- bash -c '
  ibv_devinfo -d rxe0 >/dev/null && ibv_devinfo -d rxe1 >/dev/null || exit 1
  [ "$BRICKFS_RDMA_ADDRESSES" = 10.77.0.1,10.77.1.1 ] || exit 2
  (timeout 20 rping -s -a 10.77.1.1 -C 2 & sleep 1; timeout 20 rping -c -a 10.77.1.1 -C 2; wait) >/dev/null 2>&1 || exit 3
  [ "$(awk "/HugePages_Total/ { print \$2 }" /proc/meminfo)" = 64 ] || exit 4
  echo changed >"$1/unseen" && echo "$GREETING" >"$1/share/seen" || exit 5
  echo said; echo complained >&2
  exit 7' bash "$work"
[ "$(cat "$work/out")" = said ] && [ "$(cat "$work/err")" = complained ] || die "its output is not what it wrote"
[ "$(cat "$work/share/seen")" = "good day" ] && [ ! -e "$work/unseen" ] || die "it writes elsewhere than into its share"

ends 126 --memory 512 -- sh -c 'echo "<4>WARNING: CPU: 0 PID: 1 at nowhere" >/dev/kmsg'
grep -q 'WARNING: CPU: 0' "$work/err" || die "a kernel warning is not shown"
ends 126 --memory 512 -- sh -c 'echo c >/proc/sysrq-trigger; sleep 60'
grep -q 'Kernel panic' "$work/err" || die "a panic is not shown"

# Stopped from outside, politely and not: the emulator goes, too.
emulator_of() { pgrep -f "qemu-system-x86_64.*$TMPDIR/" >/dev/null; }
for signal in TERM KILL; do
  "$guest" --memory 512 --share "$work/share" -- sh -c "touch '$work/share/$signal'; sleep 300" >/dev/null 2>&1 &
  pid=$!
  for ((i = 0; i < 600; i++)); do [ ! -e "$work/share/$signal" ] || break; sleep 0.1; done
  emulator_of || die "no emulator runs"
  kill "-$signal" "$pid"
  wait "$pid" 2>/dev/null || true
  for ((i = 0; i < 100; i++)); do emulator_of || break; sleep 0.1; done
  ! emulator_of || die "the emulator outlives SIG$signal"
done
rm -rf "${TMPDIR:?}"/*  # a script killed outright cannot clear away its scratch
ends 124 --memory 512 --timeout 15 -- sleep 300
