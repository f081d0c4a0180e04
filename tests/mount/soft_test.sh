#!/usr/bin/env bash
# A soft mount whose brick is dead: each waits once, who is killed ends, and so does brickfs behind an umount -l. Alone, as the coordinator of a shared
# volume, and as its member.
. "$(dirname "$0")/umount_lib.sh"
. "$TESTS/mount/shared_lib.sh"
TIMEO=9  # longer than a coordinator relies on what it knows without its bricks (7 s)
LINGER=3

# Programs on the mount at DIR, whose brickfs is PID and logs to LOG, while the brick is dead; then the mount goes.
look_at() {  # DIR PID LOG
  local programs status=0
  coproc PROGRAMS { exec timeout 300 python3 "$TESTS/mount/soft_mount.py" "$1/file" $((TIMEO + 2)) 2>&1; }
  programs=$PROGRAMS_PID
  exec {says}<&"${PROGRAMS[0]}" {tells}>&"${PROGRAMS[1]}"
  read -r -t 60 -u "$says" line && [ "$line" = ready ] || die "no programs: $line"
  exec 5<"$1/file.end"
  kill_brickd
  echo go >&"$tells"
  exec {tells}>&-
  cat <&"$says"
  wait "$programs" || status=$?
  [ "$status" = 0 ] || die "programs wait for longer, or fail: $status"
  grep -q "told of an I/O error: .* of inode [0-9]*: " "$3" || die "the log does not say why: $(cat "$3")"
  timeout 20 umount -l "$1" || die "umount -l fails: $?"
  exec 5<&-
  within $((LINGER + TIMEO + 20)) ended "$2" || die "brickfs outlives umount -l"
}

say "alone"
start_brickd --memory 512M --file "$WORK/store" --size 512M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_logged "soft,timeo=$TIMEO,linger=$LINGER"
look_at "$MNT" "$PID" "$WORK/mount.log"
rm "$WORK/store"

say "coordinator"
start_shared_brick 512M
join_machine a "soft,timeo=$TIMEO,linger=$LINGER"
look_at "$WORK/a" "$(machine_pid a)" "$WORK/a.log"

say "member"
restart_brickd
join_machine a
join_machine b "soft,timeo=$TIMEO,linger=$LINGER"
look_at "$WORK/b" "$(machine_pid b)" "$WORK/b.log"
kill -9 "$(machine_pid a)"
umount -l "$WORK/a"
