#!/usr/bin/env bash
# brickctl set: made on bricks whose volumes are there, or not yet; refused; made once; told of.
. "$(dirname "$0")/lib.sh"
etcdctl() { command etcdctl --endpoints "127.0.0.1:$ETCD_PORT" "$@"; }

secret admin "the administrator's line"
secret clients "the clients' line"
start_etcd only
SET=etcd://127.0.0.1:$ETCD_PORT/home
BRICK_KIND[v]=volatile
for name in a b c; do start_brick_of_set "$name" --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"; done
start_brick_of_set v --secret-file "$WORK/clients"
KNOWN=(--secret-file "$WORK/clients")
ADMIN=("${KNOWN[@]}" --admin-secret-file "$WORK/admin")

say "usage"
refused 2 'subcommand' set
refused 2 'BRICK' set create "$SET" --replicas 2
refused 2 'replicas' set create "$SET" "$(brick a)" "$(brick b)"
refused 1 'named by etcd://' set status "$(brick a)/home"
refused 1 'a brick is meant here' set create "$SET" --replicas 1 "$(brick a)/home"
refused 1 'a brick of a set is tcp://' set create "$SET" --replicas 1 memory:64M
refused 1 'named twice' set create "$SET" --replicas 2 "$(brick a)" "$(brick a)"
refused 1 '2 replicas need 2 bricks' set create "$SET" --replicas 2 "$(brick a)"
refused 1 '1 to 4 replicas' set create "$SET" --replicas 5 "$(brick a)"
refused 1 'BRICK=NAME' set create "$SET" --replicas 2 "$(brick a)" "$(brick b)" --domain left
refused 1 'not named' set create "$SET" --replicas 2 "$(brick a)" "$(brick b)" --domain "$(brick c)=left"
refused 1 '2 replicas need bricks in 2 domains' set create "$SET" --replicas 2 "$(brick a)" "$(brick b)" --domain "$(brick a)=left" --domain "$(brick b)=left"
refused 1 'go together' set status "$SET" --etcd-user root
refused 1 'knows no set home' set status "$SET"
refused 1 'this takes a brick, and etcd:// names a set' status "$SET"
refused 1 'this takes a brick, and etcd:// names a set' volume list "etcd://127.0.0.1:$ETCD_PORT"
exits 4 explain "$SET"
if said=$(timeout 20 "$BRICKFS" "$SET" "$MNT" 2>&1); then die "$SET is mounted"; fi
grep -q 'etcd knows no set home' <<<"$said" || die "mount says: $said"

say "what does not fit together"
refused 1 'secret is wrong or missing' set create "$SET" --replicas 2 "$(brick a)" "$(brick b)"
refused 1 'no brickd listens' set create "$SET" --replicas 2 tcp://127.0.0.1:9 "$(brick b)"
refused 1 'volumes are missing; .* brickctl volume create tcp://127.0.0.1:[0-9]+ home; brickctl volume create tcp://127.0.0.1:[0-9]+ home$' \
  set create "$SET" --replicas 2 "$(brick a)" "$(brick b)" "${KNOWN[@]}"
refused 1 "the administrator's secret is wrong" set create "$SET" --replicas 2 "$(brick a)" "$(brick b)" "${KNOWN[@]}" --admin-secret-file "$WORK/clients"
DEFAULT=etcd://127.0.0.1:$ETCD_PORT/default
refused 1 'are one brick' set create "$DEFAULT" --replicas 2 "$(brick a)" "tcp://localhost:${BRICK_PORT[a]}" "${KNOWN[@]}"
refused 1 'is a durable brick, and .* a volatile one' set create "$DEFAULT" --replicas 2 "$(brick a)" "$(brick v)" "${KNOWN[@]}"
exits 0 alloc "$(brick b)/default" 0 3 "${KNOWN[@]}"
refused 1 'default: it is not empty' set create "$DEFAULT" --replicas 2 "$(brick a)" "$(brick b)" "${KNOWN[@]}"
[ -z "$(etcdctl get --prefix /brickfs/)" ] || die "something was written all the same: $(etcdctl get --prefix /brickfs/)"
exits 0 status "$(brick a)/default" "${KNOWN[@]}"
grep -q '^holder: *none' "$WORK/out" || die "a refused create leaves its lease: $(cat "$WORK/out")"

say "made, and made again"
CREATE=(set create "$SET" --replicas 2 "$(brick a)" "$(brick b)" "$(brick c)" --domain "$(brick a)=left" --domain "$(brick b)=right")
exits 0 volume create "$(brick b)" home --admin-secret-file "$WORK/admin"  # as if it had been interrupted
exits 0 "${CREATE[@]}" "${ADMIN[@]}"
grep -q '^set home is made: copies 2, places 3, bricks 3$' "$WORK/out" || die "create: $(cat "$WORK/out")"
exits 0 "${CREATE[@]}"
grep -q 'there already, as it is asked for' "$WORK/out" || die "create once more: $(cat "$WORK/out")"
exits 0 "${CREATE[@]}" --json
fields_are_documented "set create" "$WORK/out"
json "$WORK/out" '(r["made"], r["places"], r["wanted"], r["generation"]) == (False, 3, 2, 1)' || die "create --json: $(cat "$WORK/out")"
refused 1 'there is a set home already, with other bricks or copies' set create "$SET" --replicas 3 "$(brick a)" "$(brick b)" "$(brick c)" "${ADMIN[@]}"
refused 1 'there is a set home already' set create "$SET" --replicas 2 "$(brick a)" "$(brick b)" "${ADMIN[@]}"

say "sets that would share volumes"
refused 1 'home.2: the name of a set ends with no .NUMBER' set create "$SET.2" --replicas 1 "$(brick a)" "${ADMIN[@]}"
exits 0 volume create "$(brick a)" other --admin-secret-file "$WORK/admin"
sed 's/^  //' >"$WORK/other" <<EOF
  {"format": 1, "set": "0123456789abcdef0123456789abcdef", "generation": 1, "wanted": 1, "tail_lost": false, "lease_wait": false, "holder": null, "places": [{"made": false, "replicas": [
    {"id": "00000000000000000000000000000001", "source": "tcp://localhost:${BRICK_PORT[a]}/other", "domain": "a", "state": "in sync", "since": 0, "boot": "0000000000000000", "leaving": false}]}]}
EOF
etcdctl put /brickfs/0123456789abcdef0123456789abcdef/map <"$WORK/other" >/dev/null
etcdctl put /brickfs/names/elsewhere 0123456789abcdef0123456789abcdef >/dev/null
refused 1 'other is a volume of the set elsewhere' set create "etcd://127.0.0.1:$ETCD_PORT/other" --replicas 1 "$(brick a)" "${ADMIN[@]}"
etcdctl del --prefix /brickfs/names/elsewhere >/dev/null
etcdctl del --prefix /brickfs/0123456789abcdef0123456789abcdef/ >/dev/null

say "what etcd has"
id=$(etcdctl get --print-value-only /brickfs/names/home)
grep -qE '^[0-9a-f]{32}$' <<<"$id" || die "the name has: $id"
etcdctl get --print-value-only "/brickfs/$id/map" >"$WORK/map"
[ "$(etcdctl get --prefix --keys-only /brickfs/ | grep -c .)" = 2 ] || die "other keys: $(etcdctl get --prefix --keys-only /brickfs/)"
json "$WORK/map" 'r["format"] == 1 and r["set"] == "'"$id"'" and r["holder"] is None and len({x["id"] for p in r["places"] for x in p["replicas"]}) == 6' || die "the map: $(cat "$WORK/map")"

say "status"
exits 0 set status "$SET" "${KNOWN[@]}"
[ "$(grep -c ': in sync; answers, 0 used$' "$WORK/out")" = 6 ] && grep -q '^all copies are in sync' "$WORK/out" || die "status: $(cat "$WORK/out")"
grep -q "^  $(brick a)/home (left): in sync" "$WORK/out" || die "no domains: $(cat "$WORK/out")"
exits 0 set status "$SET" --json "${KNOWN[@]}"
fields_are_documented "set status" "$WORK/out"
json "$WORK/out" 'r["verdict"] == "well" and r["troubles"] == [] and all(x["answers"] for p in r["places"] for x in p["replicas"])' || die "status --json: $(cat "$WORK/out")"
kill_brick_of_set b
exits 3 set status "$SET" "${KNOWN[@]}"
grep -q '^degraded: place 0: 1 of 2 copies in sync cannot be had now$' "$WORK/out" && grep -q 'in sync; no brickd listens there$' "$WORK/out" || die "a brick is away: $(cat "$WORK/out")"
kill_brick_of_set a
exits 4 set status "$SET" --json "${KNOWN[@]}"
json "$WORK/out" 'r["verdict"] == "broken" and len(r["troubles"]) == 3' || die "two bricks are away: $(cat "$WORK/out")"

say "copies in other states, by hand"
for name in a b; do start_brick_of_set "$name" --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"; done
python3 - "$WORK/map" <<'PYTHON'
import json, sys
map = json.load(open(sys.argv[1]))
map["generation"] = 9
map["holder"] = {"client": "0123456789abcdef", "name": "elsewhere\u001b[31m (pid 7)", "epoch": 8, "let_go": False}
map["places"][0]["replicas"][1] |= {"state": "stale", "since": 9}
map["places"][1]["replicas"][0] |= {"state": "syncing", "since": 7, "leaving": True}
json.dump(map, open(sys.argv[1], "w"))
PYTHON
etcdctl put "/brickfs/$id/map" <"$WORK/map" >/dev/null
exits 3 set status "$SET" "${KNOWN[@]}"
for line in '^generation: *9$' '^holder: .*elsewhere.x1b.31m (pid 7) since generation 8$' 'stale since generation 9; answers' 'syncing since generation 7, leaving; answers' '^degraded: place 1: 1 of 2 copies are in sync$'; do
  grep -q "$line" "$WORK/out" || die "status without $line: $(cat "$WORK/out")"
done

say "a create that is killed anywhere is completed by the next"
for delay in 0.01 0.02 0.03 0.05 0.07 0.1 0.2; do
  killed=etcd://127.0.0.1:$ETCD_PORT/killed${delay#*.}
  status=0; timeout -s KILL "$delay" "$BRICKCTL" set create "$killed" --replicas 2 "$(brick a)" "$(brick b)" "$(brick c)" "${ADMIN[@]}" >/dev/null 2>&1 || status=$?
  exits 0 set create "$killed" --replicas 2 "$(brick a)" "$(brick b)" "$(brick c)" "${ADMIN[@]}"
  exits 0 set status "$killed" "${KNOWN[@]}"
done

say "what is no map"
printf '{"format": 2}' | etcdctl put "/brickfs/$id/map" >/dev/null
refused 1 "the map in /brickfs/$id/map is not to be used: it is of format 2, made by a newer brickfs" set status "$SET"
echo nonsense | etcdctl put "/brickfs/$id/map" >/dev/null
refused 1 'it is no JSON object' set status "$SET"
refused 1 'it is no JSON object' "${CREATE[@]}" "${ADMIN[@]}"
etcdctl del "/brickfs/$id/map" >/dev/null
refused 1 "etcd has no key /brickfs/$id/map" set status "$SET"

say "volatile bricks forget"
exits 0 set create "$DEFAULT" --replicas 1 "$(brick v)" "${KNOWN[@]}"
exits 0 set status "$DEFAULT" "${KNOWN[@]}"
restart_v() { kill_brick_of_set v; start_brick_of_set v --secret-file "$WORK/clients"; }
restart_v
exits 0 set status "$DEFAULT" "${KNOWN[@]}"  # nobody has put anything there yet
SOURCE=$DEFAULT mount_brickfs "secret=$WORK/clients"
unmount_brickfs
restart_v
exits 4 set status "$DEFAULT" "${KNOWN[@]}"
grep -q 'answers, and has lost everything' "$WORK/out" || die "a volatile brick was started again: $(cat "$WORK/out")"

say "passed"
