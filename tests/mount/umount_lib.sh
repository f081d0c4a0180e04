# Sourced by the tests of unmounting, instead of lib.sh: with the umount helper where umount(8) finds it, in a mount namespace of its own.
[ -n "${BRICKFS_NAMESPACE:-}" ] || BRICKFS_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cp -a /usr/sbin "$WORK/sbin"
cp "$BUILD/tools/umount.fuse.brickfs" "$WORK/sbin/"
mount --bind "$WORK/sbin" /usr/sbin
mount -t tmpfs run /run
LIMIT_MS=15500  # docs/operations.md says 15 s

ended() { [ ! -d "/proc/$1" ]; }
not_mounted() { ! is_mounted "$@"; }
state_of() { awk '/^State:/ { print $2 }' "/proc/$1/status" 2>/dev/null; }
waits_in_kernel() { [ "$(state_of "$1")" = D ]; }

# umount's exit code, what it says, and how long it takes: CODE, $WORK/said, TOOK_MS.
timed_umount() {
  local begin; begin=$(now_ms)
  CODE=0
  timeout 40 umount "$@" >"$WORK/said" 2>&1 || CODE=$?
  TOOK_MS=$(($(now_ms) - begin))
  [ "$TOOK_MS" -lt "$LIMIT_MS" ] || die "umount $* takes $TOOK_MS ms (exit $CODE: $(cat "$WORK/said"))"
}
says() { grep -qE "$1" "$WORK/said" || die "umount says: $(cat "$WORK/said") (exit $CODE), not $1"; }
says_nothing() { [ ! -s "$WORK/said" ] || die "umount says: $(cat "$WORK/said") (exit $CODE)"; }

# In the foreground, so that its log is here. AS_USER: a command that runs another as a user.
mount_logged() {  # [OPTIONS]
  : >"$WORK/mount.log"
  "${AS_USER[@]}" "$BRICKFS" "$SOURCE" "$MNT" -f -o "${1:+$1,}io_uring=${BRICKFS_IO_URING:-auto}" 2>>"$WORK/mount.log" &
  PID=$!
  BACKGROUND_PIDS+=("$PID")
  within 20 grep -q 'is mounted at' "$WORK/mount.log" || die "not mounted: $(cat "$WORK/mount.log")"
}
AS_USER=()
log_says() { grep -qE "$1" "$WORK/mount.log" || die "the log does not say $1: $(cat "$WORK/mount.log")"; }
