#!/usr/bin/env bash
# Keys of volumes: brickctl volume key, mounts by keys that write and that only read, another tenant, key files that others may read, keys that change under load, and that a key is found nowhere.
#   volume_keys_test.sh [SECONDS]     keys change each second for so long (10)
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/memory_lib.sh"
seconds=${1:-10}

secret() { printf '%s\n' "$2" >"$WORK/$1"; chmod 600 "$WORK/$1"; }  # NAME LINE
key() { local action=$1; shift; timeout 60 "$BRICKCTL" volume key "$action" "$BRICK" "$@" --admin-secret-file "$WORK/admin" 2>"$WORK/err" || die "volume key $action $*: $(cat "$WORK/err")"; }
# refused PATTERN COMMAND...: fails with one line that matches.
refused() {
  local pattern=$1 status=0; shift
  timeout 30 "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || status=$?
  [ "$status" != 0 ] && [ "$status" != 124 ] || die "$*: exit $status"
  grep -qE "$pattern" "$WORK/err" || die "$*: says: $(cat "$WORK/err")"
  say "$(grep -E "$pattern" "$WORK/err" | head -n 1)"
}
status() { timeout 30 "$BRICKCTL" status "$1" --secret-file "$WORK/$2" "${@:3}"; }

secret clients "the brick's own line of secrets"
secret admin "the administrator's line"
start_brickd --memory 256M --file "$WORK/store" --size 512M --volume home --volume others --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"
BRICK=tcp://127.0.0.1:$BRICKD_PORT
SOURCE=$BRICK/home

say "a key is made, and opens its volume alone"
writer=$(key add home --key-file "$WORK/writer")
[ "$(stat -c %a "$WORK/writer")" = 600 ] || die "the key's file has mode $(stat -c %a "$WORK/writer")"
key add home --read-only --key-file "$WORK/reader" >/dev/null
key add others --key-file "$WORK/other" >/dev/null
key list home | grep -qE "^$writer +rw +0 " || die "the key is not listed: $(key list home)"
key list home --json | python3 -c 'import json, re, sys
answer, document = json.load(sys.stdin), open(sys.argv[1]).read()
fields = re.findall(r"^\| `(\w+)` \|", document.split("\n## keys of a volume\n")[1].split("\n## ")[0], re.M)
assert list(answer) == fields[:2] and all(list(key) == fields[2:] for key in answer["keys"]), f"{answer}, documented: {fields}"
assert [key["rights"] for key in answer["keys"]] == ["rw", "ro"], answer' "$TESTS/../docs/json.md" || die "as JSON"
mount_brickfs "durable,secret=$WORK/writer"
echo something >"$MNT/file" && sync "$MNT/file"
key list home | grep -qE "^$writer +rw +1 " || die "its session is not counted: $(key list home)"

say "another tenant, and the brick's own secret, see and take nothing"
for one in other clients; do
  refused 'the secret is wrong or missing' "$BRICKCTL" status "$SOURCE" --secret-file "$WORK/$one"
  refused 'the secret is wrong or missing' "$BRICKCTL" bench "$SOURCE" --secret-file "$WORK/$one" --steal --seconds 0.1
done
refused "administrator's secret is wrong" "$BRICKCTL" volume list "$BRICK" --admin-secret-file "$WORK/writer"
status "$SOURCE" writer | grep -qE '^sessions: +2$' || die "a tenant sees others: $(status "$SOURCE" writer)"
if status "$SOURCE" writer | grep -q "$WORK/store"; then die "a tenant is told the store's path"; fi

say "a key's file that others may read"
chmod 640 "$WORK/reader"; chown 1:1 "$WORK/reader"
refused 'belongs to another user|is open to others' "$BRICKCTL" status "$SOURCE" --secret-file "$WORK/reader"
chown 0:0 "$WORK/reader"; chmod 644 "$WORK/reader"
refused 'is open to others' "$BRICKCTL" status "$SOURCE" --secret-file "$WORK/reader"
chmod 600 "$WORK/reader"
secret short tiny
refused 'has 16 to 32 characters' "$BRICKCTL" volume key add "$BRICK" home --key-file "$WORK/short" --admin-secret-file "$WORK/admin"
refused 'has that key already' "$BRICKCTL" volume key add "$BRICK" home --key-file "$WORK/writer" --admin-secret-file "$WORK/admin"
refused 'has no key 0123456789abcdef' "$BRICKCTL" volume key remove "$BRICK" home 0123456789abcdef --admin-secret-file "$WORK/admin"
refused 'has no volume none' "$BRICKCTL" volume key add "$BRICK" none --key-file "$WORK/unmade" --admin-secret-file "$WORK/admin"
[ ! -e "$WORK/unmade" ] || die "a key that was refused has left its file"

say "keys change each second under load, for $seconds s"
( set +e; trap 'exit 0' TERM
  for ((i = 0; ; ++i)); do
    printf '%s\n' "$i" >"$MNT/count" && sync "$MNT/count" && head -c 256K /dev/zero >"$MNT/bulk" && cat "$MNT/count" >/dev/null || { echo "operation $i failed" >>"$WORK/failures"; exit 1; }
    echo "$i" >"$WORK/done"
  done ) &
load=$!
BACKGROUND_PIDS+=("$load")
former=$writer
for ((i = 0; i < seconds; ++i)); do
  rm -f "$WORK/next"
  next=$(key add home --key-file "$WORK/next")
  mv "$WORK/next" "$WORK/writer"
  key remove home "$former"
  former=$next
  sleep 1
done
done_before=$(cat "$WORK/done")
more_is_done() { [ "$(cat "$WORK/done")" -gt $((done_before + 1)) ]; }
within 30 more_is_done || die "nothing is written any more: $(tail -n 2 "$WORK/brickfs.log")"
kill "$load"; wait "$load" || true
[ ! -s "$WORK/failures" ] || die "$(cat "$WORK/failures")"
say "$(cat "$WORK/done") rounds, no operation failed"

say "they are there after a kill"
kill_brickd
restart_brickd
echo more >"$MNT/file" && sync "$MNT/file" || die "the mount does not go on"

say "a key is in no log, command line, core dump"
for file in writer reader other; do
  for log in brickd.log brickfs.log; do if grep -qF "$(cat "$WORK/$file")" "$WORK/$log"; then die "$log has a key"; fi; done
done
kept_out brickd "$BRICKD_PID" "$WORK/writer" "$WORK/reader" "$WORK/other"
kept_out brickfs "$(brickfs_pid)" "$WORK/writer"

say "a key that only reads"
if as_another_host timeout 30 "$BRICKFS" "$SOURCE" "$MNT" -f -o "ro,steal,retry=0,secret=$WORK/reader" </dev/null 2>"$WORK/err"; then die "it reads beside who writes"; fi
grep -q 'is held by' "$WORK/err" || die "it is not said who writes: $(cat "$WORK/err")"
echo more >"$MNT/file" && sync "$MNT/file" || die "a key that only reads has cut off who writes"
unmount_brickfs
refused 'for reading only' "$BRICKFS" "$SOURCE" "$MNT" -f -o "retry=0,secret=$WORK/reader"
mount_brickfs "ro,secret=$WORK/reader"
[ "$(cat "$MNT/file")" = more ] || die "it reads: $(cat "$MNT/file")"
if echo no 2>/dev/null >"$MNT/file"; then die "it writes"; fi
unmount_brickfs

say "a shared volume: its coordinator and its members have one key, which changes under them"
BRICKFS_SHARED=member
mount_brickfs "secret=$WORK/writer"
echo one >"$MNT/shared" && sync "$MNT/shared"
[ "$(cat "$WORK/coordinator/shared")" = one ] || die "the coordinator does not see what a member writes"
next=$(key add home --key-file "$WORK/next")
mv "$WORK/next" "$WORK/writer"
key remove home "$former"
former=$next
head -c 8M /dev/urandom >"$MNT/large" && sync "$MNT/large" || die "a member does not go on behind a change of the key"
cmp "$MNT/large" "$WORK/coordinator/large" || die "the coordinator sees other bytes"
echo two >"$WORK/coordinator/shared" && [ "$(cat "$MNT/shared")" = two ] || die "the member does not see what the coordinator writes"
unmount_brickfs
unset BRICKFS_SHARED

say "a set: each of its bricks has the key"
"$BRICKD" --listen tcp://127.0.0.1:0 --port-file "$WORK/port2" --foreground --memory 128M --file "$WORK/store2" --size 256M --volume pair \
  --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin" 2>>"$WORK/brickd2.log" &
OTHER_PIDS+=($!)
within 60 test -s "$WORK/port2" || die "the second brickd does not start"
volume_of_pair() { timeout 60 "$BRICKCTL" volume create "$BRICK" pair --admin-secret-file "$WORK/admin"; }
volume_of_pair || die "no volume for the set"
key add pair --key-file "$WORK/pair" >/dev/null
BRICK=tcp://127.0.0.1:$(cat "$WORK/port2") key add pair --key-file "$WORK/pair" >/dev/null
HOME_SOURCE=$SOURCE
SOURCE=tcp://127.0.0.1:$BRICKD_PORT+127.0.0.1:$(cat "$WORK/port2")/pair
refused 'refuses the secret' "$BRICKFS" "$SOURCE" "$MNT" -f -o "retry=0,secret=$WORK/clients"
mount_brickfs "secret=$WORK/pair"
head -c 8M /dev/urandom >"$MNT/file" && sync "$MNT/file"
unmount_brickfs
SOURCE=$HOME_SOURCE
timeout 300 "$BRICKCTL" check "$SOURCE" --secret-file "$WORK/writer" >/dev/null || die "damage"
