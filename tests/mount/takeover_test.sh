#!/usr/bin/env bash
# One volume on four machines, whose coordinator dies, ends, or stops: a member takes its place, programs see a pause and no error, nothing answered is lost, nothing is done twice.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/shared_lib.sh"
start_shared_brick 1G
chmod 755 "$WORK"
for machine in a b c d; do join_machine "$machine"; done
MACHINES="b c d"  # all but the first coordinator

say "the coordinator is killed"
start_work killed
wait_for_rounds
kill -9 "$(machine_pid a)"
umount -l "$WORK/a"
wait_for_rounds
check_work killed "killed"
grep -h 'has taken its place' "$WORK"/[b-d].log >/dev/null || die "nobody says that it has taken the place"

say "a new coordinator that unmounts: who is left goes on"
taker=$(coordinator)
before=$(lines_of_log)
leave_machine "$taker"
for machine in $MACHINES; do
  [ "$machine" = "$taker" ] && continue
  timeout 30 sh -c "echo ${machine} >>'$WORK/$machine/log'" || die "$machine does not go on"
done
for machine in $MACHINES; do
  [ "$machine" = "$taker" ] || [ "$(timeout 20 wc -l <"$WORK/$machine/log")" = $((before + 2)) ] || die "$machine sees other lines"
done
join_machine "$taker"

say "a coordinator that is stopped for longer than its lease, and continued: another has its place, and it harms nothing"
stopped=$(coordinator)
for machine in $MACHINES; do [ "$machine" = "$stopped" ] || other=$machine; done
pid=$(machine_pid "$stopped")
kill -STOP "$pid"
timeout 60 sh -c "echo through >'$WORK/$other/after'" || { kill -CONT "$pid"; die "nobody takes its place"; }
kill -CONT "$pid"
[ "$(timeout 20 cat "$WORK/$other/after")" = through ] || die "it is lost"
sleep 1
[ "$(timeout 20 cat "$WORK/$other/after")" = through ] || die "who was stopped changes it"
unmount_brickfs "$WORK/$stopped" 2>/dev/null || umount -l "$WORK/$stopped"
for machine in $MACHINES; do [ "$machine" = "$stopped" ] || leave_machine "$machine"; done
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }

say "who has taken the place ends when it is told to, though the brick is gone"
join_machine b
join_machine c
kill -9 "$(machine_pid b)"
umount -l "$WORK/b"
timeout 60 sh -c "echo on >'$WORK/c/taken'" || die "nobody takes its place"
[ "$(coordinator)" = c ] || die "c has not taken it"
pid=$(machine_pid c)
kill_brickd
timeout 10 sh -c "echo lost >'$WORK/c/lost'" || true
kill -TERM "$pid"
within 60 test ! -d "/proc/$pid" || die "it goes on: $(tail -n 3 "$WORK/c.log")"
umount -l "$WORK/c" 2>/dev/null || true
