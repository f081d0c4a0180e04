#!/usr/bin/env bash
# What one cluster does with one volume, on four machines: a build split over two of them, a database whose backup is taken and read by others, one HDF5
# file under locks, and one file that all write in large stripes.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/shared_lib.sh"
need gcc make postgresql python3-h5py
PROGRAMS=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -n 1)
SOCKETS=$WORK/sockets
mkdir "$SOCKETS"
chown postgres "$SOCKETS"
POSTMASTERS=()
end_postmasters() {
  local pid
  for pid in "${POSTMASTERS[@]}"; do kill -QUIT "$pid" 2>/dev/null && within 30 test ! -d "/proc/$pid"; done
}
trap 'status=$?; set +e; end_postmasters; (exit $status); clean_up' EXIT
start_four_machines 2G

say "make: one tree, built by two machines at once, linked by a third, run by a fourth"
FILES=24
mkdir "$A/tree"
for i in $(seq "$FILES"); do
  echo "#define VALUE_$i $i" >"$A/tree/value_$i.h"
  printf '#include "value_%d.h"\n#include "all.h"\nint part_%d(void) { return VALUE_%d + ALL; }\n' "$i" "$i" "$i" >"$A/tree/part_$i.c"
done
echo "#define ALL 0" >"$A/tree/all.h"
{ for i in $(seq "$FILES"); do echo "int part_$i(void);"; done
  echo '#include <stdio.h>'
  echo 'int main(void) { int sum = 0;'
  for i in $(seq "$FILES"); do echo "sum += part_$i();"; done
  echo 'printf("%d\n", sum); return 0; }'; } >"$A/tree/main.c"
cat >"$A/tree/Makefile" <<'M'
CFLAGS = -MMD -MP
OBJECTS = $(patsubst %.c,%.o,$(sort $(wildcard part_*.c)))
sum: main.o $(OBJECTS)
	$(CC) -o $@ $^
%.o: %.c
	@echo $@ >>built.$(MACHINE)
	$(CC) $(CFLAGS) -c -o $@ $<
-include $(wildcard *.d)
M
build() { timeout 120 make -s -j 2 -C "$1/tree" "MACHINE=${1##*/}" "${@:2}" >>"$WORK/make.log" 2>&1; }
odd=() even=()
for i in $(seq 1 2 "$FILES"); do odd+=("part_$i.o") even+=("part_$((i + 1)).o"); done
build_all() {  # WANTED_SUM BUILT
  local built
  rm -f "$D"/tree/built.*
  begin build "$A" "${odd[@]}"
  begin build "$B" "${even[@]}"
  all_end "make fails"
  build "$C" sum || die "linking fails"
  [ "$("$D/tree/sum")" = "$1" ] || die "the program says $("$D/tree/sum"), not $1"
  built=$(cat "$D"/tree/built.* | sort | uniq -c | awk '$1 > 1 { print "twice: " $2 } END { print NR }')
  [ "$built" = "$2" ] || die "built: $built, not $2 objects"
  build "$D" -q sum || die "another machine would build again"
}
build_all 300 $((FILES + 1))
echo "#define VALUE_7 1007" >"$C/tree/value_7.h"
echo "#define VALUE_8 1008" >"$D/tree/value_8.h"
build_all 2300 2
echo "#define ALL 1" >"$D/tree/all.h"
build_all 2324 "$FILES"

say "PostgreSQL on one, its backup taken by another and run by a third, its dump read by a fourth"
sql() { as postgres "$PROGRAMS/psql" -h "$SOCKETS" -p "$1" -qAt "${@:2}"; }
is_serving() { as postgres "$PROGRAMS/pg_isready" -q -h "$SOCKETS" -p "$1"; }
start_postgres() {  # DIR PORT
  as postgres setsid "$PROGRAMS/postgres" -D "$1" -k "$SOCKETS" -p "$2" -c listen_addresses= -c shared_buffers=32MB -c max_connections=20 2>>"$WORK/postgres.log" &
  within 90 is_serving "$2" || die "PostgreSQL does not serve: $(tail -n 2 "$WORK/postgres.log")"
  POSTMASTERS+=("$(head -n 1 "$1/postmaster.pid")")
}
for dir in data backup dump; do mkdir -m 700 "$A/$dir"; chown postgres "$A/$dir"; done
as postgres "$PROGRAMS/initdb" -D "$A/data" --data-checksums -A trust >"$WORK/initdb.log" 2>&1 || die "initdb: $(tail -n 2 "$WORK/initdb.log")"
start_postgres "$A/data" 5501
as postgres "$PROGRAMS/createdb" -h "$SOCKETS" -p 5501 bench
as postgres "$PROGRAMS/pgbench" -h "$SOCKETS" -p 5501 -q -i -s 2 bench >"$WORK/pgbench.log" 2>&1 || die "pgbench: $(tail -n 2 "$WORK/pgbench.log")"
sql 5501 -c 'CREATE TABLE marks(n int); INSERT INTO marks SELECT generate_series(1, 1000)' bench
begin as postgres "$PROGRAMS/pgbench" -h "$SOCKETS" -p 5501 -n -c 2 -T 10 bench
as postgres "$PROGRAMS/pg_basebackup" -h "$SOCKETS" -p 5501 -D "$B/backup" -c fast -X stream || die "pg_basebackup"
as postgres "$PROGRAMS/pg_dump" -h "$SOCKETS" -p 5501 -Fc -f "$D/dump/bench" bench || die "pg_dump"
all_end "the load fails" >/dev/null
as postgres "$PROGRAMS/pg_verifybackup" -s "$C/backup" >/dev/null || die "another machine finds the backup damaged"
start_postgres "$C/backup" 5502
agrees() {  # PORT DATABASE
  [ "$(sql "$1" -c 'SELECT count(*), sum(n) FROM marks' "$2")" = "1000|500500" ] || die "$2 at $1: rows are lost"
  [ "$(sql "$1" -c 'SELECT (SELECT sum(abalance) FROM pgbench_accounts) - (SELECT sum(bbalance) FROM pgbench_branches)' "$2")" = 0 ] || die "$2 at $1: the balances do not agree"
  as postgres "$PROGRAMS/pg_amcheck" -h "$SOCKETS" -p "$1" --install-missing --heapallindexed --parent-check -d "$2" || die "$2 at $1: pg_amcheck"
}
agrees 5502 bench
as postgres "$PROGRAMS/createdb" -h "$SOCKETS" -p 5502 restored
as postgres "$PROGRAMS/pg_restore" -h "$SOCKETS" -p 5502 -d restored "$A/dump/bench" || die "pg_restore"
agrees 5502 restored
agrees 5501 bench
end_postmasters
POSTMASTERS=()

say "HDF5: one file, opened under its lock by all at once"
/usr/bin/python3 -c 'import h5py, sys; h5py.File(sys.argv[1], "w").close()' "$A/array.h5"
add_groups() {
  timeout 240 env HDF5_USE_FILE_LOCKING=TRUE /usr/bin/python3 - "$1" <<'P'
import h5py, numpy, sys, time
machine, refused = sys.argv[1], 0
def opened(path, mode):
    global refused
    while True:
        try: return h5py.File(path, mode)
        except BlockingIOError: refused += 1
        except OSError as error:
            if "lock" not in str(error): raise
            refused += 1
        time.sleep(0.01)
for i in range(12):
    with opened(machine + "/array.h5", "r+") as file:
        name = f"{machine[-1]}/{i}"
        file[name] = numpy.full((64, 64), i + ord(machine[-1]))
        file.attrs["count"] = int(file.attrs.get("count", 0)) + 1
        assert sum(len(file[group]) for group in file) == file.attrs["count"], "what another added is not there"
    with opened(machine + "/array.h5", "r") as file:
        assert (file[name][:] == i + ord(machine[-1])).all()
print(f"   {machine[-1]}: {refused} times another had it")
P
}
for machine in $A $B $C $D; do begin add_groups "$machine"; done
all_end "HDF5 fails"
/usr/bin/python3 - "$A" "$B" "$C" "$D" <<'P' || die "groups are lost"
import h5py, sys
for machine in sys.argv[1:]:
    with h5py.File(machine + "/array.h5", "r") as file:
        assert file.attrs["count"] == 48, file.attrs["count"]
        for group in "abcd":
            for i in range(12): assert (file[f"{group}/{i}"][:] == i + ord(group)).all(), (machine, group, i)
P

say "MPI-IO style: one file, in stripes of all four, three rounds over each other"
direct_bytes() { "$BRICKCTL" explain --json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["state"]["direct_write_bytes"])'; }
write_stripes() { python3 -c 'import os, sys
path, rank, stripe = sys.argv[1], int(sys.argv[2]), 256 << 10
fd = os.open(path, os.O_RDWR | os.O_CREAT)
for turn in range(3):
    for i in range(48): assert os.pwrite(fd, bytes([turn * 4 + rank]) * stripe, (4 * i + rank) * stripe) == stripe
os.fsync(fd)' "$@"; }
writes_directly() { dd if=/dev/zero of="$1/warm.${1##*/}" bs=1M count=8 conv=notrunc status=none && [ "$(direct_bytes "$1")" -gt 0 ]; }
for machine in $B $C $D; do within 60 writes_directly "$machine" || die "$machine writes nothing to the brick"; done
place=0
for machine in $A $B $C $D; do begin write_stripes "$machine/stripes" "$place"; place=$((place + 1)); done
all_end "a stripe is not written"
for machine in $A $B $C $D; do
  python3 -c 'import sys
stripe = 256 << 10
with open(sys.argv[1], "rb") as file:
    for i in range(4 * 48): assert file.read(stripe) == bytes([8 + i % 4]) * stripe, i
    assert file.read(1) == b""' "$machine/stripes" || die "$machine: other bytes"
done

for machine in d c b a; do leave_machine "$machine"; done
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }
