#!/usr/bin/env bash
# What a brick's page knows of replicated sets (brickd --http --etcd): those with a copy on it, as their maps in etcd say, and nothing waits for etcd.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/memory_lib.sh"
BRICK_SIZE=128M
start_etcd only
etcd=127.0.0.1:$ETCD_PORT
SOURCE=etcd://$etcd/home

declare -A PAGE
with_page() {  # NAME [BRICKD OPTION]...
  start_brick_of_set "$@" --volume home --volume home.2 --http 127.0.0.1:0 --etcd "$etcd"
  PAGE[$1]=http://127.0.0.1:$(tail -n 1 "$WORK/$1.port")/status.json
}
# shows NAME EXPRESSION: of `sets` (the whole) and `home` (that set, or none), in Python.
shows() {
  timeout 5 python3 - "${PAGE[$1]}" "$2" >"$WORK/shown" 2>&1 <<'PYTHON'
import json, sys, time, urllib.request
began = time.monotonic()
sets = json.load(urllib.request.urlopen(sys.argv[1], timeout=5))["replicated"]
took = time.monotonic() - began
home = next((one for one in sets["sets"] if one["name"] == "home"), None) if sets else None
states = {(copy["place"], copy["here"]): copy["state"] for copy in home["copies"]} if home else {}
print(json.dumps(sets, indent=1))
sys.exit(took > 1 or not eval(sys.argv[2]))
PYTHON
}
soon_shows() { within 20 shows "$1" "$2" || die "$1 does not show $2: $(cat "$WORK/shown")"; }
ends() { kill -TERM "${BRICK_PID[$1]}" && wait "${BRICK_PID[$1]}"; }  # NAME

say "without --etcd, and without sets"
start_brick_of_set plain --http 127.0.0.1:0
PAGE[plain]=http://127.0.0.1:$(tail -n 1 "$WORK/plain.port")/status.json
soon_shows plain 'sets is None'
for name in a b c; do with_page $name; done
soon_shows a 'sets["at"] > 0 and sets["sets"] == [] and not sets["trouble"]'

say "a set on bricks a and b"
exits 0 set create "$SOURCE" --replicas 2 "$(brick a)" "$(brick b)"
soon_shows a 'home and not home["degraded"] and home["copies_wanted"] == 2 and states == {(0, True): "in sync", (0, False): "in sync"}'
soon_shows b 'home and [copy["here"] for copy in home["copies"]].count(True) == 1'
soon_shows c 'sets["at"] > 0 and sets["sets"] == []'  # it has a volume of that name, and no part in the set
mount_brickfs
head -c 60M /dev/urandom >"$MNT/file"
soon_shows a 'home["holder"] and not home["holder"]["let_go"]'

say "a copy is left out, and brought up to date"
kill_brick_of_set b
soon_shows a 'home["degraded"] and states == {(0, True): "in sync", (0, False): "stale"}'
with_page b
soon_shows b 'home and states.get((0, True)) in ("stale", "syncing", "in sync")'  # by its address: it has restarted
exits 0 set status "$SOURCE" --wait
soon_shows a 'states == {(0, True): "in sync", (0, False): "in sync"}'
umount "$MNT"
soon_shows a 'home["holder"]["let_go"]'

say "etcd's password is in no core dump of a brick; changed under it, it reads the file again"
secret password "$(head -c 24 /dev/urandom | base64 -w 0)"
with_etcd() { etcdctl --endpoints "$etcd" --user root:root "$@" >/dev/null; }
for command in "user add root:root" "user grant-role root root" "role add reader" "role grant-permission reader readwrite --prefix=true /brickfs/" \
  "user add page:$(cat "$WORK/password")" "user grant-role page reader" "auth enable"; do etcdctl --endpoints "$etcd" $command >/dev/null || die "etcd: $command"; done
start_brick_of_set known --http 127.0.0.1:0 --etcd "$etcd" --etcd-user page --etcd-password-file "$WORK/password"
PAGE[known]=http://127.0.0.1:$(tail -n 1 "$WORK/known.port")/status.json
soon_shows known 'sets["at"] > 0 and not sets["trouble"]'
printf '%s' "$(cat "$WORK/password")" >"$WORK/password.bytes"  # without the line's end
kept_out "brickd" "${BRICK_PID[known]}" "$WORK/password.bytes"
printf 'open\n' | with_etcd user passwd page --interactive=false
soon_shows known '"wrong user or password" in sets["trouble"]'
secret password open
soon_shows known 'not sets["trouble"]'
ends known || die "brickd does not end"
with_etcd auth disable

say "etcd stops: the page says so, at once, and goes on; brickd's end does not wait for it"
kill -STOP "${ETCD_PID[only]}"
soon_shows a '"no answer" in sets["trouble"] and sets["at"] > 0 and home'
shows a 'True'  # asks again
sleep 2.1  # the next question is under way, for 3 s
within_seconds 2 ends a
kill -CONT "${ETCD_PID[only]}"
soon_shows b 'not sets["trouble"] and home'

say "what is no map concerns its own set only"
timeout 5 etcdctl --endpoints "$etcd" put /brickfs/names/home.2 nonsense >/dev/null
soon_shows b '"/brickfs/names/home.2" in sets["trouble"] and home'
timeout 5 etcdctl --endpoints "$etcd" del /brickfs/names/home.2 >/dev/null
soon_shows b 'not sets["trouble"] and home'
kill_etcd only
soon_shows b '"cannot be reached" in sets["trouble"] and home'

say "wrong options"
wrong() {  # PATTERN OPTION...
  local pattern=$1 status=0; shift
  timeout 10 "$BRICKD" --memory 8M --listen tcp://127.0.0.1:0 --foreground "$@" 2>"$WORK/err" || status=$?
  [ "$status" != 0 ] && grep -qE "$pattern" "$WORK/err" || die "brickd $*: exit $status: $(cat "$WORK/err")"
}
wrong '^brickd: --etcd goes with --http' --etcd "$etcd"
wrong 'options go with --etcd' --http 127.0.0.1:0 --etcd-user me
wrong 'of one etcd' --http 127.0.0.1:0 --etcd "$etcd/home"
wrong '^brickd: --etcd: a user and a password file go together' --http 127.0.0.1:0 --etcd "$etcd" --etcd-user me
wrong '^brickd: --etcd: cannot read /nowhere' --http 127.0.0.1:0 --etcd "$etcd" --etcd-ca /nowhere
