#!/usr/bin/env bash
# Many machines with one volume, all on this host: how long they take to join, what each costs a coordinator that does nothing else, and one file that all
# read and another one then rewrites.   BRICKFS_BUILD=DIR tests/stress/many_members.sh [MEMBERS [FILE_MIB [IDLE_SECONDS]]]
. "$(dirname "$0")/../mount/lib.sh"
. "$TESTS/mount/shared_lib.sh"
members=${1:-64} mib=${2:-1024} idle=${3:-60}
[[ $members =~ ^[0-9]+$ && $mib =~ ^[0-9]+$ && $idle =~ ^[0-9]+$ ]] || die "usage: $0 [MEMBERS [FILE_MIB [IDLE_SECONDS]]]"
start_shared_brick "$((2 * mib + 512))M"
join_machine coordinator
pid=$(machine_pid coordinator)
seconds_of() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) / hz }' "/proc/$1/stat"; }
# Of one core, in percent, over IDLE_SECONDS.
share() {
  local before; before=$(seconds_of "$pid")
  sleep "$idle"
  awk -v before="$before" -v now="$(seconds_of "$pid")" -v idle="$idle" 'BEGIN { printf "%.3f", (now - before) / idle * 100 }'
}
alone=$(share)

began=$(now_ms)
for i in $(seq "$members"); do
  mkdir "$WORK/m$i"
  setsid "$BRICKFS" "$SOURCE" "$WORK/m$i" -f -o "shared,secret=$SHARED_SECRET" </dev/null >>"$WORK/members.log" 2>&1 &
  disown $!
done
all_mounted() { [ "$(grep -c " $WORK/m[0-9]* fuse.brickfs " /proc/self/mounts)" = "$members" ]; }
within 300 all_mounted || die "$(grep -c " $WORK/m[0-9]* fuse.brickfs " /proc/self/mounts) of $members have joined"
say "$members members have joined in $(($(now_ms) - began)) ms"

sleep 10
with=$(share)
say "the coordinator takes $alone % of a core alone, and $with % with $members idle members: $(awk -v a="$alone" -v b="$with" -v n="$members" 'BEGIN { printf "%.4f", (b - a) / n }') % for each"

dd if=/dev/urandom of="$WORK/part" bs=1M count=16 status=none
fill() { local i; for i in $(seq $((mib / 16))); do cat "$WORK/part"; done >"$1"; }
fill "$WORK/coordinator/file"
sum=$(sha256sum <"$WORK/coordinator/file")
read_by_all() {  # WANTED_SUM
  local i readers=()
  for i in $(seq "$members"); do { [ "$(sha256sum <"$WORK/m$i/file")" = "$1" ] || { echo "member $i reads other bytes" >&2; exit 1; }; } & readers+=("$!"); done
  for i in "${readers[@]}"; do wait "$i" || die "a member fails"; done
}
began=$(now_ms)
read_by_all "$sum"
took=$(($(now_ms) - began))
say "all read $mib MiB in $took ms: $((members * mib * 1000 / took)) MiB/s together"

join_machine writer
dd if=/dev/urandom of="$WORK/part" bs=1M count=16 status=none
began=$(now_ms)
fill "$WORK/writer/file"
say "another one rewrites it in $(($(now_ms) - began)) ms"
read_by_all "$(sha256sum <"$WORK/writer/file")"
say "and all read what it wrote"
for i in $(seq "$members"); do leave_machine "m$i"; done
leave_machine writer
leave_machine coordinator
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }
