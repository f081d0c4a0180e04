#!/usr/bin/env bash
# What a user sees when something is wrong: one clear line, soon, and nothing breaks.
. "$(dirname "$0")/lib.sh"

# refused SECONDS EXIT PATTERN COMMAND...: fails with EXIT within SECONDS, with one line on standard error that matches
# (what a daemon logs about its start apart).
refused() {
  local seconds=$1 exit=$2 pattern=$3 status=0 began; shift 3
  began=$(now_ms)
  case $1 in
    as_another_host) shift; as_another_host timeout 30 "$@" ;;
    *) timeout 30 "$@" ;;
  esac >"$WORK/out" 2>"$WORK/log" </dev/null || status=$?
  grep -v ': info: ' "$WORK/log" >"$WORK/err" || true
  local took=$(($(now_ms) - began))
  [ "$status" = "$exit" ] || die "$*: exit $status instead of $exit: $(head -n 3 "$WORK/err")"
  [ "$(wc -l <"$WORK/err")" = 1 ] || die "$*: not one line: $(cat "$WORK/err")"
  grep -qiE "$pattern" "$WORK/err" || die "$*: says: $(cat "$WORK/err")"
  [ "$took" -le $((seconds * 1000)) ] || die "$*: took $took ms"
  say "$(cat "$WORK/err")"
}

say "sources and mountpoints"
refused 5 2 'source' "$BRICKFS" nonsense "$MNT"
refused 5 2 'source' "$BRICKFS" ftp://host/default "$MNT"
refused 5 2 '' "$BRICKFS" memory:12Q "$MNT"
refused 5 2 'option' "$BRICKFS" memory:64M "$MNT" -o wrong_option
refused 5 1 'mountpoint|no such' "$BRICKFS" memory:64M "$WORK/missing"
touch "$WORK/file"
refused 5 1 'mountpoint|not a directory' "$BRICKFS" memory:64M "$WORK/file"
refused 5 1 'refused' "$BRICKFS" tcp://127.0.0.1:9/default "$MNT"
refused 5 1 'durable' "$BRICKFS" memory:64M "$MNT" -o durable
refused 5 1 'no such|not exist|directory' "$BRICKFS" "file:$WORK/no/such/dir,64M" "$MNT"
# An address that takes the connection and stays silent.
python3 - "$WORK/silent-port" <<'P' &
import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(8)
open(sys.argv[1] + ".new", "w").write(str(s.getsockname()[1]))
import os; os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(60)
P
BACKGROUND_PIDS+=($!)
within 5 test -s "$WORK/silent-port"
refused 5 1 'time|answer|silent' "$BRICKFS" "tcp://127.0.0.1:$(cat "$WORK/silent-port")/default" "$MNT"

say "brickd"
refused 5 2 '' "$BRICKD" --memory wrong --foreground
refused 5 1 '' "$BRICKD" --memory 64M --file "$WORK/no/such/store" --size 64M --foreground --listen tcp://127.0.0.1:0
head -c 5000000 /dev/urandom | tee "$WORK/foreign.copy" >"$WORK/foreign"
refused 5 1 '' "$BRICKD" --file "$WORK/foreign" --size 64M --foreground --listen tcp://127.0.0.1:0
cmp "$WORK/foreign" "$WORK/foreign.copy" || die "a foreign file was touched"

start_brickd --memory 256M --file "$WORK/store" --size 256M --volume other:32M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
refused 5 1 '' "$BRICKD" --file "$WORK/store" --foreground --listen tcp://127.0.0.1:0
refused 5 1 'in use|address' "$BRICKD" --memory 64M --foreground --listen "tcp://127.0.0.1:$BRICKD_PORT"
refused 5 1 'volume|no such' "$BRICKFS" "tcp://127.0.0.1:$BRICKD_PORT/nosuch" "$MNT"

say "a volume held by another"
mount_brickfs
echo mine >"$MNT/file"
mkdir "$WORK/mnt2"
refused 8 1 'held by .*since' as_another_host "$BRICKFS" "$SOURCE" "$WORK/mnt2"
refused 15 1 'held|busy' "$BRICKCTL" alloc "$SOURCE" 0x40000000 1
refused 5 1 'mounted|busy' "$BRICKFS" memory:64M "$MNT"
cat "$MNT/file" >/dev/null || die "the mount suffered"

say "steal: the former holder's operations fail, the new one's go on"
mkdir "$MNT/known" && echo deep >"$MNT/known/deep" && ln -s known/deep "$MNT/link"
exec 6<"$MNT/known/deep"
[ ! -e "$MNT/missing" ] && [ ! -e "$MNT/known/missing" ] || die "there is what was not made"
for i in 1 2; do ls -lR "$MNT" >/dev/null; cat "$MNT/file" "$MNT/link" <&6 >/dev/null; done  # so the kernel has it
sleep 1  # the journal has come to rest: the former holder meets with the loss by a read, and nowhere else
"$BRICKFS" "$SOURCE" "$WORK/mnt2" -o steal 6<&-
cannot_read() { ! timeout 20 dd if="$MNT/file" of=/dev/null iflag=direct status=none; }
within 20 cannot_read || die "the former holder can still read"
sleep 2.5
# stale COMMAND...: nothing that the kernel or brickfs remembers is told.
stale() {
  if timeout 20 "$@" >"$WORK/out" 2>"$WORK/err"; then die "after the loss of the volume: $*: $(cat "$WORK/out")"; fi
  [ ! -s "$WORK/out" ] && grep -q 'Stale file handle' "$WORK/err" || die "$*: $(cat "$WORK/out" "$WORK/err")"
}
stale cat "$MNT/file"
stale cat "$MNT/known/deep"
stale ls "$MNT"
stale ls "$MNT/known"
stale stat "$MNT/known/deep"
stale readlink -v "$MNT/link"
stale stat "$MNT/missing"
stale stat "$MNT/known/missing"
stale dd if=/dev/stdin status=none <&6
exec 6<&-
timeout 20 stat -f "$MNT" >/dev/null && timeout 20 stat "$MNT" >/dev/null || die "the lost mount itself cannot be looked at"
getfattr --only-values -n brickfs.link "$MNT" | grep '^failed: .*taken over' >/dev/null || die "the lost mount does not say so"
if timeout 20 mkdir "$MNT/directory" 2>/dev/null; then die "the former holder can still make directories"; fi
[ "$(cat "$WORK/mnt2/file")" = mine ] || die "the new holder does not see the file"
echo theirs >"$WORK/mnt2/file"
if timeout 20 sh -c "echo more >'$MNT/another' && sync '$MNT/another'" 2>/dev/null; then die "the former holder can still write"; fi
[ "$(cat "$WORK/mnt2/file")" = theirs ] || die "the former holder did harm"
timeout 20 umount "$MNT" || die "the fenced mount cannot be unmounted"
unmount_brickfs "$WORK/mnt2"
check_volume

say "random bytes to the port"
mount_brickfs
for i in $(seq 1 60); do
  head -c $((i * 97)) /dev/urandom >"/dev/tcp/127.0.0.1/$BRICKD_PORT" 2>/dev/null || true
done
echo alive >"$MNT/alive" && [ "$(cat "$MNT/alive")" = alive ] || die "the mount suffered from random bytes"
kill -0 "$BRICKD_PID" || die "brickd died of random bytes"
unmount_brickfs
check_volume

say "blocks but no brickfs"
other=tcp://127.0.0.1:$BRICKD_PORT/other
"$BRICKCTL" alloc "$other" 0x400000 2
refused 5 1 'no brickfs|not a brickfs|superblock' "$BRICKFS" "$other" "$MNT"
[ "$("$BRICKCTL" list "$other")" = "$((0x400000)) 2" ] || die "list says: $("$BRICKCTL" list "$other")"
"$BRICKCTL" free "$other" 0x400000 2
refused 5 1 '' "$BRICKCTL" free "$other" 0x400000 2
refused 5 1 '' "$BRICKCTL" alloc "$other" 0 17
refused 5 2 "" "$BRICKCTL" alloc "$other" 12345 1
kill_brickd TERM
