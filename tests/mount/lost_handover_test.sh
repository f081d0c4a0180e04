#!/usr/bin/env bash
# The volume is taken from the machine that is just handing it over: its mount is lost, and goes on as nobody's member. What its programs were told was done may be in no journal, and an fsync of theirs would not tell them. Others go on.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/shared_lib.sh"
start_shared_brick 512M
join_machine a
join_machine b
mkdir "$WORK/a/directory"
exec 5>"$WORK/a/directory/open"
[ -d "$WORK/b/directory" ] || die "a member does not see it"

# Whom it names says nothing, so it waits for that one for a while.
kill -STOP "$(machine_pid b)"
handing=0
timeout 90 "$BRICKCTL" handover --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/handover.out" 2>&1 & HANDOVER=$!
within 30 grep -q "handing the volume over" "$WORK/a.log" || die "it is not handed over: $(cat "$WORK/handover.out" "$WORK/a.log")"
join_machine c steal
kill -CONT "$(machine_pid b)"
wait "$HANDOVER" || handing=$?
[ "$handing" != 0 ] || die "the handover is said to have worked: $(cat "$WORK/handover.out")"

gone() { stat "$WORK/a/directory" >"$WORK/stat.out" 2>&1; grep -q "Stale file handle" "$WORK/stat.out"; }
within 30 gone || die "a mount that lost the volume lives: $(cat "$WORK/stat.out") $(tail -n 3 "$WORK/a.log")"
if sync "$WORK/a/directory/open" 2>/dev/null; then die "fsync succeeds on it"; fi
grep -q "not all was written when it was to be handed over" "$WORK/a.log" || die "it does not say so: $(tail -n 3 "$WORK/a.log")"
exec 5>&- || true
timeout 60 touch "$WORK/c/after" || die "who has the volume now cannot go on"
umount -l "$WORK/a"
umount -l "$WORK/b"
leave_machine c
