#!/usr/bin/env bash
# A mount of which the kernel ended the connection stays where it is, dead: no program finds the directory below.
[ -n "${BRICKFS_NAMESPACE:-}" ] || BRICKFS_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
. "$(dirname "$0")/lib.sh"
mount -t fusectl connections /sys/fs/fuse/connections
ended() { [ ! -d "/proc/$1" ]; }
touch "$MNT/below"
is_dead() {
  is_mounted || die "$1: the mount is gone, the directory below is open"
  [ ! -e "$MNT/below" ] || die "$1: the directory below is open"
  local says; says=$(LC_ALL=C ls "$MNT" 2>&1 || true)
  case $says in *'endpoint is not connected'* | *'caused connection abort'*) ;; *) die "$1: ls says: $says" ;; esac
}
start_brick tcp 256M

say "aborted"
mount_brickfs
pid=$(brickfs_pid)
minor=$(mountpoint -d "$MNT" | cut -d: -f2)
echo kept >"$MNT/file"
exec 5<"$MNT/file"
echo 1 >"/sys/fs/fuse/connections/$minor/abort"
exec 5<&-
within 20 ended "$pid" || die "brickfs does not end"
is_dead "aborted"

say "a mount that fails leaves it"
if timeout 60 "$BRICKFS" tcp://127.0.0.1:1/default "$MNT" 2>"$WORK/err"; then die "mounted from nowhere"; fi
is_dead "after a mount that failed"

say "a mount that succeeds takes its place"
mount_brickfs
[ "$(cat "$MNT/file")" = kept ] || die "not what was written before"

say "killed"
pid=$(brickfs_pid)
kill -9 "$pid"
within 20 ended "$pid" || die "it cannot be killed"
is_dead "killed"
umount "$MNT" || die "umount of a dead mount fails"
[ -e "$MNT/below" ] || die "umount leaves something"
