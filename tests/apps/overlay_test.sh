#!/usr/bin/env bash
# A container's root file system: an overlay whose lower, upper and work directories are on brickfs; also with brickfs below or above
# another file system. What is done in it has to come out as in a plain directory.   overlay_test.sh [tcp|file|memory]
. "$(dirname "$0")/lib.sh"
need busybox-static
kind=${1:-file}
MERGED=$WORK/merged
mkdir "$MERGED"
unmount_merged() { if mountpoint -q "$MERGED"; then umount "$MERGED" || umount -l "$MERGED"; fi; }
unmount_all() { unmount_merged; if mountpoint -q "$WORK/other"; then umount "$WORK/other" || umount -l "$WORK/other"; fi; }
trap 'status=$?; set +e; unmount_all; (exit $status); clean_up' EXIT

# A small system: programs, configuration, links, attributes.
make_system() {  # DIR
  mkdir -p "$1"/{bin,etc/init.d,var/lib/packages,usr/share/doc,tmp,proc,deep/a/b/c}
  cp "$(command -v busybox)" "$1/bin/busybox"
  local name
  for name in sh ls cat cp mv rm mkdir chmod ln touch find tar sha256sum; do ln -s busybox "$1/bin/$name"; done
  for name in $(seq 1 300); do echo "package $name" >"$1/var/lib/packages/$name"; done
  head -c 3000000 /dev/urandom >"$1/usr/share/doc/big"
  echo root:x:0:0 >"$1/etc/passwd"
  ln "$1/var/lib/packages/10" "$1/deep/linked"  # not changed: without an index, copying up parts links
  chmod 4755 "$1/bin/busybox"
  setfattr -n user.from -v below "$1/etc/passwd"
  setfacl -m u:1000:rw "$1/var/lib/packages/1"
  chown 1000:1000 "$1/var/lib/packages/2"
  mkfifo "$1/deep/pipe"
}
cat >"$WORK/work_inside" <<'END'
set -e
echo user:x:1000:1000 >>/etc/passwd                      # copied up
ln /etc/passwd /etc/passwd.link
rm -r /var/lib/packages && mkdir /var/lib/packages       # a whiteout, then an opaque directory
for n in 1 2 3; do echo "again $n" >/var/lib/packages/$n; done
mv /etc/init.d /etc/init && mkdir /etc/init.d            # a directory of below is renamed: redirected, or copied
mv /deep/a /moved && echo new >/moved/b/new && mv /moved/b/c /deep/c
chmod 600 /usr/share/doc/big && sha256sum /usr/share/doc/big >/big.sum
cat /usr/share/doc/big /bin/busybox >/tmp/joined && rm /usr/share/doc/big && mv /tmp/joined /usr/share/doc/big
rm /bin/tar && ln -s ../etc/passwd /bin/tar
mkdir -p /opt/new/tree && cp /bin/busybox /opt/new/tree/sh && /opt/new/tree/sh -c 'echo ran >/opt/ran'
for n in $(/bin/busybox seq 1 400); do echo $n >/tmp/f$n; mv /tmp/f$n /tmp/g$n; [ $((n % 3)) = 0 ] || rm /tmp/g$n; done
touch -d '2020-02-02 02:02:02' /etc/stamped
END
# Runs it in a tree with a root of its own.
work_in() { cp "$WORK/work_inside" "$1/work" && chroot "$1" /bin/sh /work && rm "$1/work"; }
# All but directories' times and the times of what is made now; and copying up gives links new inodes.
listing() {
  (cd "$1" && find . -mindepth 1 ! -name big.sum -printf '%P %y %m %U:%G %l ' \( -type f -printf '%s' -o -true \) -printf '\n' | LC_ALL=C sort
   find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
   stat -c '%n %Y' etc/stamped
   find . ! -type l -print0 | LC_ALL=C sort -z | xargs -0 getfattr -d -m '^user\.[^o]' 2>/dev/null
   find . ! -type l -print0 | LC_ALL=C sort -z | xargs -0 getfacl -p 2>/dev/null)
}
same() { listing "$MERGED" >"$WORK/is"; diff "$WORK/expected" "$WORK/is" >"$WORK/diff" || { head -n 30 "$WORK/diff" >&2; die "$1"; }; }
overlay() { mount -t overlay overlay "$MERGED" -o "$1"; }

start_brick "$kind" 1G
mount_brickfs allow_other
make_system "$MNT/lower"
mkdir -p "$WORK/expected.tree"
cp -a "$MNT/lower/." "$WORK/expected.tree"
work_in "$WORK/expected.tree"
listing "$WORK/expected.tree" >"$WORK/expected"

round=0
run() {  # WHAT OPTIONS; LOWER, UPPER, WORK_DIR are directories
  round=$((round + 1))
  say "$1"
  local upper=$3/upper$round scratch=$3/work$round lower=$4 mark
  mkdir "$upper" "$scratch"
  mark="brickfs-overlay-$$-$round"
  echo "$mark" >/dev/kmsg 2>/dev/null || true
  overlay "lowerdir=$lower,upperdir=$upper,workdir=$scratch$2" || die "overlayfs does not mount"
  work_in "$MERGED" || die "$1: something fails in it"
  same "$1: the overlay is not as a directory"
  unmount_merged
  if dmesg 2>/dev/null | sed "1,/$mark/d" | grep -E 'overlayfs: .*(does not support|falling back|failed to)' >&2; then die "$1: overlayfs misses something"; fi
  overlay "lowerdir=$lower,upperdir=$upper,workdir=$scratch$2" || die "overlayfs does not mount again"
  same "$1: another overlay when mounted again"
  unmount_merged
}
run "all on brickfs" "" "$MNT" "$MNT/lower"
run "with redirected directories and an index" ",redirect_dir=on,index=on" "$MNT" "$MNT/lower"
run "with metadata copied alone" ",redirect_dir=on,metacopy=on" "$MNT" "$MNT/lower"
run "with attributes of users (userxattr)" ",userxattr" "$MNT" "$MNT/lower"
mkdir "$WORK/other"
mount -t tmpfs none "$WORK/other"
run "brickfs below tmpfs" "" "$WORK/other" "$MNT/lower"
cp -a "$MNT/lower" "$WORK/other/lower"
run "brickfs above tmpfs" "" "$MNT" "$WORK/other/lower"
umount "$WORK/other"

[ "$kind" != memory ] || { unmount_brickfs; exit 0; }
say "after remounting brickfs"
unmount_brickfs
check_volume
mount_brickfs allow_other
overlay "lowerdir=$MNT/lower,upperdir=$MNT/upper1,workdir=$MNT/work1"
same "another overlay after a remount"
unmount_merged

say "brickfs is killed under it"
overlay "lowerdir=$MNT/lower,upperdir=$MNT/upper1,workdir=$MNT/work1"
echo synced >"$MERGED/synced"
sync -f "$MERGED/synced"
sync "$MERGED/synced"
(for n in $(seq 1 3000); do echo "$n" >"$MERGED/tmp/x$n" && mv "$MERGED/tmp/x$n" "$MERGED/tmp/y$n" && rm -f "$MERGED/var/lib/packages/$((n % 4))"; done) 2>/dev/null &
writer=$!
sleep 0.7
kill_brickfs
wait "$writer" || true
unmount_merged
detach_dead_mount
mount_brickfs allow_other
overlay "lowerdir=$MNT/lower,upperdir=$MNT/upper1,workdir=$MNT/work1"
[ "$(cat "$MERGED/synced")" = synced ] || die "what was synced is lost"
chroot "$MERGED" /bin/sh -c 'rm -r /tmp && mkdir /tmp' || die "cannot be used after the crash"
unmount_merged
unmount_brickfs
check_volume
