#!/usr/bin/env bash
# TLS on TCP, on a network of its own: what a packet capture shows of mounts, a set and a shared volume, bytes that are changed on their way, and what is refused in one line.
[ -n "${IN_NETWORK:-}" ] || IN_NETWORK=1 exec unshare --net "$0" "$@"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/shared_lib.sh"
ip link set lo up
WIRE=$TESTS/mount/tls_wire.py
secret() { install -m 600 /dev/stdin "$WORK/$1" <<<"$2"; }  # NAME LINE
secret secret 'known to all machines of the test'
secret other 'what somebody guesses'

capture() {  # NAME
  python3 "$WIRE" capture "$WORK/$1.capture" >"$WORK/$1.listens" 2>&1 &
  CAPTURE=$!
  BACKGROUND_PIDS+=("$CAPTURE")
  within 60 grep -q listens "$WORK/$1.listens" || die "no packets can be captured: $(cat "$WORK/$1.listens")"
}
end_capture() { sleep 0.3; kill "$CAPTURE"; wait "$CAPTURE" || true; }
# shows NAME WORD...: the capture has each.  hides NAME WORD...: none.
shows() { local name=$1 word; shift; for word; do grep -qaF -- "$word" "$WORK/$name.capture" || die "$name: the capture does not show $word: it cannot tell"; done; }
hides() { local name=$1 word; shift; for word; do ! grep -qaF -- "$word" "$WORK/$name.capture" || die "$name: the capture shows $word"; done; }
# refused PATTERN COMMAND...: fails with one line that matches.
refused() {
  local pattern=$1 status=0; shift
  timeout 60 "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || status=$?
  [ "$status" != 0 ] && [ "$status" != 124 ] || die "$*: exit $status"
  [ "$(wc -l <"$WORK/err")" = 1 ] && grep -qE "$pattern" "$WORK/err" || die "$*: says: $(cat "$WORK/err")"
  say "$(cat "$WORK/err")"
}
work() {  # DIR WORD
  echo "$2-the-content of it" >"$1/$2-the-name"
  head -c 3000000 /dev/zero | tr '\0' 'x' | sed "s/^/$2-large/" >"$1/$2-large"
  sync "$1/$2-the-name" "$1/$2-large"
}

say "in the clear, and encrypted: one mount"
start_brickd --memory 256M --file "$WORK/store" --size 512M --volume a-volume-of-that-name --secret-file "$WORK/secret"
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/a-volume-of-that-name
for tls in off on require; do
  capture "mount-$tls"
  mount_brickfs "secret=$WORK/secret,tls=$tls"
  work "$MNT" word
  told=$("$BRICKCTL" explain "$MNT" | head -n 1)
  case $tls:$told in off:*'(tcp)'* | on:*'(tcp (TLS 1.3))'* | require:*'(tcp (TLS 1.3))'*) ;; *) die "explain does not tell: $told" ;; esac
  unmount_brickfs
  mount_brickfs "secret=$WORK/secret,tls=$tls"
  grep -qF 'word-the-content' "$MNT/word-the-name" || die "$tls: it is not there"
  unmount_brickfs
  "$BRICKCTL" status "$SOURCE" --secret-file "$WORK/secret" --tls "$tls" | grep -qE "^transport: +tcp$([ "$tls" = off ] || echo ' \(TLS 1.3\)')$" || die "status does not tell"
  end_capture
  [ "$(stat -c %s "$WORK/mount-$tls.capture")" -gt 3000000 ] || die "$tls: it passed elsewhere"
  if [ "$tls" = off ]; then is=shows; else is=hides; fi
  $is "mount-$tls" word-the-name word-the-content word-large a-volume-of-that-name
  ! strings -n 12 "$WORK/mount-$tls.capture" | grep -qF 'known to all machines' || die "$tls: the secret passes"
done
! grep -q 'not encrypted' "$WORK/brickfs.log" || die "a line says that it is not encrypted: $(grep 'not encrypted' "$WORK/brickfs.log")"

say "bytes that are changed on their way"
python3 "$WIRE" relay "$BRICKD_PORT" "$WORK/relay.port" "$WORK/alter" >"$WORK/relay.log" 2>&1 &
BACKGROUND_PIDS+=($!)
within 60 test -s "$WORK/relay.port" || die "no relay: $(cat "$WORK/relay.log")"
DIRECT=$SOURCE
SOURCE=tcp://127.0.0.1:$(cat "$WORK/relay.port")/a-volume-of-that-name
mount_brickfs "secret=$WORK/secret,tls=require"
head -c 60000000 /dev/urandom >"$WORK/bytes"
for round in 1 2 3 4 5; do
  echo 1 >"$WORK/alter"
  timeout 120 cp "$WORK/bytes" "$MNT/bytes" || die "round $round: an operation fails"
  timeout 120 sync "$MNT/bytes" || die "round $round: a sync fails"
  echo 1 >"$WORK/alter"
  timeout 120 cmp "$WORK/bytes" "$MNT/bytes" || die "round $round: bytes differ"
  echo 3 >/proc/sys/vm/drop_caches
  timeout 120 cmp "$WORK/bytes" "$MNT/bytes" || die "round $round: bytes differ when they are read again"
done
unmount_brickfs
altered=$(grep -c altered "$WORK/relay.log")
cut=$(grep -c 'brick unreachable' "$WORK/brickfs.log" || true)
say "$altered bytes were changed; the mount connected again $cut times"
[ "$altered" -ge 5 ] && [ "$cut" -ge 5 ] || die "that was not what was to be tried"
SOURCE=$DIRECT
"$BRICKCTL" check "$SOURCE" --secret-file "$WORK/secret" >"$WORK/check.log" || die "damage: $(cat "$WORK/check.log")"
kill_brickd TERM

say "what is refused, in one line"
mount_fails() { refused "$1" "$BRICKFS" "$SOURCE" "$MNT" -o "$2"; }  # PATTERN OPTIONS
BRICKD_ARGS+=(--tls require)
restart_brickd
mount_fails 'what is not encrypted is refused there: tls=on' "secret=$WORK/secret"
mount_fails 'what is not encrypted is refused there: tls=on' noatime
mount_fails 'refuses the secret' "secret=$WORK/other,tls=on"
refused 'what is not encrypted is refused there' "$BRICKCTL" status "$SOURCE" --secret-file "$WORK/secret" --tls off
refused 'what is not encrypted is refused there' "$BRICKCTL" status "$SOURCE"
grep -q 'it does not ask for TLS' "$WORK/brickd.log" || die "brickd's log does not tell"
mount_fails 'tls=require: only with secret=PATH' tls=require
mount_fails 'tls=on: only with secret=PATH' tls=on
mount_fails 'tls=maybe: it is off, on or require' "secret=$WORK/secret,tls=maybe"
refused 'tls=require: data over rdma:// is not encrypted: use tcp://' "$BRICKFS" rdma://127.0.0.1/home "$MNT" -o "secret=$WORK/secret,tls=require"
refused 'tls=require: data over fabric:// is not encrypted: use tcp://' "$BRICKCTL" status fabric://127.0.0.1/home --secret-file "$WORK/secret" --tls require
refused 'goes with --secret-file' "$BRICKD" --foreground --memory 16M --tls require
refused 'is not encrypted: listen at tcp:// alone' "$BRICKD" --foreground --memory 16M --secret-file "$WORK/secret" --tls require --listen rdma://127.0.0.1
kill_brickd TERM
BRICKD_ARGS[${#BRICKD_ARGS[@]}-1]=off
restart_brickd
mount_fails 'nothing is encrypted there, as tls=require asks for: brickd --tls on' "secret=$WORK/secret,tls=require"
mount_brickfs "secret=$WORK/secret,tls=on"
grep -q 'does not do TLS: what is said there is not encrypted' "$WORK/brickfs.log" || die "what is not encrypted is not told"
unmount_brickfs
kill_brickd TERM

say "a set of two bricks"
BRICKD_PORT=0; start_brickd --memory 128M --file "$WORK/second" --size 128M --secret-file "$WORK/secret" --tls require
second=$BRICKD_PORT second_pid=$BRICKD_PID
BACKGROUND_PIDS+=("$second_pid")
BRICKD_PORT=0; start_brickd --memory 128M --file "$WORK/first" --size 128M --secret-file "$WORK/secret" --tls require
SOURCE=tcp://127.0.0.1:$BRICKD_PORT+127.0.0.1:$second/default
capture set
mount_brickfs "secret=$WORK/secret,tls=require"
work "$MNT" striped
unmount_brickfs
end_capture
hides set striped-the-name striped-the-content striped-large
[ "$(stat -c %s "$WORK/set.capture")" -gt 3000000 ] || die "it passed elsewhere"

kill "$second_pid"; wait "$second_pid" || true
kill_brickd TERM

say "a shared volume: machines that encrypt, and one that does not, which the brick lets in"
BRICKD_PORT=0; start_shared_brick 512M
capture shared
join_machine a tls=require
join_machine b tls=require
work "$WORK/a" shared
grep -qF shared-the-content "$WORK/b/shared-the-name" || die "b does not see it"
work "$WORK/b" member
grep -qF member-the-content "$WORK/a/member-the-name" || die "a does not see it"
refused 'the coordinator at .*: what is not encrypted is refused there: tls=on' "$BRICKFS" "$SOURCE" "$MNT" -o "shared,secret=$SHARED_SECRET"
kill -9 "$(machine_pid a)"
umount -l "$WORK/a" || true
timeout 60 sh -c "echo more >'$WORK/b/member-the-second-name'" || die "b does not take the place"
leave_machine b
end_capture
hides shared shared-the-name shared-the-content member-the-name member-the-content member-the-second-name shared-large member-large
capture shared-off
kill_brickd TERM
BRICKD_PORT=0; start_shared_brick 512M
join_machine a
join_machine b
work "$WORK/b" clear
leave_machine b
leave_machine a
end_capture
shows shared-off clear-the-name clear-the-content
