#!/usr/bin/env bash
# The map of a set is lost with etcd, or is from a backup that the copies have gone beyond: it is made again from what they say.
. "$(dirname "$0")/lib.sh"
etcdctl() { command etcdctl --endpoints "127.0.0.1:$ETCD_PORT" "$@"; }
secret admin "the administrator's line"
secret clients "the clients' line"
start_etcd only
for name in a b c; do start_brick_of_set "$name" --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"; done
BRICKS=("$(brick a)" "$(brick b)" "$(brick c)")
KNOWN=(--secret-file "$WORK/clients")
SOURCE=etcd://127.0.0.1:$ETCD_PORT/home
exits 0 set create "$SOURCE" --replicas 2 "${BRICKS[@]}" "${KNOWN[@]}" --admin-secret-file "$WORK/admin" --domain "${BRICKS[0]}=rack"
mount_home() { mount_brickfs "secret=$WORK/clients"; }
put() { head -c 5M /dev/urandom >"$WORK/$1"; cp "$WORK/$1" "$MNT/$1"; }
has() { for file in "$@"; do cmp "$WORK/$file" "$MNT/$file" || die "$file is not what was written"; done; }
RECOVER=(set recover "$SOURCE" "${BRICKS[@]}" "${KNOWN[@]}")
restart_etcd_from() {  # SNAPSHOT, or nothing: an empty one, on the same ports
  kill_etcd only
  rm -rf "$WORK/etcd-only"
  [ -z "$1" ] || command etcdctl snapshot restore "$1" --data-dir "$WORK/etcd-only" --name only "${ETCD_CLUSTER[@]}" >/dev/null 2>&1 || die "the snapshot is not restored"
  run_etcd only || die "etcd does not start again: $(tail -n 1 "$WORK/etcd-only.log")"
}
ETCD_CLUSTER=()
for ((i = 0; i < ${#ETCD_COMMAND[@]}; ++i)); do
  case ${ETCD_COMMAND[i]} in
    --initial-advertise-peer-urls | --initial-cluster) ETCD_CLUSTER+=("${ETCD_COMMAND[@]:i:2}") ;;
  esac
done

say "a map that is as it should be"
mount_home
put first
refused 1 'is held by' "${RECOVER[@]}"
unmount_brickfs
exits 0 "${RECOVER[@]}" --json
fields_are_documented "set recover" "$WORK/out"
json "$WORK/out" '(r["needed"], r["done"]) == (False, False)' || die "recover: $(cat "$WORK/out")"

say "etcd is restored from a snapshot one mount old"
etcdctl snapshot save "$WORK/snapshot" >/dev/null 2>&1
mount_home
put second
unmount_brickfs
restart_etcd_from "$WORK/snapshot"
if said=$(timeout 60 "$BRICKFS" "$SOURCE" "$MNT" -o "secret=$WORK/clients" 2>&1); then die "an old map is mounted"; fi
grep -q 'old backup' <<<"$said" || die "mount says: $said"
exits 4 set status "$SOURCE" "${KNOWN[@]}"
grep -q 'no mount takes the volume' "$WORK/out" && ! grep -q 'in sync;' "$WORK/out" || die "status: $(cat "$WORK/out")"
before=$(etcdctl get --prefix /brickfs/)
exits 0 "${RECOVER[@]}" --dry-run
grep -q 'would be of generation' "$WORK/out" || die "--dry-run: $(cat "$WORK/out")"
[ "$before" = "$(etcdctl get --prefix /brickfs/)" ] || die "--dry-run has written something"
exits 0 "${RECOVER[@]}"
exits 0 set status "$SOURCE" "${KNOWN[@]}"
grep -q '^all copies are in sync' "$WORK/out" && grep -q '(rack)' "$WORK/out" || die "status: $(cat "$WORK/out")"
mount_home
has first second
put third

say "etcd is lost while it is mounted, and the client dies"
kill -9 "$(brickfs_pid "$MNT")"
umount -l "$MNT"
restart_etcd_from ""
refused 1 'knows no set home' set status "$SOURCE" "${KNOWN[@]}"
exits 0 "${RECOVER[@]}"
[ "$(grep -c 'copied from the other' "$WORK/out")" = 3 ] || die "recover after a crash: $(cat "$WORK/out")"
exits 3 set status "$SOURCE" "${KNOWN[@]}"
mount_home
has first second
exits 0 set status "$SOURCE" "${KNOWN[@]}" --wait
grep -q '^all copies are in sync' "$WORK/out" || die "status: $(cat "$WORK/out")"
unmount_brickfs
exits 0 check "$SOURCE" "${KNOWN[@]}"

say "etcd is lost, and the volume was unmounted"
restart_etcd_from ""
refused 1 'there is no copy of place' set recover "$SOURCE" "$(brick a)" "${KNOWN[@]}"
exits 0 "${RECOVER[@]}"
exits 0 set status "$SOURCE" "${KNOWN[@]}"
mount_home
has first second
unmount_brickfs

say "passed"
