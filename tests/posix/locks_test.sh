#!/usr/bin/env bash
# Locks on a mount that shares its volume (-o shared): as on any file system, though the kernel keeps none by itself. And without `shared` it does.
. "$(dirname "$0")/../mount/lib.sh"
start_brick tcp 512M
kinds() { timeout 10 "$BRICKCTL" stats --json "$MNT" | python3 -c 'import json, sys; print(*(operation["name"] for operation in json.load(sys.stdin)["operations"]))'; }

say "the same cases on another file system"
mkdir "$WORK/other"
timeout 120 python3 "$TESTS/posix/locks.py" "$WORK/other" || die "a case that is none"

say "shared"
mount_brickfs shared
timeout 200 python3 "$TESTS/posix/locks.py" "$MNT" || die "a lock"
kinds | grep -w lock >/dev/null || die "no lock was asked of brickfs: $(kinds)"

say "a database in both modes, with two writers; a repository; a line of people's"
for mode in delete wal; do
  sqlite3 "$MNT/$mode.db" "PRAGMA journal_mode=$mode; CREATE TABLE t(n INTEGER)" >/dev/null
  writers=()
  for n in 1 2; do
    for _ in 1 2 3 4 5 6 7 8; do sqlite3 -cmd '.timeout 60000' "$MNT/$mode.db" "BEGIN IMMEDIATE; INSERT INTO t VALUES ($n); COMMIT"; done &
    writers+=($!)
  done
  for writer in "${writers[@]}"; do wait "$writer" || die "a writer fails"; done
  [ "$(sqlite3 "$MNT/$mode.db" 'PRAGMA integrity_check; SELECT count(*) FROM t' | tr '\n' ' ')" = "ok 16 " ] || die "a database in mode $mode"
done
export HOME=$WORK GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@example GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@example
git init -q "$MNT/repository"
cp -a "$TESTS/posix/." "$MNT/repository/"
git -C "$MNT/repository" add -A
git -C "$MNT/repository" commit -q -m one
git -C "$MNT/repository" gc -q
git -C "$MNT/repository" fsck --full --strict >"$WORK/fsck.log" 2>&1 || die "git fsck: $(cat "$WORK/fsck.log")"
flock "$MNT/line" sleep 3 &
BACKGROUND_PIDS+=($!)
within 5 eval "! flock -n '$MNT/line' true" || die "flock(1) keeps nothing"
flock -w 20 "$MNT/line" true || die "flock(1) gets nothing"

say "a mount that ends leaves nobody waiting"
flock -F "$MNT/line" sleep 300 &
holder=$!
BACKGROUND_PIDS+=("$holder")
within 5 eval "! flock -n '$MNT/line' true"
flock "$MNT/line" true 2>/dev/null &
waiter=$!
BACKGROUND_PIDS+=("$waiter")
sleep 0.3
kill "$(brickfs_pid)"
within 20 test ! -d "/proc/$waiter" || die "whoever waits for a lock waits for a mount that has gone"
within 30 eval '! brickfs_pid' || die "brickfs does not end"
kill "$holder" 2>/dev/null || true
umount -l "$MNT" 2>/dev/null || true
check_volume

say "not shared"
mount_brickfs
timeout 200 python3 "$TESTS/posix/locks.py" "$MNT" || die "a lock that the kernel keeps"
if kinds | grep -w lock >/dev/null; then die "locks were asked of brickfs: $(kinds)"; fi
unmount_brickfs
