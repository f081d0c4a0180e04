#!/usr/bin/env bash
# A shared volume with many files whose coordinator hands it over, and is killed: how long the programs of the members wait at most. The bound of a minute is for
# hangs; the figures are what is asked.   BRICKFS_BUILD=DIR tests/stress/many_files.sh [FILES [BRICK_SIZE]]
. "$(dirname "$0")/../mount/lib.sh"
. "$TESTS/mount/shared_lib.sh"
files=${1:-1000000} size=${2:-4G}
[[ $files =~ ^[0-9]+$ ]] || die "usage: $0 [FILES [BRICK_SIZE]]"
start_shared_brick "$size"
for machine in a b c d; do join_machine "$machine"; done

began=$(now_ms)
python3 - "$WORK/a/many" "$files" <<'P'
import os, sys
where, files = sys.argv[1], int(sys.argv[2])
os.mkdir(where)
for number in range(files):
    if number % 1000 == 0:
        directory = f"{where}/{number // 1000}"
        os.mkdir(directory)
    os.close(os.open(f"{directory}/{number % 1000}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
P
say "$files files made by the coordinator in $(($(now_ms) - began)) ms"

MACHINES="b c d"
start_work handed
wait_for_rounds
"$BRICKCTL" handover --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/handover.log" 2>&1 || die "$(cat "$WORK/handover.log")"
wait_for_rounds
check_work handed "handed over with $files files" 60

pid=$(machine_pid "$(coordinator)")
for machine in $MACHINES; do coordinates "$machine" && killed=$machine; done
# shellcheck disable=SC2001  # one word of several
MACHINES=$(echo "a b c d" | sed "s/$killed//")
start_work killed
wait_for_rounds
kill -9 "$pid"
umount -l "$WORK/$killed"
wait_for_rounds
check_work killed "killed with $files files" 60
for machine in $MACHINES; do leave_machine "$machine"; done
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }
