#!/usr/bin/env bash
# A shared volume that is coordinated without a mount: what it serves, how it is asked, what ends it; and its unit.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/shared_lib.sh"
start_shared_brick 1G --http 127.0.0.1:0
coordinate() {  # LOG
  "$BRICKFS" "$SOURCE" none -f -o "shared,secret=$SHARED_SECRET,metrics=127.0.0.1:0" 2>>"$WORK/$1.log" &
  BACKGROUND_PIDS+=("$!")
  within 60 grep 'not mounted here' "$WORK/$1.log" || die "it does not serve: $(tail -n 1 "$WORK/$1.log")"
}
ended() { [ ! -d "/proc/$1" ] || grep '^State:.*Z' "/proc/$1/status" >/dev/null; }
refused() {  # EXIT TEXT OPTIONS
  local code=0
  timeout 30 "$BRICKFS" "$SOURCE" none ${3:+-o "$3"} >"$WORK/said" 2>&1 || code=$?
  [ "$code" = "$1" ] && grep -F -- "$2" "$WORK/said" >/dev/null && [ "$(wc -l <"$WORK/said")" = 1 ] || die "none with ${3:-nothing}: exit $code: $(cat "$WORK/said")"
}

say "what makes no sense without a mount is refused"
refused 2 'only with -o shared' ""
refused 2 'option ro: not with none' shared,ro
for option in ring=on writeback=auto io_uring=on noallow_other nodev noatime max_read=65536 remount; do refused 2 "option $option: not with none" "shared,$option"; done
"$BRICKCTL" explain none >"$WORK/said" 2>&1 && die "there is one"
grep 'no such brickfs here' "$WORK/said" >/dev/null || die "explain none says: $(cat "$WORK/said")"

say "it mounts nothing"
coordinate first
first=${BACKGROUND_PIDS[-1]}
if grep " fuse.brickfs " /proc/self/mounts | grep -F "$SOURCE "; then die "it mounts"; fi

say "a mount without shared is refused, and told what to do"
mkdir "$WORK/alone"
begun=$(now_ms)
"$BRICKFS" "$SOURCE" "$WORK/alone" -o "secret=$SHARED_SECRET" 2>"$WORK/said" && die "mounted"
grep "is shared: .*(pid $first) shares at .*-o shared" "$WORK/said" >/dev/null || die "it says: $(cat "$WORK/said")"
[ "$(($(now_ms) - begun))" -lt 30000 ] || die "it waited for a mount to come"

say "it serves members"
join_machine a; join_machine b ro
grep 'a member of it' "$WORK/a.log" >/dev/null || die "a is no member"
echo kept >"$WORK/a/file"
[ "$(cat "$WORK/b/file")" = kept ] || die "another sees: $(cat "$WORK/b/file")"
if touch "$WORK/b/new" 2>/dev/null; then die "ro,shared changes something"; fi

say "it is asked by its name"
"$BRICKCTL" explain none | grep "^none:$first: $SOURCE .*coordinates 2 member" >/dev/null || die "explain none: $("$BRICKCTL" explain none)"
"$BRICKCTL" explain --json "none:$first" | python3 -c 'import json, sys
told = json.load(sys.stdin)
state = told["state"]
assert told["source"] == state["source"] != "" and told["mountpoint"] == state["mountpoint"], told
assert state["sharing"] == "coordinator" and state["member_count"] == 2 and not state["operations"], state' || die "explain --json"
member=$(machine_pid a)
"$BRICKCTL" explain none | grep "(pid $member): .* call(s)" >/dev/null || die "explain names no member: $("$BRICKCTL" explain none)"
"$BRICKCTL" stats none >"$WORK/stats" || die "stats none"
grep "^none:$first: " "$WORK/stats" >/dev/null && grep '^write  *1 ' "$WORK/stats" >/dev/null && grep "(pid $member)\$" "$WORK/stats" >/dev/null || die "stats none: $(cat "$WORK/stats")"
"$BRICKCTL" stats --json none | python3 -c 'import json, sys
told = json.load(sys.stdin)
assert [c["bytes"] for c in told["calls"] if c["name"] == "write"] == [5], told["calls"]
assert sorted(m["read_only"] for m in told["members"]) == [False, True] and sum(m["bytes"] for m in told["members"]) >= 10, told["members"]' || die "stats --json"
"$BRICKCTL" stats --json "$WORK/a" | python3 -c 'import json, sys
told = json.load(sys.stdin)
assert [c["bytes"] for c in told["calls"] if c["name"] == "write"] == [5] and not told["members"], told' || die "stats of a member"
"$BRICKCTL" stats "$WORK/a" | grep '^calls to the coordinator' >/dev/null || die "stats of a member, for people"
timeout 20 "$BRICKCTL" top none --watch 0.5 >"$WORK/top" & BACKGROUND_PIDS+=("$!"); within 15 grep "(pid $member)" "$WORK/top" || die "top: $(cat "$WORK/top")"
kill "${BACKGROUND_PIDS[-1]}"; unset 'BACKGROUND_PIDS[-1]'
"$BRICKCTL" status --secret-file "$SHARED_SECRET" "$SOURCE" | grep "^holder:.*(pid $first) shares at " >/dev/null || die "status does not say who coordinates"
"$BRICKCTL" status --json --secret-file "$SHARED_SECRET" "$SOURCE" | grep '"shared_at": *"127.0.0.1:' >/dev/null || die "status --json does not say where"
port=$(sed -n 's/.*metrics at .*:\([0-9]*\).*/\1/p' "$WORK/first.log")
python3 - "$port" <<'P' || die "metrics"
import sys, urllib.request
with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics", timeout=10) as answer: text = answer.read().decode()
assert "\nbrickfs_members 2\n" in text and 'brickfs_member_call_bytes_total{call="write"} 5\n' in text and 'mountpoint="none:' in text, text
P
head -c 1M /dev/urandom >"$WORK/a/long"
for _ in 1 2 3; do cat "$WORK/a/long" >"$WORK/long"; done
page_says() { python3 - "http://127.0.0.1:$(tail -n 1 "$WORK/port")/status.json" "(pid $first)" "(pid $member)" <<'P'
import json, sys, urllib.request
volume, = [v for v in json.load(urllib.request.urlopen(sys.argv[1], timeout=10))["volumes"] if v["name"] == "default"]
sys.exit(not (volume["holder"].endswith(sys.argv[2]) and volume["shared_at"].startswith("127.0.0.1:") and [m for m in volume["members"] if m.endswith(sys.argv[3])]))
P
}
within 20 page_says || die "the brick's page does not say who coordinates, and who is a member"
rm "$WORK/a/long"

say "a second one is a member, and has the volume when the first has ended"
coordinate second
second=${BACKGROUND_PIDS[-1]}
grep 'a member of it' "$WORK/second.log" >/dev/null || die "both coordinate"
"$BRICKCTL" explain none >"$WORK/said" 2>&1 && die "which of both?"
grep "none:$first.*none:$second\|none:$second.*none:$first" "$WORK/said" >/dev/null || die "it says: $(cat "$WORK/said")"
"$BRICKCTL" explain "none:$second" | grep 'member of 127.0.0.1' >/dev/null || die "explain: $("$BRICKCTL" explain "none:$second")"
leave_machine b
kill -TERM "$second"
within 30 ended "$second" || die "a member without a mount does not end"
wait "$second" || die "its end fails"

say "SIGTERM ends it: everything is committed, and the volume is free"
echo last >"$WORK/a/last"
leave_machine a
kill -TERM "$first"
within 30 ended "$first" || die "it does not end"
wait "$first" || die "its end fails: $(tail -n 3 "$WORK/first.log")"
if grep ' E\|error' "$WORK/first.log"; then die "its end complains"; fi
[ -z "$(find /run/brickfs -name "none:$first")" ] || die "its socket stays"
"$BRICKCTL" status --secret-file "$SHARED_SECRET" "$SOURCE" | grep '^holder:.*none' >/dev/null || die "the volume is not free"
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" | grep clean >/dev/null || die "not clean"

say "in the background: it returns when it serves"
"$BRICKFS" "$SOURCE" none -o "shared,secret=$SHARED_SECRET" -o "" || die "it does not start"
third=$(pgrep -f "^$BRICKFS $SOURCE none") || die "it is not there"
OTHER_PIDS+=("$third")
join_machine a
[ "$(cat "$WORK/a/last")" = last ] || die "something is lost"

say "one whose volume was taken ends, and says so"
"$BRICKFS" "$SOURCE" none -f -o "shared,steal,secret=$SHARED_SECRET" 2>>"$WORK/thief.log" &
BACKGROUND_PIDS+=("$!")
within 60 grep 'not mounted here' "$WORK/thief.log" || die "steal fails: $(tail -n 1 "$WORK/thief.log")"
within 30 ended "$third" || die "it goes on without its volume"
umount -l "$WORK/a"
kill -TERM "${BACKGROUND_PIDS[-1]}"
wait "${BACKGROUND_PIDS[-1]}" || die "the last end fails"

say "its unit"
if command -v systemd-analyze >/dev/null; then
  unit=$WORK/brickfs-coordinator@home.service
  sed "s,/usr/bin/brickfs,$BRICKFS," "$TESTS/../tools/debian/brickfs-coordinator@.service" >"$unit"
  systemd-analyze verify --man=no "$unit" >"$WORK/verify" 2>&1 || die "$(cat "$WORK/verify")"
  if grep -F "brickfs-coordinator@" "$WORK/verify"; then die "the unit is wrong"; fi
fi
