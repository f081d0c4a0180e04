#!/usr/bin/env bash
# brickctl explain names what is wrong with a mount or a brick, and says so by its exit code.
#   explain_test.sh
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/json_lib.sh"
. "$(dirname "$0")/disk_lib.sh"

explain() { timeout 20 "$BRICKCTL" explain "$@" >"$WORK/explained" 2>&1; }
# EXIT PATTERN ARGUMENTS...: it ends with that (a shell pattern), and says that.
explains() {
  local want=$1 pattern=$2 status=0; shift 2
  explain "$@" || status=$?
  [[ $status = $want ]] && grep -E -- "$pattern" "$WORK/explained" >/dev/null
}
must_explain() { explains "$@" || die "explain: $(cat "$WORK/explained")"; }
brickfs_pid_of() { pgrep -f "^$WORK/brickfs .* $1\$" | head -n 1; }
soon_explains() { local seconds=$1; shift; within "$seconds" explains "$@" || die "explain: $(cat "$WORK/explained")"; }

head -c 24 /dev/urandom | base64 >"$WORK/secret"
chmod 600 "$WORK/secret"
start_brickd --memory 256M --file "$DISK/store" --size 256M --volume small:16M --secret-file "$WORK/secret"
at=tcp://127.0.0.1:$BRICKD_PORT
SOURCE=$at/default
with=(--secret-file "$WORK/secret")

say "a brick that is well, and what speaks against one"
must_explain 0 '^nothing is wrong$' "$SOURCE" "${with[@]}"
must_explain 4 '^broken: link: the secret is wrong or missing' "$SOURCE"
must_explain 4 'broken: link: the brick has no volume nothing' "$at/nothing" "${with[@]}"
must_explain 4 'broken: link: nobody here knows a host of that name' tcp://no-such-host.invalid/default
must_explain 4 'broken: link: no brickd listens there' tcp://127.0.0.1:1/default
must_explain 1 'is not on a brickfs mount' "$WORK"
must_explain 1 'is not on a brickfs mount' /nowhere

say "a mount that is well, its volume held"
mount_brickfs "secret=$WORK/secret"
must_explain 0 '^nothing is wrong$' "$MNT"
mkdir "$MNT/dir"
must_explain 0 "^$MNT: $SOURCE \\(tcp\\), brickfs" "$MNT/dir/"
(cd "$MNT/dir" && must_explain 0 '^nothing is wrong$' .)
must_explain 0 '^note: volume: held by .*pid' "$SOURCE" "${with[@]}"
if [ "${BRICKFS_IO_URING:-auto}" = auto ]; then
  case $(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null) in
    N) must_explain 0 '^ *FUSE over io_uring is switched off here; as root: echo Y > /sys' "$MNT" ;;
    Y) must_explain 0 '^nothing is wrong$' "$MNT"; ! grep -q io_uring "$WORK/explained" || die "explain: $(cat "$WORK/explained")" ;;
    *) must_explain 0 "^ *this kernel's FUSE has no io_uring" "$MNT" ;;
  esac
fi
if unshare --mount true 2>/dev/null; then  # a container often has no /sys
  mkdir "$WORK/blind"
  unshare --mount --propagation private sh -c 'mount -t tmpfs none /sys/module && exec "$0" memory:16M "$1" -f' "$BRICKFS" "$WORK/blind" >>"$WORK/blind.log" 2>&1 &
  blind=$!
  BACKGROUND_PIDS+=("$blind")
  within 20 grep 'is mounted at' "$WORK/blind.log" || die "no mount without /sys/module: $(cat "$WORK/blind.log")"
  timeout 20 nsenter --mount="/proc/$blind/ns/mnt" "$BRICKCTL" explain "$WORK/blind" >"$WORK/explained" || die "explain: $(cat "$WORK/explained")"
  grep "whether this kernel's FUSE has io_uring cannot be seen" "$WORK/explained" >/dev/null || die "explain: $(cat "$WORK/explained")"
  kill "$blind"
  within 20 test ! -s "/proc/$blind/cmdline" || die "it does not end"
fi
explain "$MNT" --json
fields_are_documented explain "$WORK/explained" || die "explain --json"
json "$WORK/explained" 'r["verdict"] == "well" and r["source"] and r["mountpoint"] and r["state"]["link"] == "connected"' || die "explain --json: $(cat "$WORK/explained")"
json "$WORK/explained" 'r["state"]["inodes"] == 2 and r["state"]["durable"] and not r["state"]["soft"]' || die "explain --json: $(cat "$WORK/explained")"
python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))["state"]))' "$WORK/explained" >"$WORK/state"
fields_are_documented state "$WORK/state" || die "the state"

say "a user's mount: root may ask, and others are told that they may not"
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
chmod 755 "$WORK"
install -d -o 65534 -g 65534 "$WORK/user" "$WORK/user/mnt"
install -m 755 "$BRICKFS" "$WORK/brickfs"  # where everybody finds them
install -m 755 "$BRICKCTL" "$WORK/brickctl"
as_nobody "$WORK/brickfs" memory:64M "$WORK/user/mnt"
must_explain 0 '^nothing is wrong$' "$WORK/user/mnt"
as_nobody timeout 20 "$WORK/brickctl" explain "$WORK/user/mnt" >"$WORK/explained" || die "a user may not ask his own mount: $(cat "$WORK/explained")"
status=0; setpriv --reuid=65533 --regid=65533 --clear-groups timeout 20 "$WORK/brickctl" explain "$WORK/user/mnt" >"$WORK/out" 2>"$WORK/explained" || status=$?
[ "$status" = 1 ] && grep 'is a mount of user 65534, who alone may ask it: as that user, or as root' "$WORK/explained" >/dev/null || die "another user: exit $status: $(cat "$WORK/explained")"
user=$(brickfs_pid_of "$WORK/user/mnt")
kill -STOP "$user"
must_explain 4 '^broken: mount: brickfs does not answer' "$WORK/user/mnt"
kill -CONT "$user"
unmount_as_user "$WORK/user/mnt" as_nobody

say "the brick is stopped"
kill -STOP "$BRICKD_PID"
soon_explains 10 4 '^broken: link: .*has not answered for' "$MNT"
kill -CONT "$BRICKD_PID"
soon_explains 20 0 '^nothing is wrong$' "$MNT"

say "the brick is dead"
kill_brickd
soon_explains 10 4 '^broken: link: brick unreachable: .*operations wait' "$MNT"
grep '^broken: link: asked now: no brickd listens there' "$WORK/explained" >/dev/null || die "explain: $(cat "$WORK/explained")"
restart_brickd
soon_explains 20 0 '^nothing is wrong$' "$MNT"

say "commits wait for the store's disk"
FROZEN=1
fsfreeze -f "$DISK"
echo late >"$MNT/late" &  # waits too, if a commit was under way
late=$!
BACKGROUND_PIDS+=("$late")
soon_explains 20 '[34]' '^(warning: commit: nothing was committed for|broken: store: the brick answers others: a call of this mount is stuck)' "$MNT"
fsfreeze -u "$DISK"
FROZEN=
wait "$late"
soon_explains 20 0 '^nothing is wrong$' "$MNT"

say "brickfs is stopped"
pid=$(brickfs_pid)
kill -STOP "$pid"
must_explain 4 "^broken: mount: brickfs \\(pid $pid\\) is stopped" "$MNT"
kill -CONT "$pid"
must_explain 0 '^nothing is wrong$' "$MNT"

say "the volume is nearly full, and full"
free_bytes() { stat -f -c '%a %S' "$MNT" | { read -r units unit; echo $((units * unit)); }; }
while [ "$(free_bytes)" -gt $((5 << 20)) ]; do dd if=/dev/zero of="$MNT/fill0" bs=512k count=$((($(free_bytes) - (4 << 20)) / (512 << 10))) oflag=append conv=notrunc,fsync status=none; done
soon_explains 10 3 '^warning: space: the volume is nearly full: .* of .* are free' "$MNT"
dd if=/dev/zero of="$MNT/fill" bs=1M status=none 2>/dev/null || true
dd if=/dev/zero of="$MNT/fill2" bs=4k status=none 2>/dev/null || true
soon_explains 10 '[34]' '^(broken: space: the volume is full|warning: space: the volume is nearly full)' "$MNT"
explains '[34]' "brickctl volume resize $at default:SIZE" "$MNT" || die "the cure is not named: $(cat "$WORK/explained")"
rm "$MNT"/fill*
sync -f "$MNT"
soon_explains 10 0 '^nothing is wrong$' "$MNT"

say "the volume is taken over"
mkdir "$WORK/other"
as_another_host "$BRICKFS" "$SOURCE" "$WORK/other" -f -o "steal,secret=$WORK/secret" >>"$WORK/other.log" 2>&1 &
BACKGROUND_PIDS+=("$!")
soon_explains 20 4 '^broken: link: .*taken over' "$MNT"
soon_explains 10 4 '^note: volume: held by ' "$MNT"
thief=$(brickfs_pid "$WORK/other")
kill -TERM "$thief"
within 30 test ! -d "/proc/$thief" || die "the thief does not end: $(cat "$WORK/other.log")"
umount "$MNT" 2>/dev/null || umount -l "$MNT"

say "a mount that died"
brickfs_is_gone() { ! brickfs_pid; }
within 20 brickfs_is_gone || die "brickfs does not end"
mount_brickfs "secret=$WORK/secret,max_metadata=1M"
name_is_taken() { : >"$MNT/a-name-that-is-rather-long-$1"; }
for i in $(seq 1 10000); do
  name_is_taken "$i" 2>/dev/null || die "no name more, and no warning before: $(cat "$WORK/explained")"
  [ $((i % 50)) != 0 ] || ! explains 3 '^warning: memory: inodes and names take .* that max_metadata= allows$' "$MNT" || break
done
for i in $(seq 10001 20000); do name_is_taken "$i" 2>/dev/null || break; done
must_explain 4 '^broken: memory: inodes and names take .*ENOSPC' "$MNT"
kill -9 "$(brickfs_pid)"
soon_explains 5 4 '^broken: mount: it is dead' "$MNT"
umount -l "$MNT"
