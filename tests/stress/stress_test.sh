#!/usr/bin/env bash
# Load of many kinds, each checked as it goes, for a time; then the check of the whole volume has to find nothing, and a remount the same tree.
#   stress_test.sh [SECONDS [tcp|file [PART...]]]        parts: tree fio dbench stress_ng; stress_ng and dbench only if they are installed
# In a build with ThreadSanitizer: BRICKFS_BUILD=build/tsan TSAN_OPTIONS=log_path=/tmp/tsan setarch -R tests/stress/stress_test.sh. It tells of brickd
# reading what it received by another connection: it cannot see that the client, a process of its own, puts these in order.
. "$(dirname "$0")/../mount/lib.sh"
seconds=${1:-60} kind=${2:-tcp}
parts=("${@:3}")
[ "${#parts[@]}" -gt 0 ] || parts=(tree fio dbench stress_ng)
start_brick "$kind" 4G
failed=()

tree() {  # SECONDS
  mkdir "$MNT/tree"
  timeout $(($1 + 300)) "$BUILD/tests/tree_stress" "$MNT/tree" --processes 8 --seconds "$1" --seed "$RANDOM"
}

# Everything fio writes carries a checksum, and is read back.
fio_mix() {  # SECONDS
  local each=$(($1 / 4 + 1))
  fio_run() {
    local name=$1; shift
    (cd "$WORK" && timeout $((each * 4 + 120)) fio --name="$name" --directory="$MNT" --time_based --runtime="$each" --verify=crc32c --verify_fatal=1 \
      --verify_backlog=512 --group_reporting --randseed="$RANDOM" --output="$WORK/fio-$name.log" "$@") || { grep -E "err=|verify" "$WORK/fio-$name.log"; return 1; }
    rm -f "$MNT/$name".*
  }
  fio_run direct --rw=randrw --bsrange=4k-256k --blockalign=4k --size=96m --numjobs=2 --ioengine=libaio --iodepth=8 --direct=1 &&
    fio_run uring --rw=randrw --bssplit=4k/60:64k/30:1m/10 --size=96m --numjobs=2 --ioengine=io_uring --iodepth=16 --direct=1 &&
    fio_run buffered --rw=randrw --bssplit=512/20:1536/20:4k/20:10k/20:96k/20 --size=64m --numjobs=2 --ioengine=psync --fsync=97 &&
    fio_run mapped --rw=randrw --bsrange=4k-64k --blockalign=4k --size=64m --numjobs=2 --ioengine=mmap
}
run_fio() { command -v fio >/dev/null || { say "(left out: no fio)"; return 0; }; fio_mix "$1"; }

run_dbench() {  # SECONDS
  command -v dbench >/dev/null || { say "(left out: no dbench)"; return 0; }
  mkdir "$MNT/dbench"
  timeout $(($1 + 300)) dbench -D "$MNT/dbench" -t "$1" 8 >"$WORK/dbench.log" 2>&1 || { tail -n 5 "$WORK/dbench.log"; return 1; }
  # Its clients start at once by a semaphore of System V's, or, where it gets none, one by one.
  ! grep -v 'barrier semaphore' "$WORK/dbench.log" | grep -iE 'failed|error|unexpected' || return 1
  grep Throughput "$WORK/dbench.log"
}

# Each stressor of the class by itself, but those that are not about the file system they are on, or do not run unless asked twice.
run_stress_ng() {  # SECONDS
  command -v stress-ng >/dev/null || { say "(left out: no stress-ng)"; return 0; }
  local stressors each stressor status bad=0
  read -r -a stressors <<<"$(stress-ng --class 'filesystem?' 2>&1 | sed -E 's/^[^:]*://; s/ (bind-mount|binderfs|eventfd|procfs)\b//g')"
  each=$(($1 / ${#stressors[@]}))
  [ "$each" -ge 1 ] || each=1
  mkdir "$MNT/ng"
  for stressor in "${stressors[@]}"; do
    status=0
    timeout $((each + 240)) stress-ng --temp-path "$MNT/ng" --"$stressor" 2 --timeout "$each" --verify --oomable >"$WORK/ng-$stressor.log" 2>&1 || status=$?
    case $status in
      0 | 4) ;;  # 4: not on this machine
      *) bad=1; echo "stress-ng --$stressor: exit $status"; grep -vE 'setting to|dispatching|successful run|info:' "$WORK/ng-$stressor.log" | head -n 8 ;;
    esac
    if [ -n "$(ls -A "$MNT/ng")" ]; then rm -rf "${MNT:?}/ng" && mkdir "$MNT/ng" || bad=1; fi
  done
  return $bad
}

for part in "${parts[@]}"; do
  mount_brickfs allow_other
  say "$part, $((seconds / ${#parts[@]})) s"
  case $part in
    tree) run=tree ;;
    *) run=run_$part ;;
  esac
  "$run" $((seconds / ${#parts[@]})) || failed+=("$part")
  tree=$(cd "$MNT" && find . -printf '%P %i %y %m %n %s %T@ %l\n' | LC_ALL=C sort | sha256sum)
  unmount_brickfs
  check_volume
  mount_brickfs
  [ "$(cd "$MNT" && find . -printf '%P %i %y %m %n %s %T@ %l\n' | LC_ALL=C sort | sha256sum)" = "$tree" ] || die "$part: another tree after a remount"
  unmount_brickfs
done
[ "${#failed[@]}" = 0 ] || die "${failed[*]}"
