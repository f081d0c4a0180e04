#!/usr/bin/env bash
# A volume mounted at a second place of the same host: a bind mount, if the options fit; else it is said what is in the way.
[ -n "${BRICKFS_NAMESPACE:-}" ] || BRICKFS_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
. "$(dirname "$0")/lib.sh"
cp -a /usr/sbin "$WORK/sbin"
cp "$BUILD/tools/umount.fuse.brickfs" "$WORK/sbin/"
mount --bind "$WORK/sbin" /usr/sbin
mount -t tmpfs run /run
mount -t tmpfs installed /usr/local
mkdir /usr/local/bin
cp "$BRICKFS" /usr/local/bin/brickfs
BRICKFS=/usr/local/bin/brickfs
ended() { [ ! -d "/proc/$1" ]; }
options_at() { awk -v at="$1" '$2 == at { print $4 }' /proc/self/mounts; }
start_brick tcp 256M
A=$MNT B=$WORK/b
mkdir "$B"
refused() {  # PATTERN OPTIONS [DIR]
  if timeout 30 "$BRICKFS" "$SOURCE" "${3:-$B}" -o "$2" 2>"$WORK/err"; then die "mounted with $2"; fi
  grep -q "$1" "$WORK/err" && [ "$(wc -l <"$WORK/err")" = 1 ] || die "$2 says: $(cat "$WORK/err")"
}

say "the second mount shows the same files"
mount_brickfs timeo=40,noexec
pid=$(brickfs_pid)
echo one >"$A/file"
timeout 10 mount -t fuse.brickfs "$SOURCE" "$B" -o ro,nosuid || die "the second mount fails"
[ "$(cat "$B/file")" = one ] || die "the second mount shows something else"
[ "$(stat -c %d:%i "$A/file")" = "$(stat -c %d:%i "$B/file")" ] || die "they are two file systems"
case $(options_at "$B") in ro,nosuid,*noexec*) die "it has the first one's options: $(options_at "$B")" ;; ro,nosuid*) ;; *) die "not its own options: $(options_at "$B")" ;; esac
if touch "$B/new" 2>/dev/null; then die "the second mount is not read-only"; fi
echo two >"$A/file"
[ "$(cat "$B/file")" = two ] || die "a change is not seen at once"

say "other options of what serves both are refused by name"
mkdir "$WORK/c"
for option in soft timeo=41 linger=10 writeback=on noallow_other sync; do
  refused "is mounted at $A already, with other options than $option " "$option" "$WORK/c"
done
if timeout 10 "$BRICKFS" "$SOURCE" "$WORK/c" -f 2>"$WORK/err"; then die "-f succeeds"; fi
grep -q "nothing to serve with -f: mount --bind $A $WORK/c" "$WORK/err" || die "-f says: $(cat "$WORK/err")"

say "... and fitting ones, or none, are taken; the port need not be written"
timeout 10 "$BRICKFS" "$SOURCE" "$WORK/c" -o hard,timeo=40,durable,io_uring=auto,allow_other || die "the same options are refused"
timeout 20 umount "$WORK/c" || die "umount fails"

say "a source written otherwise is held, and the message has the command"
if timeout 30 "$BRICKFS" "tcp://127.1:$BRICKD_PORT/default" "$WORK/c" 2>"$WORK/err"; then die "mounted as held by another"; fi
grep -q "is held by .* since .*; here it is mounted at $A, and as root: mount --bind $A $WORK/c$" "$WORK/err" || die "it says: $(cat "$WORK/err")"
bash -c "$(sed 's/.*as root: //' "$WORK/err")" || die "the command fails"
[ "$(cat "$WORK/c/file")" = two ] || die "the command shows something else"
timeout 20 umount "$WORK/c" || die "umount fails"

say "the same place twice: said, and nothing is mounted over it"
refused "is mounted at $A already" rw "$A"
refused "is mounted at $B already" rw "$B"
[ "$(grep -c " $WORK/.* fuse.brickfs " /proc/self/mounts)" = 2 ] || die "mounts: $(grep fuse.brickfs /proc/self/mounts)"

say "umount of one leaves the other, at once; umount of the last waits until all is committed"
began=$(now_ms)
timeout 20 umount "$A" || die "umount of the first fails"
[ $(($(now_ms) - began)) -lt 3000 ] || die "umount waits $(($(now_ms) - began)) ms for a mount that stays"
is_mounted "$B" || die "the other one is gone"
[ "$(cat "$B/file")" = two ] || die "the other one does not work"
mount -o remount,bind,rw "$B"
echo three >"$B/file"
timeout 20 umount "$B" || die "umount of the last fails"
kill -9 "$pid" 2>/dev/null || true
within 20 ended "$pid" || die "brickfs stays"
mount_brickfs
[ "$(cat "$A/file")" = three ] || die "umount of the last has not waited"

say "SIGTERM ends both"
timeout 10 "$BRICKFS" "$SOURCE" "$B"
pid=$(brickfs_pid)
kill -TERM "$pid"
within 20 ended "$pid" || die "SIGTERM does not end it"
is_mounted "$A" && die "the first stays"
is_mounted "$B" && die "the second stays"

say "read-only first: no second one for writing"
mount_brickfs ro
refused 'other options than rw ' nodev
timeout 10 "$BRICKFS" "$SOURCE" "$B" -o ro || die "a second read-only mount fails"
umount "$B"
unmount_brickfs

say "two lines of fstab, one by one, at the same time, and again"
printf '%s %s fuse.brickfs _netdev,nofail 0 0\n' "$SOURCE" "$A" "$SOURCE" "$B" >"$WORK/fstab"
both() { is_mounted "$A" && is_mounted "$B" && [ "$(stat -c %d "$A")" = "$(stat -c %d "$B")" ]; }
timeout 30 mount --fstab "$WORK/fstab" -a || die "mount -a fails"
both || die "not both are mounted"
timeout 30 mount --fstab "$WORK/fstab" -a || die "mount -a again fails"
[ "$(grep -c " $WORK/.* fuse.brickfs " /proc/self/mounts)" = 2 ] || die "mount -a again mounts again"
umount "$A" && umount "$B"
for round in 1 2 3; do
  timeout 90 mount --fstab "$WORK/fstab" "$A" & first=$!
  timeout 90 mount --fstab "$WORK/fstab" "$B" & second=$!
  wait "$first" || die "one of two at the same time fails (round $round)"
  wait "$second" || die "one of two at the same time fails (round $round)"
  both || die "not both are mounted (round $round)"
  umount "$B" && umount "$A"
done

say "a user's mount that says it is of that volume is not taken for it"
install -d -o 65534 -g 65534 "$WORK/user" "$WORK/user/mnt"
chmod 755 "$WORK"
setpriv --reuid=65534 --regid=65534 --clear-groups "$BRICKFS" memory:64M "$WORK/user/mnt" -o "fsname=$SOURCE"
timeout 30 "$BRICKFS" "$SOURCE" "$B" || die "not mounted beside a user's"
[ "$(cat "$B/file")" = three ] || die "a user's mount is shown as the volume"
umount "$B"
umount "$WORK/user/mnt"

say "held by another: as ever, and a mount of it here that the command may not use is named"
unshare --mount --propagation private "$BRICKFS" "$SOURCE" "$A" -f 2>"$WORK/held.log" &
held=$!
BACKGROUND_PIDS+=("$held")
within 10 grep -q 'is mounted at' "$WORK/held.log" || die "not mounted"
began=$(now_ms)
refused 'is held by .* since' rw
[ $(($(now_ms) - began)) -lt 8000 ] || die "it takes $(($(now_ms) - began)) ms"
kill -TERM "$held"
within 20 ended "$held"
check_volume
