#!/usr/bin/env bash
# Unmodified programs by brickfs-run: what they do is what they do without it.
#   brickfs_run_test.sh tcp|file|memory SECONDS
. "$(dirname "$0")/lib.sh"
kind=$1
seconds=$2
run=$BUILD/fs/run/brickfs-run
start_brick "$kind" 512M
mount_brickfs ring=on
mkdir "$WORK/other"

say "the program that runs programs"
"$run" --version | grep '^brickfs-run [0-9]' >/dev/null || die "--version says nothing"
status=0; "$run" 2>"$WORK/err" || status=$?
[ "$status" = 2 ] && [ "$(wc -l <"$WORK/err")" = 1 ] || die "without a program: exit $status: $(cat "$WORK/err")"
status=0; "$run" --unknown 2>"$WORK/err" || status=$?
[ "$status" = 2 ] || die "an unknown option: exit $status"
status=0; "$run" "$WORK/nothing" 2>"$WORK/err" || status=$?
[ "$status" = 127 ] || die "no such program: exit $status"
status=0; "$run" "$WORK" 2>"$WORK/err" || status=$?
[ "$status" = 126 ] || die "a directory as a program: exit $status"
status=0; "$run" sh -c 'exit 7' || status=$?
[ "$status" = 7 ] || die "a program's exit code: $status"
[ "$("$run" -- printf '%s-' a 'b c' '')" = 'a-b c--' ] || die "arguments are changed"

say "a program in Python"
mkdir "$MNT/python"
BRICKFS_RUN_STATS=1 timeout $((60 + ${seconds%.*} * 10)) "$run" /usr/bin/python3 "$TESTS/mount/brickfs_run.py" "$MNT/python" "$WORK/other" "$seconds" 2>"$WORK/python.log" || die "it differs: $(cat "$WORK/python.log")"
for what in reads writes; do
  [ "$(calls_by_ring "$WORK/python.log" $what)" -gt 100 ] || die "no $what by a ring: $(cat "$WORK/python.log")"
done
grep -v '^brickfs-run:' "$WORK/python.log" && die "it says something"

say "sqlite3"
sqlite3 "$MNT/db" 'create table t(a integer primary key, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 30000) insert into t select x, hex(randomblob(40)) from c;'
cp "$MNT/db" "$WORK/db"
cat >"$WORK/statements" <<'SQL'
pragma cache_size = 10;
with recursive c(x) as (select 1 union all select x + 1 from c where x < 2000) select sum(length(b)) from c join t on t.a = c.x * 7919 % 30000 + 1;
update t set b = a || '-' || a where a % 97 = 5;
delete from t where a % 1013 = 7;
insert into t select a + 40000, b from t where a % 50 = 1;
select count(*), sum(length(b)) from t;
pragma integrity_check;
SQL
dd if="$MNT/db" iflag=nocache count=0 status=none  # what the kernel has cached it keeps serving
BRICKFS_RUN_STATS=1 "$run" sqlite3 "$MNT/db" <"$WORK/statements" >"$WORK/by_ring" 2>"$WORK/sqlite.log"
sqlite3 "$WORK/db" <"$WORK/statements" >"$WORK/by_kernel"
[ "$(calls_by_ring "$WORK/sqlite.log" reads)" -gt 100 ] || die "sqlite3 reads nothing by a ring: $(cat "$WORK/sqlite.log")"
cmp "$WORK/by_ring" "$WORK/by_kernel" || die "sqlite3 answers otherwise: $(diff "$WORK/by_ring" "$WORK/by_kernel" | head -n 5)"

say "git and tar"
mkdir "$MNT/tree"
"$run" cp -a /usr/include/linux/netfilter "$MNT/tree/"
diff -r /usr/include/linux/netfilter "$MNT/tree/netfilter"
"$run" sh -ec "cd '$MNT/tree' && git init -q && git add . && git -c user.name=a -c user.email=a@b.invalid commit -qm first && git gc -q && git fsck --strict" >"$WORK/git.log" 2>&1 || die "git: $(tail -n 3 "$WORK/git.log")"
"$run" sh -ec "cd '$MNT' && tar --format=posix -cf tree.tar tree && mkdir again && tar -C again -xf tree.tar"
[ "$(tree_checksum "$MNT/tree")" = "$(tree_checksum "$MNT/again/tree")" ] || die "tar loses something"

if command -v fio >/dev/null; then
  say "fio"
  fio --name=lay --filename="$MNT/fio" --size=16M --bs=1M --rw=write --direct=1 --ioengine=psync --output="$WORK/fio.log"
  for direct in 0 1; do
    BRICKFS_RUN_STATS=1 "$run" fio --name=job --filename="$MNT/fio" --size=16M --bs=4k --rw=randrw --direct="$direct" --ioengine=psync --verify_state_save=0 --verify=crc32c \
      --verify_backlog=64 --thread --numjobs=1 --output="$WORK/fio.log" 2>"$WORK/fio_stats.log" || die "fio: $(grep -i verify "$WORK/fio.log" | head -n 3)"
    [ "$direct" = 0 ] || [ "$(calls_by_ring "$WORK/fio_stats.log" writes)" -gt 100 ] || die "fio writes nothing by a ring: $(cat "$WORK/fio_stats.log")"
  done
fi

say "programs that cannot have it run as ever"
if printf 'int main(void) { return 5; }\n' | cc -static -x c -o "$WORK/static" - 2>/dev/null; then
  status=0; "$run" "$WORK/static" || status=$?
  [ "$status" = 5 ] || die "a static program: exit $status"
fi
cp /usr/bin/id "$WORK/id"; chmod 4755 "$WORK/id"; chmod 755 "$WORK"
cp "$run" "${run%/*}/libbrickfs-run.so" "$WORK"  # where everybody finds them
run=$WORK/brickfs-run
[ "$(setpriv --reuid 1234 --regid 1234 --clear-groups "$run" "$WORK/id" -u)" = 1234 ] || [ -u "$WORK/id" ] || die "a set-uid program"
setpriv --reuid 1234 --regid 1234 --clear-groups "$run" "$WORK/id" >/dev/null 2>"$WORK/err" || die "a set-uid program does not run: $(cat "$WORK/err")"

say "few rings, whatever is asked for"
dd if=/dev/zero of="$MNT/file" bs=64k count=1 status=none conv=fsync
mkdir "$WORK/live"
timeout 60 "$BRICKFS" memory:64M "$WORK/live" -o ring=on >"$WORK/live.log" 2>&1 || die "a second mount: $(cat "$WORK/live.log")"
cp "$MNT/file" "$WORK/live/file"
asks_for() {  # LEAST MOST ARGUMENT...
  local least=$1 most=$2 asked; shift 2
  BRICKFS_RUN_STATS=1 timeout 60 "$BUILD/fs/run/brickfs-run" /usr/bin/python3 "$TESTS/mount/brickfs_run_rings.py" "$@" 2>"$WORK/rings.log" || die "it fails: $(cat "$WORK/rings.log")"
  asked=$(sed -n 's/.*; rings: //p' "$WORK/rings.log")
  [ "$asked" -ge "$least" ] && [ "$asked" -le "$most" ] || die "$1: $asked rings are asked for, not $least to $most: $(cat "$WORK/rings.log")"
}
asks_for 2 2 alternate 1000 "$MNT/file" "$WORK/live/file"
[ "$(calls_by_ring "$WORK/rings.log" reads)" -gt 900 ] || die "two mounts: $(cat "$WORK/rings.log")"
asks_for 64 64 threads 80 200 "$MNT/file"
mkfifo "$WORK/line"
(ulimit -n 4096; exec "$BUILD/tests/ring_load" crowd "$MNT/file") <"$WORK/line" >"$WORK/told" 2>"$WORK/ring_load.log" &
crowd=$!
BACKGROUND_PIDS+=("$crowd")
exec 7>"$WORK/line"
within 60 grep -q . "$WORK/told" || die "no crowd: $(cat "$WORK/ring_load.log")"
asks_for 3 8 alternate 2000 "$MNT/file"
[ "$(calls_by_ring "$WORK/rings.log" reads)" = 0 ] || die "there is one more ring"
echo >&7
exec 7>&-
wait "$crowd" || die "who had all rings: $(cat "$WORK/ring_load.log")"
unmount_brickfs "$WORK/live"

say "signals in the middle of calls"
dd if=/dev/zero of="$MNT/file" bs=1M count=2 status=none conv=fsync
BRICKFS_RUN_STATS=1 timeout 60 "$BUILD/fs/run/brickfs-run" "$BUILD/tests/run_signals" jump "$MNT/file" 2>"$WORK/jump.log" || die "a call that a handler leaves: $(cat "$WORK/jump.log")"
[ "$(calls_by_ring "$WORK/jump.log" writes)" -gt 500 ] || die "it writes nothing by a ring: $(cat "$WORK/jump.log")"
say "an error is said once"
BRICKFS_RUN_STATS=1 timeout 60 "$BUILD/fs/run/brickfs-run" "$BUILD/tests/run_signals" limit "$MNT/file" 2>"$WORK/limit.log" || die "a limit: $(cat "$WORK/limit.log")"
[ "$(calls_by_ring "$WORK/limit.log" writes)" -gt 500 ] || die "it writes nothing by a ring: $(cat "$WORK/limit.log")"
if [ "$kind" = tcp ]; then
  unmount_brickfs
  mount_brickfs ring=on,soft,timeo=3
  mkfifo "$WORK/soft.line"
  "$BUILD/fs/run/brickfs-run" "$BUILD/tests/run_signals" wait "$MNT/file" pread 0 0 <"$WORK/soft.line" >"$WORK/soft.out" 2>"$WORK/soft.log" &
  waiter=$!
  BACKGROUND_PIDS+=("$waiter")
  exec 7>"$WORK/soft.line"
  within 20 grep -q begun "$WORK/soft.out" || die "it does not begin: $(cat "$WORK/soft.log")"
  kill_brickd
  began=$(now_ms)
  exec 7>&-
  status=0; wait "$waiter" || status=$?
  took=$(($(now_ms) - began))
  [ "$status" = 1 ] && grep -q 'Input/output error' "$WORK/soft.log" || die "a soft mount without a brick: exit $status, $(cat "$WORK/soft.log")"
  [ "$took" -ge 2500 ] && [ "$took" -le 5000 ] || die "timeo=3: EIO after $took ms"
  restart_brickd
  unmount_brickfs
  mount_brickfs ring=on
  say "signals while the brick is away"
  # Each waits for a line before the call that is to wait: begin NAME COMMAND...; PIDS, LINES by name.
  declare -A PIDS LINES
  begin() {
    local name=$1 line; shift
    mkfifo "$WORK/$name.line"
    "$BUILD/fs/run/brickfs-run" "$@" <"$WORK/$name.line" >"$WORK/$name.out" 2>"$WORK/$name.log" &
    PIDS[$name]=$!
    BACKGROUND_PIDS+=("${PIDS[$name]}")
    exec {line}>"$WORK/$name.line"
    LINES[$name]=$line
  }
  place=0
  for call in read write pread pwrite; do
    begin "$call.ended" "$BUILD/tests/run_signals" wait "$MNT/file" "$call" "$((place++))" 0
    begin "$call.told" "$BUILD/tests/run_signals" wait "$MNT/file" "$call" "$((place++))" 2
    begin "$call.other" "$BUILD/tests/run_signals" wait "$MNT/file" "$call" "$((place++))" 10
  done
  for name in "${!PIDS[@]}"; do within 20 grep -q begun "$WORK/$name.out" || die "$name: it does not begin"; done
  dd if=/dev/zero of="$MNT/dd" bs=4k count=200 status=none conv=fsync
  begin dd.ended dd of="$MNT/dd" bs=4k iflag=fullblock oflag=direct conv=notrunc status=none
  head -c 400k /dev/zero >&"${LINES[dd.ended]}"
  has_written() { [ "$(awk '/^pos:/ { print $2 }' "/proc/${PIDS[dd.ended]}/fdinfo/1")" = 409600 ]; }
  within 20 has_written || die "dd does not begin"
  kill_brickd
  for name in "${!PIDS[@]}"; do head -c 4k /dev/zero >&"${LINES[$name]}"; done
  sleep 0.5
  for name in "${!PIDS[@]}"; do
    case $name in
      *.ended) kill -TERM "${PIDS[$name]}" ;;
      *.told) kill -INT "${PIDS[$name]}" ;;
      *.other) kill -USR1 "${PIDS[$name]}" ;;
    esac
  done
  is_none() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status"; }
  for name in "${!PIDS[@]}"; do
    [ "${name#*.}" != other ] || continue
    within 5 is_none "${PIDS[$name]}" || die "$name: a signal does not end it while the brick is away"
    status=0; wait "${PIDS[$name]}" || status=$?
    case $name in
      *.ended) [ "$status" = 143 ] || die "$name: exit $status, $(cat "$WORK/$name.log")" ;;
      *.told) [ "$status" = 43 ] && [ "$(tr '\n' ' ' <"$WORK/$name.out")" = "begun handled EINTR " ] || die "$name: exit $status, $(cat "$WORK/$name."*)" ;;
    esac
  done
  for call in read write pread pwrite; do
    is_none "${PIDS[$call.other]}" && die "$call: any signal ends it while the brick is away"
    [ "$(cat "$WORK/$call.other.out")" = begun ] || die "$call: a handler runs in the middle of it: $(cat "$WORK/$call.other.out")"
  done
  restart_brickd
  for call in read write pread pwrite; do
    status=0; within 20 is_none "${PIDS[$call.other]}" && wait "${PIDS[$call.other]}" || status=$?
    [ "$status" = 0 ] && [ "$(tr '\n' ' ' <"$WORK/$call.other.out")" = "begun handled did 4096 h " ] || die "$call: exit $status, $(cat "$WORK/$call.other."*)"
  done
  for name in "${!PIDS[@]}"; do
    line=${LINES[$name]}
    exec {line}>&-
  done
fi

say "an unmount right after a program"
for round in 1 2 3 4 5; do
  dd if=/dev/zero of="$MNT/file" bs=64k count=16 oflag=direct status=none
  BRICKFS_RUN_STATS=1 "$run" dd if=/dev/zero of="$MNT/file" bs=4k count=200 conv=notrunc oflag=direct status=none 2>"$WORK/dd.log"
  umount "$MNT" || die "round $round: it is busy"
  [ "$(calls_by_ring "$WORK/dd.log" writes)" -gt 100 ] || die "dd writes nothing by a ring: $(cat "$WORK/dd.log")"
  within 20 sh -c "! grep -q '$MNT' /proc/self/mounts"
  sleep 0.2
  [ "$kind" = memory ] || within 60 "$BRICKCTL" check "$SOURCE" || die "damage"
  mount_brickfs ring=on
done
unmount_brickfs
say "done"
