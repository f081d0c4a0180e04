#!/usr/bin/env bash
# "Write, then tell the other side" between processes, and what is left of it when one of them, or the brick, is killed or stopped.
#   notify_test.sh tcp|rdma
. "$(dirname "$0")/../mount/lib.sh"
kind=$1
notify=$BUILD/tests/library_notify waits=$BUILD/tests/library_notify_wait
start_brick "$kind" 256M

reader() { "$notify" "$SOURCE" read "$1" >"$WORK/$2" 2>"$WORK/$2.log" & BACKGROUND_PIDS+=($!); reader=$!; }
writes() { timeout 60 "$notify" "$SOURCE" write "$@" 2>"$WORK/write.log" || die "$*: $(cat "$WORK/write.log")"; }
killed() { kill -9 "$1"; wait "$1" 2>/dev/null || true; }
has_lines() { [ "$(grep -c . "$WORK/$2")" -ge "$1" ]; }

say "what is written is read"
words=$(seq -f 'word %g' 200)
reader 200 read
mapfile -t all <<<"$words"
began=$(now_ms)
writes "${all[@]}"
say "200 messages there and back in $(($(now_ms) - began)) ms"
wait "$reader" || die "the reader fails: $(cat "$WORK/read.log")"
[ "$(cat "$WORK/read")" = "$words" ] || die "other words are read than were written"

say "a reader that is killed while it waits holds nobody up"
reader 3 killed
within 10 has_lines 1 killed || die "who comes late does not see the last word"
killed "$reader"
reader 3 next
within 10 has_lines 1 next || die "the next reader does not see the last word"
writes a b
wait "$reader" || die "the next reader fails"
[ "$(tail -n 2 "$WORK/next")" = $'a\nb' ] || die "the next reader reads something else"

say "a writer that is killed while it waits: the next one has the volume at once, and readers go on"
"$notify" "$SOURCE" write lost & writer=$!; BACKGROUND_PIDS+=("$writer")
is_holder() { "$BRICKCTL" status "$SOURCE" | grep -q "libbrickfs, pid $writer"; }
within 10 is_holder || die "the writer does not hold the volume"
sleep 0.5
killed "$writer"
"$waits" "$SOURCE" 1 3 30000 >"$WORK/waits" & waiter=$!; BACKGROUND_PIDS+=("$waiter")
within 10 has_lines 2 waits || die "the waiter does not see what the killed one wrote"
reader 2 after
within 10 has_lines 1 after || die "a reader does not see what the killed one wrote"
writes again
wait "$reader" || die "the reader fails"
[ "$(cat "$WORK/after")" = $'lost\nagain' ] || die "read: $(cat "$WORK/after")"
within 10 has_lines 3 waits || die "the waiter does not go on"
killed "$waiter"

say "a brick that is stopped: a wait keeps its time"
"$waits" "$SOURCE" 77 3 1000 >"$WORK/waits" & waiter=$!; BACKGROUND_PIDS+=("$waiter")
within 10 has_lines 1 waits || die "the waiter does not begin"
sleep 0.3
kill -STOP "$BRICKD_PID"
within 20 has_lines 4 waits || { kill -CONT "$BRICKD_PID"; die "waits do not end: $(cat "$WORK/waits")"; }
kill -CONT "$BRICKD_PID"
awk 'NR > 1 && !($1 == 0 && $4 >= 1000 && $4 < 2500) { exit 1 }' "$WORK/waits" || die "answers, value, news, ms: $(cat "$WORK/waits")"
wait "$waiter" || true

say "a brick that is killed and comes back: who waits learns that it has forgotten"
"$waits" "$SOURCE" 1 4 30000 >"$WORK/waits" & waiter=$!; BACKGROUND_PIDS+=("$waiter")
within 10 has_lines 2 waits || die "the waiter does not see the last word"
kill_brickd
restart_brickd
within 30 has_lines 5 waits || die "the waiter does not come back: $(cat "$WORK/waits")"
[ "$(sed -n 3p "$WORK/waits" | cut -d' ' -f1)" = -107 ] || die "no lost session: $(cat "$WORK/waits")"
[ "$(sed -n 4p "$WORK/waits")" = "reopened 1" ] || die "no restart: $(cat "$WORK/waits")"
[ "$(sed -n 5p "$WORK/waits" | cut -d' ' -f1-3)" = "1 0 -1" ] || die "what was forgotten is not learnt: $(cat "$WORK/waits")"
reader 1 last
writes "after all"
wait "$reader" || die "the reader fails"
within 10 has_lines 6 waits || die "the waiter does not hear of it"
[ "$(sed -n 6p "$WORK/waits" | cut -d' ' -f1-3)" = "1 9 1" ] || die "heard: $(cat "$WORK/waits")"
wait "$waiter" || die "the waiter fails"
