#!/usr/bin/env bash
# brickctl stats, profile and top count what a mount does, and what a brick's clients do.
#   stats_test.sh
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/json_lib.sh"
ctl() { timeout 30 "$BRICKCTL" "$@"; }
stats() { ctl stats "$MNT" --json >"$WORK/stats" && json "$WORK/stats" "$1"; }
refused() {  # EXIT PATTERN ARGUMENTS...
  local want=$1 pattern=$2 status=0; shift 2
  ctl "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
  [ "$status" = "$want" ] && grep -E "$pattern" "$WORK/err" >/dev/null || die "$*: exit $status: $(cat "$WORK/out" "$WORK/err")"
}
# A condition on the operations by `named`.
counted() { stats "(lambda named: $1)({o['name']: o for o in r['operations']})" || die "stats: $(cat "$WORK/stats")"; }

start_brick tcp
mount_brickfs

say "operations are counted, with their bytes and what came of them"
dd if=/dev/zero of="$MNT/file" bs=4k count=500 oflag=direct status=none
sync "$MNT/file"
rmdir "$MNT/nothing" 2>/dev/null || true
mkdir "$MNT/full" "$MNT/full/sub"
rmdir "$MNT/full" 2>/dev/null || true
ctl stats "$MNT" --json >"$WORK/stats"
fields_are_documented stats "$WORK/stats" || die "stats --json"
counted 'named["write"]["count"] == 500 and named["write"]["bytes"] == 500 * 4096 and named["write"]["failures"] == 0'
counted '0 < named["write"]["p50_us"] <= named["write"]["p99_us"] and 0 < named["write"]["seconds"] < 60'
counted 'named["fsync"]["count"] == 1 and named["mkdir"]["count"] == 2'
counted 'named["rmdir"]["failures"] == 1 and named["lookup"]["failures"] == 0'
stats '{o["name"]: o for o in r["volume"]}["write"]["bytes"] >= 500 * 4096' || die "the volume's part: $(cat "$WORK/stats")"
dd if="$MNT/file" of=/dev/null bs=4k count=200 iflag=direct status=none
counted 'named["read"]["count"] == 200 and named["read"]["bytes"] == 200 * 4096'
ctl stats "$MNT/full" >"$WORK/out"
grep -E '^write +500 ' "$WORK/out" >/dev/null || die "stats: $(cat "$WORK/out")"

say "a profile has what happens meanwhile, and nothing else"
(for i in $(seq 1 30); do mkdir "$MNT/dir$i"; sleep 0.05; done) &
load=$!
BACKGROUND_PIDS+=("$load")
ctl profile "$MNT" 1 --json >"$WORK/stats"
wait "$load"
fields_are_documented stats "$WORK/stats" || die "profile --json"
json "$WORK/stats" '(lambda named: 0 < named["mkdir"]["count"] <= 30 and "write" not in named and 0.9 < r["seconds"] < 10)({o["name"]: o for o in r["operations"]})' ||
  die "profile: $(cat "$WORK/stats")"
ctl profile "$MNT" 0.2 >"$WORK/out"
grep '% of time' "$WORK/out" >/dev/null || die "profile: $(cat "$WORK/out")"

say "top, without a terminal and with one"
# --foreground: one signal, to brickctl alone. The second of two ends it at once.
timeout --foreground --preserve-status -s INT 3 "$BRICKCTL" top "$MNT" --watch 0.5 >"$WORK/out" || die "top: exit $?"
[ "$(grep -c "^$MNT: $SOURCE" "$WORK/out")" -ge 2 ] || die "top: $(cat "$WORK/out")"
timeout 30 python3 - "$BRICKCTL" "$MNT" <<'PYTHON' || die "top on a terminal"
import os, pty, re, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(TERM="xterm", LINES="40", COLUMNS="120")
    os.execv(sys.argv[1], [sys.argv[1], "top", sys.argv[2], "--watch", "0.3"])
seen, until, asked = b"", time.time() + 15, False
while time.time() < until:
    if select.select([fd], [], [], 0.1)[0]:
        try:
            seen += os.read(fd, 65536)
        except OSError:  # it has ended
            break
    if b"operation" in seen and b"sort by" in seen and not asked:
        os.write(fd, b"cq")
        asked = True
_, status = os.waitpid(pid, 0)
assert asked and status == 0, (status, seen)
PYTHON

say "nonsense and mounts that are not there"
refused 1 'is not on a brickfs mount' stats "$WORK"
refused 2 'from 0.1' profile "$MNT" 0
refused 2 'SECONDS' profile "$MNT"
unmount_brickfs
refused 1 'is not on a brickfs mount' stats "$MNT"
refused 1 'is not on a brickfs mount' top "$MNT"

say "a brick: its volumes and clients"
kill_brickd TERM
printf 'of the clients\n' >"$WORK/clients"; printf 'of the administrator\n' >"$WORK/admin"; chmod 600 "$WORK/clients" "$WORK/admin"
start_brickd --memory 256M --volume home:64M --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"
brick=tcp://127.0.0.1:$BRICKD_PORT
SOURCE=$brick/home
as=(--admin-secret-file "$WORK/admin")
mount_brickfs "secret=$WORK/clients"
dd if=/dev/zero of="$MNT/file" bs=4k count=500 oflag=direct status=none
sync "$MNT/file"
ctl stats "$brick" "${as[@]}" --json >"$WORK/stats"
fields_are_documented "stats of a brick" "$WORK/stats" || die "stats of a brick --json"
json "$WORK/stats" '[v["name"] for v in r["volumes"]] == ["default", "home"] and len(r["clients"]) == 1 and r["seconds"] is None' || die "stats: $(cat "$WORK/stats")"
json "$WORK/stats" 'r["volumes"][0]["calls"] == 0 and r["volumes"][1]["written_bytes"] == r["clients"][0]["written_bytes"] >= 500 * 4096' || die "stats: $(cat "$WORK/stats")"
json "$WORK/stats" 'r["clients"][0]["volume"] == "home" and r["clients"][0]["mode"] == "writes" and r["clients"][0]["commits"] > 0' || die "stats: $(cat "$WORK/stats")"
ctl stats "$SOURCE" "${as[@]}" >"$WORK/out"
grep -E '^home +[0-9.]+ +[1-9]' "$WORK/out" >/dev/null && ! grep '^default' "$WORK/out" >/dev/null || die "stats of a volume: $(cat "$WORK/out")"
dd if=/dev/zero of="$MNT/more" bs=4k count=20000 oflag=direct status=none 2>/dev/null & BACKGROUND_PIDS+=("$!")
timeout --foreground --preserve-status -s INT 3 "$BRICKCTL" top "$brick" "${as[@]}" --watch 0.5 >"$WORK/out" || die "top of a brick: exit $?"
grep -E '^client .*written MB/s' "$WORK/out" >/dev/null && grep -E '^home +[0-9.]+ +[0-9]*[1-9]' "$WORK/out" >/dev/null || die "top of a brick: $(cat "$WORK/out")"
refused 1 "administrator's secret is wrong" stats "$brick" --admin-secret-file "$WORK/clients"
refused 1 'no volume nothing' stats "$brick/nothing" "${as[@]}"
refused 1 'no brickd listens there|connection refused' stats tcp://127.0.0.1:1 "${as[@]}"
refused 1 'is not a source|source' stats 'what:ever' "${as[@]}"
refused 1 'takes one brick' stats "$brick+127.0.0.1:1/home" "${as[@]}"
wait "${BACKGROUND_PIDS[-1]}" || true
unmount_brickfs
