#!/usr/bin/env bash
# brickctl volume on a brick that serves: made, resized, removed, listed; by whom; what a restart and a crash leave; what a mount of a volume that goes says.
#   volumes_test.sh [VOLUMES]     so many are made and removed beside a mount that works (25)
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/json_lib.sh"
many=${1:-25}

secret() { printf '%s\n' "$2" >"$WORK/$1"; chmod 600 "$WORK/$1"; }  # NAME LINE
ctl() { timeout 60 "$BRICKCTL" "$@" 2>"$WORK/err" || die "brickctl $*: exit $?: $(cat "$WORK/err")"; }
volume() { local action=$1; shift; ctl volume "$action" "$BRICK" "$@" --admin-secret-file "$WORK/admin"; }
# refused EXIT PATTERN ARGUMENT...: one line on standard error that matches, nothing on standard output.
refused() {
  local exit=$1 pattern=$2 status=0; shift 2
  timeout 30 "$BRICKCTL" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || status=$?
  [ "$status" = "$exit" ] || die "brickctl $*: exit $status instead of $exit: $(cat "$WORK/err")"
  [ "$(wc -l <"$WORK/err")" = 1 ] && [ ! -s "$WORK/out" ] || die "brickctl $*: not one line: $(cat "$WORK/out" "$WORK/err")"
  grep -qE "$pattern" "$WORK/err" || die "brickctl $*: says: $(cat "$WORK/err")"
}
denied() { local pattern=$1 action=$2; shift 2; refused 1 "$pattern" volume "$action" "$BRICK" "$@" --admin-secret-file "$WORK/admin"; }
names_are() { [ "$(volume list --json | python3 -c 'import json,sys; print(*[v["name"] for v in json.load(sys.stdin)["volumes"]])')" = "$1" ]; }
names_must_be() { names_are "$1" || die "volumes: $(volume list)"; }

secret clients "the clients' line"
secret admin "the administrator's line"
secret wrong "another line"

say "usage"
refused 2 'subcommand' volume
refused 2 'SOURCE' volume list
refused 2 'NAME' volume create tcp://127.0.0.1
refused 2 'a name has' volume create tcp://127.0.0.1 a/b
refused 2 'a name has' volume remove tcp://127.0.0.1 a:1G
for name in . .. -rf; do refused 2 'a name has' volume create tcp://127.0.0.1 -- "$name"; done
for name in . .. -rf; do
  status=0
  timeout 10 "$BRICKD" --foreground --memory 64M --listen tcp://127.0.0.1:0 "--volume=$name:8M" 2>"$WORK/err" || status=$?
  [ "$status" = 1 ] && grep -q "volume '$name': a name has" "$WORK/err" || die "a new volume $name: exit $status: $(cat "$WORK/err")"
done
refused 2 'at least one block' volume create tcp://127.0.0.1 a:1M
refused 2 'force' volume create tcp://127.0.0.1 a --force
refused 1 'a brick is meant' volume list tcp://127.0.0.1/home
refused 1 'no brickd listens' volume list tcp://127.0.0.1:9
status=0; timeout 10 "$BRICKD" --foreground --memory 64M --secret-file "$WORK/admin" --admin-secret-file "$WORK/admin" 2>"$WORK/err" || status=$?
[ "$status" = 1 ] && grep -q "the administrator's secret is the clients'" "$WORK/err" || die "one secret for both: exit $status: $(cat "$WORK/err")"
printf "the administrator's line\\0" >"$WORK/zero" && chmod 600 "$WORK/zero"  # the same key to HMAC
status=0; timeout 10 "$BRICKD" --foreground --memory 64M --secret-file "$WORK/zero" --admin-secret-file "$WORK/admin" 2>"$WORK/err" || status=$?
[ "$status" = 1 ] && grep -q "the administrator's secret is the clients'" "$WORK/err" || die "one secret, but for a zero: exit $status: $(cat "$WORK/err")"

say "without an administrator's secret"
start_brickd --memory 64M --secret-file "$WORK/clients"
BRICK=tcp://127.0.0.1:$BRICKD_PORT
denied 'start brickd with --admin-secret-file' list
refused 1 'start brickd with --admin-secret-file' volume create "$BRICK" home
kill_brickd TERM

say "made, resized, listed, removed"
start_brickd --memory 256M --file "$WORK/store" --size 256M --volume named:8M --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"
BRICK=tcp://127.0.0.1:$BRICKD_PORT
for wrong in wrong clients; do refused 1 "the administrator's secret is wrong" volume create "$BRICK" home --admin-secret-file "$WORK/$wrong"; done
refused 1 "the administrator's secret is wrong or missing" volume remove "$BRICK" named
refused 1 'secret is wrong' status "$BRICK/default" --secret-file "$WORK/admin"
volume create home:64M
volume create all
names_must_be "all default home named"
volume list >"$WORK/list"
grep -qE '^home +64M +0 +0 +-$' "$WORK/list" || die "list: $(cat "$WORK/list")"
denied 'there is a volume home already' create home
denied 'no volume nosuch' remove nosuch
denied 'default is always there' remove default --force
timeout 60 "$BRICKCTL" alloc "$BRICK/home" 0 5 --secret-file "$WORK/clients"
denied 'home has 5 blocks \(10M\) allocated' resize home:8M
denied 'not empty: 5 blocks \(10M\)' remove home
volume resize home:10M
refused 1 'quota' alloc "$BRICK/home" 1G --secret-file "$WORK/clients"
volume resize named:16M
grep -q 'has another size for volume named' "$WORK/err" || die "a resize that will not last says nothing: $(cat "$WORK/err")"
volume remove named
grep -q 'makes it again when it starts' "$WORK/err" || die "a removal that will not last says nothing: $(cat "$WORK/err")"
names_must_be "all default home"

say "as JSON, with the fields that docs/json.md has"
for call in "list" "create other:4M" "resize other:6M" "remove other"; do
  # shellcheck disable=SC2086
  volume $call --json >"$WORK/json"
  python3 - "$TESTS/../docs/json.md" "$WORK/json" <<'PYTHON' || die "volume $call --json: $(cat "$WORK/json")"
import json, re, sys
document, said = open(sys.argv[1]).read(), open(sys.argv[2]).read()
[section] = [part for part in document.split("\n## ")[1:] if part.splitlines()[0].startswith("volume")]
assert said.count("\n") == 1, said
answer = json.loads(said)
fields = re.findall(r"^\| `(\w+)` \|", section, re.M)
assert list(answer) == fields[:1] == ["volumes"] and answer["volumes"], answer
for volume in answer["volumes"]:
    assert list(volume) == fields[1:], f"{list(volume)}, documented: {fields}"
PYTHON
done
volume list --json >"$WORK/json"
json "$WORK/json" '{v["name"]: (v["size_bytes"], v["used_bytes"], v["configured"]) for v in r["volumes"]} == {"all": (None, 0, False), "default": (None, 0, True), "home": (10 << 20, 10 << 20, False)}' ||
  die "list --json: $(cat "$WORK/json")"

say "after a crash, and after a stop"
kill_brickd
restart_brickd
names_must_be "all default home named"
volume list --json >"$WORK/json"
json "$WORK/json" '{v["name"]: v["size_bytes"] for v in r["volumes"]} == {"all": None, "default": None, "home": 10 << 20, "named": 8 << 20}' || die "after a crash: $(cat "$WORK/json")"
volume remove home --force
volume create fresh:32M
kill_brickd TERM
refused 1 'no brickd' volume list "$BRICK"
ctl volume list "file:$WORK/store" >"$WORK/list"  # without a brickd
grep -q '^fresh ' "$WORK/list" || die "list of a store: $(cat "$WORK/list")"
restart_brickd
names_must_be "all default fresh named"

say "a mount of a volume that goes"
SOURCE=$BRICK/fresh
mount_brickfs "secret=$WORK/clients"
echo kept >"$MNT/file"
sync "$MNT/file"
denied 'held by .* since' remove fresh
[ "$(cat "$MNT/file")" = kept ] || die "a refused removal did something"
volume remove fresh --force
stale() { ! cat "$MNT/file" 2>"$WORK/err"; }
within 20 stale || die "a mount of a removed volume goes on"
grep -q 'Stale file handle' "$WORK/err" || die "it says: $(cat "$WORK/err")"
within 20 grep -q "volume 'fresh' was removed from the brick" "$WORK/brickfs.log" || die "the log: $(tail -n 3 "$WORK/brickfs.log")"
timeout 60 umount "$MNT" || umount -l "$MNT"
grep -q 'volume fresh was removed by the administrator at 127.0.0.1' "$WORK/brickd.log" || die "brickd's log has nothing of it"
volume create fresh:64M
mount_brickfs "secret=$WORK/clients"
[ ! -e "$MNT/file" ] || die "a new volume has an old one's file"
unmount_brickfs

say "another size under a mount"
volume create grows:64M
SOURCE=$BRICK/grows
mount_brickfs "secret=$WORK/clients"
volume resize grows:200M
is_larger() { [ "$(df --output=size -m "$MNT" | tail -n 1)" -gt 150 ]; }
within 20 is_larger || die "df: $(df -m "$MNT")"
head -c 120M /dev/urandom >"$MNT/big" && sync "$MNT/big" || die "a mount does not use what its volume got"
volume list --json >"$WORK/json"
used=$(python3 -c 'import json,sys; print([v["used_bytes"] for v in json.load(open(sys.argv[1]))["volumes"] if v["name"] == "grows"][0])' "$WORK/json")
volume resize "grows:$used"
if head -c 60M /dev/urandom >"$MNT/more" 2>/dev/null && sync "$MNT/more"; then die "more than the volume may have"; fi
rm "$MNT/more" "$MNT/big"
echo room >"$MNT/file" && sync "$MNT/file" || die "a volume that was full takes nothing any more"
unmount_brickfs
timeout 300 "$BRICKCTL" check "$SOURCE" --secret-file "$WORK/clients" >"$WORK/check.log" || die "check: $(cat "$WORK/check.log")"
volume remove grows --force

say "$many, while a mount works"
SOURCE=$BRICK/all
mount_brickfs "secret=$WORK/clients"
(while [ ! -e "$WORK/enough" ]; do head -c 300000 /dev/urandom >"$MNT/x" && sync "$MNT/x" && rm "$MNT/x" || exit 1; done) &
worker=$!
for i in $(seq "$many"); do volume create "v$i:4M"; done
[ "$(volume list | grep -c '^v[0-9]')" = "$many" ] || die "not all are listed"
for i in $(seq "$many"); do volume remove "v$i"; done
touch "$WORK/enough"
wait "$worker" || die "the mount beside had an error"
unmount_brickfs
SOURCE=$BRICK/all
timeout 300 "$BRICKCTL" check "$SOURCE" --secret-file "$WORK/clients" >"$WORK/check.log" || die "check: $(cat "$WORK/check.log")"
names_must_be "all default fresh named"

say "a changed secret"
secret admin "a new line"
kill -HUP "$BRICKD_PID"
within 5 names_are "all default fresh named" || die "SIGHUP did not bring the new administrator's secret"
kill_brickd TERM

say "passed"
