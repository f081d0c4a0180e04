# Sourced by the tests on real mounts: bricks, mounts, and a clean-up that always runs.
#
#   BRICKFS_BUILD     the build directory with the programs (set by CTest)
#   BRICKFS_CACHE     downloads kept between tests
#   BRICKFS_WRITEBACK  `writeback=` of mounts whose test does not say (set by tests/mount/with_writeback)
#   BRICKFS_SHARED     mounts with `shared` (set by tests/mount/with_shared); member: beside another mount, which coordinates
#   BRICKFS_TLS        1: bricks of kind tcp and mounts with a secret and tls=require (set by tests/mount/with_tls)
#   BRICKFS_RINGS     1: mounts with ring=on; BY_RING runs a program so (set by tests/mount/with_rings)
#   BRICKFS_SMALL     1: an emulated machine, on which everything is slow: less of everything, longer limits
#   BRICKFS_RDMA_ADDRESS   for bricks of kind rdma: the address of an RDMA device of this host (set by tests/rdma/with_device)
# A pipe's last part reads to the end, as in `| grep PATTERN >/dev/null`: `| grep -q` may end the part before it with SIGPIPE, which pipefail takes for a failure.
# After start_brick KIND: SOURCE. After mount_brickfs: MNT is mounted. WORK: scratch on the host, removed at the end.
set -euo pipefail

TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${BRICKFS_BUILD:?set BRICKFS_BUILD to the build directory}
CACHE=${BRICKFS_CACHE:-$BUILD/cache}
BRICKFS=$BUILD/fs/brickfs
BRICKD=$BUILD/server/brickd
BRICKCTL=$BUILD/tools/brickctl
WORK=$(mktemp -d "${TMPDIR:-/tmp}/brickfs-test.XXXXXX")
MNT=$WORK/mnt
mkdir "$MNT"
export XDG_STATE_HOME=$WORK/state
SMALL=${BRICKFS_SMALL:-}
BY_RING=(${BRICKFS_RINGS:+"$BUILD/fs/run/brickfs-run"})
# How many reads, writes or syncs went by rings, as programs with BRICKFS_RUN_STATS=1 have said: calls_by_ring LOG KIND.
calls_by_ring() { awk -v kind="$2" '/^brickfs-run:/ { split($0, halves, ";"); if (match(halves[1], "[0-9]+ " kind)) n += substr(halves[1], RSTART) } END { print n + 0 }' "$1"; }
SECRET_ARGS=()  # of brickctl
[ -z "${BRICKFS_TLS:-}" ] || { install -m 600 /dev/stdin "$WORK/secret" <<<'what all know in this test'; SECRET_ARGS=(--secret-file "$WORK/secret" --tls require); }
SOURCE=
BRICKD_PID=
BRICKD_PORT=0
BRICKD_LISTEN=(tcp://127.0.0.1)
BRICKD_ARGS=()
BACKGROUND_PIDS=()  # children of the test
OTHER_PIDS=()

# A namespace of mounts that a test makes for itself begins with a copy of all others' mounts, and keeps each alive as long as it is there itself.
leave_mounts_of_others() {
  local dir
  awk '$3 == "fuse.brickfs" { print $2 }' /proc/self/mounts | tac | while read -r dir; do umount -i -l "$dir" || true; done
}
[ -z "${BRICKFS_NAMESPACE:-}" ] || leave_mounts_of_others

say() { printf '%s\n' "-- $*"; }
die() { printf '%s\n' "FAILED: $*" >&2; exit 1; }
now_ms() { date +%s%3N; }

# The pid of the brickfs that serves DIR, told by the command line of its process.
brickfs_pid() {
  local dir=${1:-$MNT} pid
  for pid in $(pgrep brickfs); do  # by whatever name it was called: mount.brickfs
    [ "/proc/$pid/exe" -ef "$BRICKFS" ] || continue
    if tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -xF "$dir" >/dev/null; then printf '%s\n' "$pid"; return; fi
  done
  return 1
}

is_mounted() { grep -q " ${1:-$MNT} fuse.brickfs " /proc/self/mounts; }

# Waits for a command to succeed: within SECONDS COMMAND...
within() {
  local end=$(($(now_ms) + $1 * 1000)); shift
  until "$@" >/dev/null 2>&1; do
    [ "$(now_ms)" -lt "$end" ] || return 1
    sleep 0.05
  done
}

clean_up() {
  local status=$?
  set +e
  trap - EXIT INT TERM
  local pid dir
  for pid in "${BACKGROUND_PIDS[@]}"; do  # one that has ended may have given its number to somebody else's process
    ! grep -qx "PPid:[[:space:]]*$$" "/proc/$pid/status" 2>/dev/null || kill -9 "$pid" 2>/dev/null
  done
  for pid in "${OTHER_PIDS[@]}"; do kill -9 "$pid" 2>/dev/null; done
  grep -o " $WORK[^ ]* fuse[^ ]* " /proc/self/mounts | cut -d' ' -f2 | sort -r | while read -r dir; do
    timeout 20 umount "$dir" 2>/dev/null || umount -l "$dir" 2>/dev/null
  done
  for pid in $(pgrep brickfs); do  # what still serves a mount of ours
    case $(readlink "/proc/$pid/exe") in "$(readlink -f "$BRICKFS")"*) ;; *) continue ;; esac
    if tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep "^$WORK/" >/dev/null; then within 5 test ! -d "/proc/$pid" || kill -9 "$pid"; fi
  done
  [ -n "$BRICKD_PID" ] && kill -9 "$BRICKD_PID" 2>/dev/null && wait "$BRICKD_PID" 2>/dev/null
  if [ "$status" != 0 ]; then
    for log in "$WORK"/*.log; do [ -s "$log" ] && { echo "--- last lines of ${log##*/}"; tail -n 15 "$log"; } >&2; done
  fi
  rm -rf --one-file-system "$WORK"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# brickd with the given arguments, in the background; BRICKD_PID, BRICKD_PORT. Again with the same ones: restart_brickd.
# All of BRICKD_LISTEN (URLs without a port, perhaps with ?provider=) listen on one port number; with several, set BRICKD_PORT first.
start_brickd() {
  BRICKD_ARGS=("$@")
  local url listen=()
  for url in "${BRICKD_LISTEN[@]}"; do listen+=(--listen "${url%%\?*}:$BRICKD_PORT${url#"${url%%\?*}"}"); done
  rm -f "$WORK/port"
  "$BRICKD" "${listen[@]}" --port-file "$WORK/port" --foreground "$@" 2>>"$WORK/brickd.log" &
  BRICKD_PID=$!
  within 60 test -s "$WORK/port" || die "brickd does not start: $(tail -n 1 "$WORK/brickd.log")"
  BRICKD_PORT=$(head -n 1 "$WORK/port")
}
restart_brickd() { start_brickd "${BRICKD_ARGS[@]}"; }
kill_brickd() {  # [SIGNAL]
  kill "-${1:-KILL}" "$BRICKD_PID"
  wait "$BRICKD_PID" 2>/dev/null || true
  BRICKD_PID=
}

# A brick of KIND (tcp, rdma, fabric, fabric.PROVIDER: brickd with a store; file; memory) and SIZE. SOURCE.
start_brick() {
  local kind=$1 size=${2:-4G}
  [ -z "${BRICKFS_SHARED:-}" ] || [[ $kind = fabric* ]] || kind=tcp  # one that other machines can reach
  case $kind in
    tcp) start_brickd --memory "$size" --file "$WORK/store" --size "$size" ${BRICKFS_TLS:+"${SECRET_ARGS[@]}"}; SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default ;;
    rdma)
      [ -z "$SMALL" ] || case $size in *G) size=512M ;; esac  # a device needs all of it in memory
      BRICKD_LISTEN=("rdma://${BRICKFS_RDMA_ADDRESS:?set it, or run this by tests/rdma/with_device}")
      start_brickd --memory "$size" --file "$WORK/store" --size "$size"
      SOURCE=${BRICKD_LISTEN[0]}:$BRICKD_PORT/default
      ;;
    fabric | fabric.*)
      BRICKD_LISTEN=("fabric://127.0.0.1$([ "$kind" = fabric ] || echo "?provider=${kind#fabric.}")")
      start_brickd --memory "$size" --file "$WORK/store" --size "$size"
      SOURCE=fabric://127.0.0.1:$BRICKD_PORT/default
      ;;
    file) SOURCE=file:$WORK/store,$size ;;
    memory) SOURCE=memory:$size ;;
    *) die "unknown kind of brick: $kind" ;;
  esac
}

# In the foreground of a session of its own: what it says, also as it dies, is in $WORK/brickfs.log, which a test that fails shows.
mount_brickfs() {  # [OPTIONS]
  [ "${BRICKFS_SHARED:-}" != member ] || is_mounted "$WORK/coordinator" || mount_coordinator "$@"
  local log=$WORK/brickfs.log from pid
  touch "$log"
  from=$(($(wc -l <"$log") + 1))
  setsid "$BRICKFS" "$SOURCE" "$MNT" -f -o "io_uring=${BRICKFS_IO_URING:-auto}${BRICKFS_WRITEBACK:+,writeback=$BRICKFS_WRITEBACK}${BRICKFS_RINGS:+,ring=on}${BRICKFS_SHARED:+,shared}${BRICKFS_TLS:+,secret=$WORK/secret,tls=require}${1:+,$1}" </dev/null >>"$log" 2>&1 &
  pid=$!
  disown "$pid"
  within 60 is_told_of_mount "$pid" "$from" || kill -9 "$pid"
  says_mounted "$from" || die "mount fails: $(tail -n 1 "$log")"
  is_mounted || die "brickfs says so, but $MNT is not mounted"
}
mount_coordinator() {  # [OPTIONS]
  mkdir -p "$WORK/coordinator"
  setsid "$BRICKFS" "$SOURCE" "$WORK/coordinator" -f -o "shared${BRICKFS_TLS:+,secret=$WORK/secret,tls=require}${1:+,$1}" </dev/null >>"$WORK/coordinator.log" 2>&1 &
  disown $!
  within 60 is_mounted "$WORK/coordinator" || die "nobody coordinates: $(tail -n 1 "$WORK/coordinator.log")"
}
says_mounted() { tail -n "+$1" "$WORK/brickfs.log" | grep 'is mounted at' >/dev/null; }
is_told_of_mount() { [ ! -d "/proc/$1" ] || says_mounted "$2"; }

# Runs a command where MNT is not mounted, as on another host: on this one a mount of the same volume is one more of the first.
as_another_host() {
  unshare --mount --propagation private python3 -c 'import ctypes, os, sys
libc = ctypes.CDLL(None)
while libc.umount2(sys.argv[1].encode(), 2 | 8) == 0: pass  # MNT_DETACH, UMOUNT_NOFOLLOW: waits for no server
os.execvp(sys.argv[2], sys.argv[2:])' "$MNT" "$@"
}

# As a user does. fusermount3 wants an /etc/mtab for that, which a bare system does not have: then root unmounts.
unmount_as_user() {  # DIR [COMMAND that runs one as the user]
  local dir=$1; shift
  if [ -e /etc/mtab ]; then "$@" timeout 10 fusermount3 -u "$dir"; else umount -i "$dir"; fi
}

# Waits until the client has ended too: then the volume is free.
unmount_brickfs() {  # [DIR]
  local pid dir=${1:-$MNT}
  pid=$(brickfs_pid "$dir") || die "no brickfs serves $dir"
  timeout 60 umount "$dir" || die "umount fails"
  within 60 test ! -d "/proc/$pid" || die "brickfs (pid $pid, $(state_and_places "$pid")) does not end after umount; mounted also for: $(others_with "$dir")"
  if [ "$dir" = "$MNT" ] && is_mounted "$WORK/coordinator"; then unmount_brickfs "$WORK/coordinator"; fi
}
# Programs whose mount namespace has DIR.
others_with() { grep -ls -- " $1 " /proc/[0-9]*/mountinfo | cut -d/ -f3 | while read -r pid; do printf '%s (%s) ' "$pid" "$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")"; done; }
state_and_places() {
  local thread
  for thread in "/proc/$1/task"/*; do
    printf '%s %s; ' "$(awk '/^State:/ { print $2 }' "$thread/status" 2>/dev/null)" "$(cat "$thread/wchan" 2>/dev/null)"
  done | tr ';' '\n' | sort | uniq -c | tr '\n' ';' | tr -s ' '
}

check_volume() {
  if is_mounted "$WORK/coordinator"; then unmount_brickfs "$WORK/coordinator"; fi  # whoever ended MNT may not have known of it
  timeout 300 "$BRICKCTL" check "$SOURCE" "${SECRET_ARGS[@]}" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log" >&2; die "brickctl check finds damage (exit $?)"; };
}

# Blocks the volume has allocated (not for memory:, nor while a file: is mounted).
blocks() { timeout 60 "$BRICKCTL" list "$SOURCE" "${SECRET_ARGS[@]}" | awk '{ n += $2 } END { print n + 0 }'; }
blocks_are() { [ "$(blocks)" = "$1" ]; }

free_units() { stat -f -c %a "$MNT"; }
free_units_are() { [ "$(free_units)" = "$1" ]; }

# N, or an eighth of it where everything is slow.
scaled() { if [ -n "$SMALL" ]; then echo $((($1 + 7) / 8)); else echo "$1"; fi; }

source_tarball() { if [ -n "$SMALL" ]; then printf '%s\n' "$WORK/tree.tar"; else "$TESTS/../tools/debian_archive" "$CACHE" source binutils; fi; }
# A tree of some 27,000 files on the host, unpacked once for all tests; where everything is slow, some of the kernel's headers.
# SOURCE_TREE, and SOURCE_TREE_LEAST files in it.
source_tree() {
  if [ -n "$SMALL" ]; then
    SOURCE_TREE=$WORK/tree SOURCE_TREE_LEAST=100
    mkdir "$SOURCE_TREE"
    cp -a /usr/include/linux/netfilter /usr/include/linux/usb /usr/include/rdma "$SOURCE_TREE"
    tar -cf "$WORK/tree.tar" -C "$WORK" tree
    return
  fi
  SOURCE_TREE_LEAST=20000
  local tarball; tarball=$(source_tarball)
  SOURCE_TREE=$CACHE/tree
  exec 8>"$CACHE/.tree-lock"
  flock 8
  if [ ! -e "$CACHE/tree.done" ]; then
    rm -rf "$SOURCE_TREE"; mkdir "$SOURCE_TREE"
    tar -xf "$tarball" -C "$SOURCE_TREE" --strip-components=1
    touch "$CACHE/tree.done"
  fi
  exec 8>&-
}
# Of what is in a directory: names, types, modes, owners, times, links, contents, as one checksum.
tree_checksum() {
  (cd "$1" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
    tar --null --no-recursion --numeric-owner --format=posix --pax-option=delete=atime,delete=ctime -T - -cf - | sha256sum | cut -d' ' -f1)
}
