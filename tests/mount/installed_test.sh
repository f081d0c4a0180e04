#!/usr/bin/env bash
# Installed for the whole system: mount -t fuse.brickfs and -t brickfs, lines in fstab, and an umount that has made everything durable when it
# returns. In a mount namespace of its own, so that the system keeps its /usr.
[ -n "${BRICKFS_NAMESPACE:-}" ] || BRICKFS_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
. "$(dirname "$0")/lib.sh"
ended() { [ ! -d "/proc/$1" ]; }

cp -a /usr/sbin "$WORK/sbin"
rm -f "$WORK/sbin/umount.fuse.brickfs"
mount --bind "$WORK/sbin" /usr/sbin
mount -t tmpfs installed /usr/local
mkdir /usr/local/bin

say "under another prefix: what is left to do is said, and does"
prefix=$WORK/opt/brickfs
cmake --install "$BUILD" --prefix "$prefix" --strip >"$WORK/install.log" 2>&1 || die "cmake --install fails: $(tail -n 3 "$WORK/install.log")"
grep '^  ln -sf ' "$WORK/install.log" >"$WORK/links" || die "it does not say what is left to do: $(cat "$WORK/install.log")"
bash -eu "$WORK/links"
timeout 30 mount -t fuse.brickfs "file:$WORK/other,64M" "$MNT"
pid=$(pgrep -f "^brickfs file:$WORK/other,64M ")
echo kept >"$MNT/file"
grep -q "TARGET=$MNT .*uhelper=fuse.brickfs" /run/mount/utab || die "umount will not wait: $(cat /run/mount/utab)"
umount "$MNT"
within 5 ended "$pid" || die "brickfs stays"
rm /usr/local/bin/brickfs /usr/sbin/umount.fuse.brickfs

say "for the whole system"
cmake --install "$BUILD" --prefix /usr/local --strip >"$WORK/install.log" 2>&1 || die "cmake --install fails: $(tail -n 3 "$WORK/install.log")"
BRICKFS=/usr/local/bin/brickfs
[ -x /usr/local/bin/brickd ] && [ -x /usr/local/bin/brickctl ] || die "a program is not installed"
/usr/local/bin/brickfs-run grep -q libbrickfs-run /proc/self/maps || die "brickfs-run has no library"
start_brick file 256M

say "mount -t fuse.brickfs"
timeout 30 mount -t fuse.brickfs "$SOURCE" "$MNT" -o noatime,allow_other,x-test
is_mounted || die "it is not mounted"
grep -qxF "$SOURCE $MNT fuse.brickfs" <(cut -d' ' -f1-3 /proc/self/mounts) || die "the table of mounts names another source"
if timeout 30 mount -t fuse.brickfs memory:64M "$MNT" 2>"$WORK/err"; then die "mounted over itself"; fi
grep -q 'busy' "$WORK/err" || die "mounting over itself says: $(cat "$WORK/err")"

say "what umount returned for is there, however the server ends"
for round in 1 2 3 4 5; do
  pid=$(brickfs_pid)
  echo "$round" >"$MNT/round"
  umount "$MNT"
  kill -9 "$pid" 2>/dev/null || true
  within 20 ended "$pid" || die "brickfs stays"
  timeout 30 mount -t fuse.brickfs "$SOURCE" "$MNT"
  [ "$(cat "$MNT/round")" = "$round" ] || die "round $round is lost"
done

say "mount -o remount, by mountpoint as well"
timeout 30 mount -o remount,ro "$MNT" || die "remount fails"
grep " $MNT fuse.brickfs ro," /proc/self/mounts >/dev/null || die "remount,ro does nothing"
timeout 30 mount -o remount,rw,nodev "$MNT" || die "remount fails"
grep " $MNT fuse.brickfs rw,.*nodev" /proc/self/mounts >/dev/null || die "remount,rw does nothing"
echo again >"$MNT/remounted"
unmount_brickfs

say "fstab"
printf '%s %s fuse.brickfs defaults,noauto,_netdev,nofail,ro,x-systemd.automount 0 0\n' "$SOURCE" "$MNT" >"$WORK/fstab"
timeout 30 mount --fstab "$WORK/fstab" "$MNT"
[ "$(cat "$MNT/round")" = 5 ] || die "not what was mounted before"
if touch "$MNT/new" 2>/dev/null; then die "ro is not passed on"; fi
unmount_brickfs

say "mount -t brickfs"
timeout 30 mount -t brickfs "$SOURCE" "$MNT" -o noatime,noexec,x-test
is_mounted || die "it is not mounted"
grep " $MNT fuse.brickfs " /proc/self/mounts | grep 'noexec' >/dev/null || die "noexec is not passed on"
[ "$(cat "$MNT/round")" = 5 ] || die "not what was mounted before"
unmount_brickfs
timeout 30 mount -f -t brickfs "$SOURCE" "$MNT"
if is_mounted; then die "mount -f mounts"; fi
code=0
timeout 30 mount -t brickfs tcp://127.0.0.1:1/none "$MNT" 2>"$WORK/err" || code=$?
[ "$code" = 32 ] || die "a brick that is not there: exit $code, not 32: $(cat "$WORK/err")"
code=0
timeout 30 mount -t brickfs "$SOURCE" "$MNT" -o unheard_of 2>"$WORK/err" || code=$?
[ "$code" = 1 ] || die "an unknown option: exit $code, not 1: $(cat "$WORK/err")"
grep -q 'unknown option unheard_of' "$WORK/err" || die "an unknown option: $(cat "$WORK/err")"
printf '%s %s brickfs defaults,noauto,_netdev,nofail,ro 0 0\n' "$SOURCE" "$MNT" >"$WORK/fstab"
timeout 30 mount --fstab "$WORK/fstab" "$MNT"
if touch "$MNT/new" 2>/dev/null; then die "ro is not passed on"; fi
unmount_brickfs
