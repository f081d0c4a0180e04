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
