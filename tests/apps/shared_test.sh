#!/usr/bin/env bash
# Applications on four machines with one volume: databases, mail, repositories, arrays; and again while who coordinates is killed, of which no program hears.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/shared_lib.sh"
need git sqlite3 fio
export GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=t GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=t@t GIT_CONFIG_KEY_2=safe.directory GIT_CONFIG_VALUE_2='*'
start_four_machines 2G

insert_rows() {  # DATABASE FIRST COUNT
  python3 - "$@" <<'P'
import sqlite3, sys
path, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
db = sqlite3.connect(path, isolation_level=None, timeout=120)
for i in range(first, first + count): db.execute("insert into t values (?, ?)", (i, "x" * 50))
P
}
rows_of() { sqlite3 "$1" 'pragma integrity_check; select count(*) from t' | tr '\n' ' '; }
for journal in delete persist; do
  say "sqlite with a rollback journal ($journal), written by all at once"
  sqlite3 "$A/$journal.db" "pragma journal_mode = $journal; create table t(a integer primary key, b)" >/dev/null
  first=0
  for machine in $A $B $C; do begin insert_rows "$machine/$journal.db" "$first" 10; first=$((first + 10)); done
  all_end "an insertion fails"
  for machine in $A $B $D; do [ "$(rows_of "$machine/$journal.db")" = "ok 30 " ] || die "$machine: $(rows_of "$machine/$journal.db")"; done
done
say "sqlite with WAL, by programs of one machine"
for machine in $A $B; do
  sqlite3 "$machine/wal.db" "pragma journal_mode = wal; create table t(a integer primary key, b)" >/dev/null
  for first in 0 10 20; do begin insert_rows "$machine/wal.db" "$first" 10; done
  all_end "an insertion fails"
  [ "$(rows_of "$machine/wal.db")" = "ok 30 " ] && [ "$(rows_of "$C/wal.db")" = "ok 30 " ] || die "$machine: $(rows_of "$machine/wal.db")"
  rm "$machine"/wal.db*
done

say "git: pushed from one, collected by another, read by a third"
push_commits() { local i; for i in $(seq 5); do echo "$i" >"$B/clone/f" && git -C "$B/clone" commit -qam "$i" && git -C "$B/clone" push -q origin HEAD:main || return 1; done; }
collect() { local i; for i in 1 2 3; do git -C "$C/bare.git" gc -q || return 1; done; }
git init -q --bare "$A/bare.git"
git clone -q "$B/bare.git" "$B/clone" 2>/dev/null
cp -r /usr/include/linux/usb "$B/clone/usb"
echo 0 >"$B/clone/f"
git -C "$B/clone" add -A && git -C "$B/clone" commit -qm first
begin push_commits
begin collect
all_end "git fails"
[ "$(git -C "$D/bare.git" rev-list --count main)" = 6 ] && git -C "$D/bare.git" fsck --strict --no-progress || die "a repository that three machines use"

say "mail: delivered and taken by all"
deliver() {
  python3 - "$1" <<'P'
import os, sys
machine = sys.argv[1]
mail = machine + "/mail"
for i in range(40):
    name = f"{machine[-1]}.{i}"
    fd = os.open(f"{mail}/tmp/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.write(fd, b"mail " * 50); os.fsync(fd); os.close(fd)
    if i % 2: os.link(f"{mail}/tmp/{name}", f"{mail}/new/{name}"); os.unlink(f"{mail}/tmp/{name}")
    else: os.rename(f"{mail}/tmp/{name}", f"{mail}/new/{name}")
    for got in os.listdir(mail + "/new")[:2]:
        try: os.rename(f"{mail}/new/{got}", f"{mail}/cur/{got}:2,")
        except FileNotFoundError: pass  # another took it
P
}
mkdir -p "$A"/mail/{tmp,new,cur}
for machine in $A $B $C $D; do begin deliver "$machine"; done
all_end "a delivery fails"
for machine in $A $B $C $D; do
  [ "$(find "$machine"/mail/new "$machine"/mail/cur -type f -size 250c | wc -l)" = 160 ] && [ -z "$(ls "$machine/mail/tmp")" ] || die "$machine: mail is lost or doubled"
done

say "one array, of which each writes every fourth row"
write_rows() { python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for i in range(200): os.pwrite(fd, bytes([65 + int(sys.argv[2])]) * 1000, (4 * i + int(sys.argv[2])) * 1000)
os.fsync(fd)' "$@"; }
place=0
for machine in $A $B $C $D; do begin write_rows "$machine/array" "$place"; place=$((place + 1)); done
all_end "a row is not written"
for machine in $A $B $C $D; do
  python3 -c 'import sys; assert open(sys.argv[1], "rb").read() == b"".join(bytes([65 + i % 4]) * 1000 for i in range(800))' "$machine/array" || die "$machine: other bytes"
done

say "the coordinator is killed under git, sqlite and fio"
commit_for() { local n=0 end=$((SECONDS + $2)); git init -q "$1"; while [ $SECONDS -lt "$end" ]; do n=$((n + 1)); echo "$n" >"$1/f$n"; git -C "$1" add "f$n" && git -C "$1" commit -qm "$n" || return 1; done; [ "$(git -C "$1" rev-list --count HEAD)" = "$n" ]; }
begin commit_for "$B/repo" 12
begin insert_rows "$D/delete.db" 1000 40
begin insert_rows "$C/delete.db" 2000 40
begin fio --name=job --directory="$C" --size=16M --bs=4k --rw=randrw --ioengine=psync --verify=crc32c --verify_backlog=64 --verify_state_save=0 --time_based --runtime=12 --output="$WORK/fio.log"
sleep 4
kill -9 "$(machine_pid a)"
umount -l "$A"
all_end "a program hears of it"
git -C "$D/repo" fsck --strict --no-progress || die "git fsck"
for machine in $B $C $D; do [ "$(rows_of "$machine/delete.db")" = "ok 110 " ] || die "$machine: $(rows_of "$machine/delete.db")"; done
grep -h 'has taken its place' "$WORK"/[bcd].log >/dev/null || die "nobody has taken its place"
for machine in b c d; do leave_machine "$machine"; done
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }
