#!/usr/bin/env bash
# brickctl's command line: what each verb prints and answers, on a brick of its own and beside a mount.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/json_lib.sh"

# refused EXIT PATTERN ARGUMENT...: one line on standard error that matches, nothing on standard output.
refused() {
  local exit=$1 pattern=$2 status=0; shift 2
  timeout 30 "$BRICKCTL" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || status=$?
  [ "$status" = "$exit" ] || die "brickctl $*: exit $status instead of $exit: $(cat "$WORK/err")"
  [ "$(wc -l <"$WORK/err")" = 1 ] && [ ! -s "$WORK/out" ] || die "brickctl $*: not one line: $(cat "$WORK/out" "$WORK/err")"
  grep -qE "$pattern" "$WORK/err" || die "brickctl $*: says: $(cat "$WORK/err")"
}
ctl() { timeout 60 "$BRICKCTL" "$@" 2>"$WORK/err" || die "brickctl $*: exit $?: $(cat "$WORK/err")"; }
says() { local pattern=$1; shift; ctl "$@" >"$WORK/said"; grep -qE "$pattern" "$WORK/said"; }  # PATTERN ARGUMENT...
field() { ctl status "$SOURCE" | sed -n "s/^$1: *//p"; }
# json FILE EXPRESSION: of the one line of JSON in FILE, as `r`.
no_scratch() { ctl list "$SOURCE" >"$WORK/said"; awk '$1 > 2^60 { exit 1 }' "$WORK/said"; }
is_listed() { [ "$(ctl list "$SOURCE")" = "$1" ]; }

say "usage"
says bench --help || die "--help does not name bench"
says '^brickctl [0-9]' --version || die "--version says nothing"
refused 2 'help'
refused 2 'help' nonsense memory:64M
refused 2 'SOURCE' list
refused 1 'source' list nonsense
refused 2 'ADDRESS' alloc memory:64M
refused 2 'ADDRESS' alloc memory:64M 12345
refused 2 'COUNT' alloc memory:64M 0 0
refused 2 'COUNT' alloc memory:64M 0 4097
refused 2 'last block' alloc memory:64M 0xffffffffffe00000 2
for wrong in '--size 0' '--size 3M' '--size x' '--depth 0' '--depth 2000' '--threads 0' '--threads 65' '--seconds 0' '--seconds -1' \
  '--direction up' '--span 0' '--span 9G' '--size 2M --depth 1024'; do
  refused 2 '' bench memory:64M $wrong
done
refused 2 'interval' ping memory:64M -i -1
refused 2 'TAG' notify memory:64M x
refused 2 'VALUE' notify memory:64M 1 x
refused 2 'seen' wait memory:64M 1 --seen 5
refused 2 'timeout' wait memory:64M 1 --timeout -1
refused 1 'no brickd' notify tcp://127.0.0.1:9/default 1
refused 1 'no brickd' status tcp://127.0.0.1:9/default
refused 1 'no brickd' bench tcp://127.0.0.1:9/default
refused 1 'no brickd' ping tcp://127.0.0.1:9/default
refused 8 'no brickd' check tcp://127.0.0.1:9/default

start_brickd --memory 256M --file "$WORK/store" --size 256M --volume small:8M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default

say "status of an empty volume"
[ "$(field transport)" = tcp ] || die "transport: $(field transport)"
[ "$(field durability)" = durable ] || die "durability: $(field durability)"
[ "$(field holder)" = none ] || die "holder: $(field holder)"
[ "$(field used)" = '0 blocks (0)' ] || die "used: $(field used)"
refused 1 'no volume' status "tcp://127.0.0.1:$BRICKD_PORT/nosuch"

say "alloc, list, map, unmap, free"
[ -z "$(ctl list "$SOURCE")" ] || die "an empty volume has blocks"
ctl alloc "$SOURCE" 4M 3
ctl alloc "$SOURCE" 0x1000000
is_listed $'4194304 3\n16777216 1' || die "list: $(ctl list "$SOURCE")"
ctl alloc "$SOURCE" 10M 3  # between the two
is_listed '4194304 7' || die "list: $(ctl list "$SOURCE")"
refused 1 'exists already' alloc "$SOURCE" 8M
refused 1 'does not exist' free "$SOURCE" 0 2
refused 1 'does not exist' map "$SOURCE" 0
refused 1 'quota' alloc "tcp://127.0.0.1:$BRICKD_PORT/small" 0 5
[ "$(ctl map "$SOURCE" 4M 2 | awk '{ n += $2 } END { print n }')" = 2 ] || die "map: $(ctl map "$SOURCE" 4M 2)"
says '^4194304 1 address 0x[0-9a-f]+ key 0x[0-9a-f]+ read-write$' map "$SOURCE" 4M || die "map: $(cat "$WORK/said")"
ctl unmap "$SOURCE" 4M 2
refused 1 'does not exist' unmap "$SOURCE" 0
ctl free "$SOURCE" 4M 7
is_listed '' || die "list: $(ctl list "$SOURCE")"
ctl alloc "$SOURCE" 0
kill_brickd
restart_brickd
is_listed '0 1' || die "an allocation is not durable: $(ctl list "$SOURCE")"
ctl free "$SOURCE" 0

say "each verb as JSON, with the fields that docs/json.md has"
for call in "status" "alloc 4M 2" "list" "map 4M 2" "unmap 4M 2" "free 4M 2" "ping -c 2 -i 0.01" "bench --seconds 0.1 --size 4K"; do
  read -r verb arguments <<<"$call"
  # shellcheck disable=SC2086
  ctl "$verb" "$SOURCE" $arguments --json >"$WORK/json"
  fields_are_documented "$verb" "$WORK/json" || die "$call --json"
  case $verb in
    status) json "$WORK/json" 'r["durable"] and r["holder"] is None and r["capacity_bytes"] > r["used_bytes"] == 0 and r["trouble"] == ""' ;;
    list) json "$WORK/json" 'r["extents"] == [{"start": 4 << 20, "blocks": 2}]' ;;
    map) json "$WORK/json" 'sum(h["blocks"] for h in r["handles"]) == 2 and r["handles"][0]["start"] == 4 << 20' ;;
  esac || die "$call --json: $(cat "$WORK/json")"
done
ctl check "$SOURCE" --json >"$WORK/json"
fields_are_documented check "$WORK/json" || die "check --json"
json "$WORK/json" 'r["verdict"] == "clean" and r["uuid"] is None and r["damages_left"] == 0' || die "check --json: $(cat "$WORK/json")"

say "bench"
ctl bench "$SOURCE" --seconds 0.3 --size 64K --span 8M >"$WORK/bench"
[ "$(sed -n '2p' "$WORK/bench" | tr -s ' ')" = ' MB/s transfers/s mean us p50 p90 p99 p99.9 max' ] || die "bench: $(cat "$WORK/bench")"
[ "$(awk 'NR > 2 { print $1, NF }' "$WORK/bench" | paste -sd' ')" = 'write 9 read 9' ] || die "bench: $(cat "$WORK/bench")"
ctl bench "$SOURCE" --seconds 0.3 --size 4K --depth 8 --threads 3 --direction read --span 10M --json >"$WORK/bench"
json "$WORK/bench" 'r["transport"] == "tcp" and (r["size"], r["depth"], r["threads"], r["span"]) == (4096, 8, 3, 10 << 20)' || die "bench: $(cat "$WORK/bench")"
json "$WORK/bench" 'len(r["results"]) == 1 and r["results"][0]["direction"] == "read" and r["results"][0]["bytes"] == 4096 * r["results"][0]["latency_us"]["count"] > 0' ||
  die "bench: $(cat "$WORK/bench")"
json "$WORK/bench" '(lambda l: 0 < l["min"] <= l["p50"] <= l["p90"] <= l["p99"] <= l["p999"] <= l["max"])(r["results"][0]["latency_us"])' || die "bench: $(cat "$WORK/bench")"
ctl bench memory:64M --seconds 0.1 --size 1000 --depth 3 >/dev/null
ctl bench memory:64M --seconds 0.1 --size 4K --depth 2 --threads 3 --span 4K --json >"$WORK/bench"  # the same bytes over and over
json "$WORK/bench" 'r["span"] == 4096' || die "bench: $(cat "$WORK/bench")"
ctl bench "tcp://127.0.0.1:$BRICKD_PORT/small" --seconds 0.1 >/dev/null  # as much as there is
refused 1 'quota' bench "tcp://127.0.0.1:$BRICKD_PORT/small" --seconds 0.1 --span 16M
is_listed '' || die "bench leaves blocks: $(ctl list "$SOURCE")"

say "bench, interrupted"
"$BRICKCTL" bench "$SOURCE" --seconds 60 >"$WORK/out" 2>"$WORK/err" &
pid=$!
BACKGROUND_PIDS+=("$pid")
has_blocks() { [ -n "$("$BRICKCTL" list "$SOURCE")" ]; }
within 10 has_blocks || die "bench allocates nothing"
sleep 0.5
kill -INT "$pid"
status=0; wait "$pid" || status=$?
[ "$status" = 1 ] && grep -q ': interrupted$' "$WORK/err" && [ ! -s "$WORK/out" ] || die "exit $status: $(cat "$WORK/out" "$WORK/err")"
is_listed '' || die "an interrupted bench leaves blocks: $(ctl list "$SOURCE")"

say "ping"
ctl ping "$SOURCE" -c 3 -i 0.01 >"$WORK/ping"
grep -q ', control calls only$' "$WORK/ping" || die "ping: $(cat "$WORK/ping")"
[ "$(grep -cE '^[123]:  control [0-9.]+ us$' "$WORK/ping")" = 3 ] || die "ping: $(cat "$WORK/ping")"
grep -qE '^control +min/avg/max [0-9.]+/[0-9.]+/[0-9.]+ us$' "$WORK/ping" || die "ping: $(cat "$WORK/ping")"
ctl alloc "$SOURCE" 0
ctl ping "$SOURCE" -c 3 -i 0.01 --json >"$WORK/ping"
json "$WORK/ping" 'r["rounds"] == 3 and r["lost"] == 0 and [r["latency_us"][k]["count"] for k in ("control", "read_8", "read_4096")] == [3, 3, 3]' || die "ping: $(cat "$WORK/ping")"
ctl free "$SOURCE" 0
"$BRICKCTL" ping "$SOURCE" -c 0 -i 0.05 >"$WORK/ping" 2>"$WORK/err" &
pid=$!
BACKGROUND_PIDS+=("$pid")
within 10 grep -q '^2:' "$WORK/ping" || die "ping -c 0: $(cat "$WORK/ping")"
kill_brickd
within 10 grep -q 'no brickd listens there' "$WORK/ping" || die "ping without a brick: $(cat "$WORK/ping")"
restart_brickd
is_back() { [[ $(tail -n 1 "$WORK/ping") == *control* ]]; }
within 10 is_back || die "ping does not come back: $(tail -n 3 "$WORK/ping")"
kill -INT "$pid"
wait "$pid" || die "ping ends with exit $?"
grep -qE '^[0-9]+ rounds, [1-9][0-9]* without an answer$' "$WORK/ping" || die "ping: $(tail -n 3 "$WORK/ping")"

say "beside a mount"
mount_brickfs
echo kept >"$MNT/file"
sync "$MNT/file"
[ "$(getfattr --only-values -n brickfs.link "$MNT")" = tcp ] || die "brickfs.link: $(getfattr -n brickfs.link "$MNT")"
says '^holder: .*pid' status "$SOURCE" || die "holder: $(cat "$WORK/said")"
refused 1 'held by .* since' bench "$SOURCE" --seconds 0.1
refused 1 'held by .* since' alloc "$SOURCE" 1G
refused 8 'held by .* since' check "$SOURCE"
says 'control calls only' ping "$SOURCE" -c 2 -i 0.01 || die "ping beside a mount reads blocks"
no_scratch || die "a refused bench leaves blocks: $(cat "$WORK/said")"

say "a volume with files is left alone by raw calls"
unmount_brickfs
for call in "alloc $SOURCE 1G" "free $SOURCE 0" "map $SOURCE 0"; do
  # shellcheck disable=SC2086
  refused 1 'has files.*--over-files' $call
done
ctl unmap "$SOURCE" 0
ctl alloc "$SOURCE" 0x8000000000 --over-files
ctl free "$SOURCE" 0x8000000000 --over-files
mount_brickfs
[ "$(cat "$MNT/file")" = kept ] || die "the file is gone"

say "notify and wait, beside the mount"
refused 3 'no notification of tag 7' wait "$SOURCE" 7 --timeout 0.2
"$BRICKCTL" wait "$SOURCE" 7 >"$WORK/waited" 2>"$WORK/err" &
pid=$!
BACKGROUND_PIDS+=("$pid")
until [ -s "$WORK/waited" ]; do  # it waits for what is told after it has begun
  kill -0 "$pid" || die "wait ends with nothing: $(cat "$WORK/err")"
  ctl notify "$SOURCE" 7 4096
  sleep 0.1
done
wait "$pid" || die "wait: exit $?"
read -r value seen <"$WORK/waited"
[ "$value" = 4096 ] || die "waited: $(cat "$WORK/waited")"
ctl notify "$SOURCE" 0x7 1
ctl notify "$SOURCE" 7 0xffffffffffffffff --json >"$WORK/json"
fields_are_documented notify "$WORK/json" && json "$WORK/json" 'r["tag"] == 7 and r["value"] == (1 << 64) - 1' || die "notify --json: $(cat "$WORK/json")"
ctl wait "$SOURCE" 7 --seen "$seen" --json >"$WORK/json"
fields_are_documented wait "$WORK/json" && json "$WORK/json" 'r["value"] == (1 << 64) - 1 and r["news"] >= 2' || die "wait --json: $(cat "$WORK/json")"
seen=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["seen"])' "$WORK/json")
refused 3 'no notification' wait "$SOURCE" 7 --seen "$seen" --timeout 0.2
says '^18446744073709551615 ' wait "$SOURCE" 7 --seen 0:0 || die "what was told before: $(cat "$WORK/said")"
kill_brickd
restart_brickd
says '^0 0:0$' wait "$SOURCE" 7 --seen "$seen" --timeout 10 || die "what a brick has forgotten: $(cat "$WORK/said")"
[ "$(cat "$MNT/file")" = kept ] || die "the mount minds"

say "a client that is away keeps its volume"
kill -9 "$(brickfs_pid)"
umount -l "$MNT" 2>/dev/null || true
is_away() { says '^holder: .*not connected' status "$SOURCE"; }
within 10 is_away || die "holder: $(field holder)"
refused 1 'not connected .*--steal' bench "$SOURCE" --seconds 0.1
says 'control calls only' ping "$SOURCE" -c 2 -i 0.01 || die "ping takes the lease of a client that is away"
mount_brickfs
[ "$(cat "$MNT/file")" = kept ] || die "the file is lost"
unmount_brickfs

say "bench and check on a file system's volume"
before=$(ctl list "$SOURCE")
ctl bench "$SOURCE" --seconds 0.2 --size 4K --span 8M >/dev/null
[ "$(ctl list "$SOURCE")" = "$before" ] || die "bench changes the volume's blocks"
says ': clean,' check "$SOURCE" || die "check: $(cat "$WORK/said")"
say "what a killed bench leaves is freed by the next mount"
"$BRICKCTL" bench "$SOURCE" --seconds 60 >"$WORK/out" 2>"$WORK/err" &
pid=$!
BACKGROUND_PIDS+=("$pid")
differs() { [ "$("$BRICKCTL" list "$SOURCE")" != "$before" ]; }
within 10 differs || die "bench allocates nothing"
kill -9 "$pid"
wait "$pid" 2>/dev/null || true
mount_brickfs
[ "$(cat "$MNT/file")" = kept ] || die "the file is lost"
unmount_brickfs
no_scratch || die "blocks of the bench are left: $(cat "$WORK/said")"

say "the superblocks overwritten: damage"
kill_brickd TERM
dd if=/dev/zero of="$WORK/store" bs=1M seek=2 count=200 conv=notrunc status=none
restart_brickd
status=0; timeout 60 "$BRICKCTL" check "$SOURCE" >"$WORK/out" 2>"$WORK/err" || status=$?
[ "$status" = 4 ] || [ "$status" = 8 ] || die "check of a ruined volume: exit $status: $(cat "$WORK/out" "$WORK/err")"
