#!/usr/bin/env bash
# What mount(8), umount(8) and systemd find of a mount beside the kernel's table: their own options, and our helper, once.
. "$(dirname "$0")/umount_lib.sh"
cp "$BRICKFS" "$WORK/sbin/mount.brickfs"
BRICKFS=$WORK/sbin/mount.brickfs
mount -t tmpfs local /usr/local  # mount -o remount runs brickfs by mount.fuse(8), which looks there
install -D "$BRICKFS" /usr/local/bin/brickfs
A=$WORK/a B=$WORK/b
mkdir "$A" "$B"

# utab's options of the mount at DIR but for brickfs's own, in their order in the alphabet.
has_options() {  # DIR OPTIONS
  local entries; entries=$(grep -c "TARGET=$1 " /run/mount/utab || true)
  [ "$entries" = 1 ] || die "$1 has $entries entries: $(cat /run/mount/utab)"
  local options; options=$(sed -n "s,.*TARGET=$1 .*OPTS=,,p" /run/mount/utab | tr , '\n' | grep -v '^x-brickfs\.' | LC_ALL=C sort | paste -s -d ,)
  [ "$options" = "$2" ] || die "$1 has $options, not $2"
  findmnt --mtab -n -o OPTIONS "$1" | grep -F 'uhelper=fuse.brickfs' >/dev/null || die "umount will not wait: $(findmnt --mtab "$1")"
}
# What findmnt(8) and mount(8) show of brickfs's own options, once each, in the order in which brickfs says them.
shows() {  # DIR OPTIONS
  local shown; shown=$(findmnt --mtab -n -o OPTIONS "$1" | tr , '\n' | sed -n 's,^x-brickfs\.,,p' | paste -s -d ,)
  [ "$shown" = "$2" ] || die "findmnt shows $shown of $1, not $2"
  mount | grep -F " on $1 type" | grep -F "x-brickfs.${2%%,*}," >/dev/null || die "mount(8) does not show ${2%%,*}: $(mount | grep -F "$1")"
}
mount_at() { timeout 30 mount -t brickfs "$SOURCE" "$1" -o "$2" || die "mount at $1 fails"; }

start_brick tcp 256M
say "options that mount(8) and systemd read later are kept, and no others"
mount_at "$MNT" _netdev,nofail,noauto,user,noatime,relatime,soft,timeo=600,io_uring=off,x-systemd.idle-timeout=9,comment=none
has_options "$MNT" _netdev,uhelper=fuse.brickfs,user,x-systemd.idle-timeout=9
SHOWN=durable,soft,timeo=600,linger=300,writeback=off,io_uring=off,ring=off,tls=off
shows "$MNT" "$SHOWN"

say "... also of a second mount, and those of a remount"
mount_at "$A" soft,x-second
has_options "$A" _netdev,uhelper=fuse.brickfs,x-second
shows "$A" "$SHOWN"
timeout 30 mount -o remount,nodev,x-more "$MNT" || die "remount fails"
timeout 30 mount -o remount,nodev,x-more "$MNT" || die "remount fails"
has_options "$MNT" _netdev,uhelper=fuse.brickfs,user,x-more,x-systemd.idle-timeout=9
shows "$MNT" "$SHOWN"
for other in hard timeo=60; do
  if timeout 30 mount -o "remount,$other" "$MNT" 2>"$WORK/err"; then die "a remount with $other is taken, and does nothing"; fi
done
shows "$MNT" "$SHOWN"
umount "$A"
printf '%s %s brickfs soft,nofail,x-fstab="a,b" 0 0\n' "$SOURCE" "$A" >"$WORK/fstab"
timeout 30 mount --fstab "$WORK/fstab" "$A" || die "mount by fstab fails"
has_options "$A" '_netdev,b",uhelper=fuse.brickfs,x-fstab="a'
umount "$A" && umount "$MNT"
[ ! -s /run/mount/utab ] || die "left behind: $(cat /run/mount/utab)"

say "... also of a remount of what fstab has, which does not say that it is over the network"
printf '%s %s brickfs nofail,x-fstab 0 0\n' "$SOURCE" "$MNT" >"$WORK/fstab"
mount --bind "$WORK/fstab" /etc/fstab
timeout 30 mount "$MNT" || die "mount by fstab fails"
timeout 30 mount -o remount,nodev,x-more "$MNT" || die "remount fails"
umount /etc/fstab
has_options "$MNT" _netdev,uhelper=fuse.brickfs,x-fstab,x-more
umount "$MNT"

say "a mount over the network needs it, whoever says so; a brick in the client does not"
timeout 20 "$BRICKFS" "$SOURCE" "$MNT"
has_options "$MNT" _netdev,uhelper=fuse.brickfs
timeout 20 "$BRICKFS" memory:64M "$A"
has_options "$A" uhelper=fuse.brickfs
umount "$A"

say "whoever hears of a mount, as systemd does, finds its options there at once, also of a second one"
cat >"$WORK/hear.py" <<'HEAR'
# What utab has of a mount in the moment in which the kernel tells of it: hear.py MOUNTPOINT
import select, sys
mounts = open("/proc/self/mountinfo")
told = select.poll()
told.register(mounts, select.POLLPRI)
mounts.read()
print("listening", flush=True)
while told.poll(60000):
    mounts.seek(0)
    if any(line.split()[4] == sys.argv[1] for line in mounts):
        break
else:
    sys.exit("nothing was mounted")
try:
    entries = open("/run/mount/utab").read().splitlines()
except FileNotFoundError:
    entries = []
mine = [entry for entry in entries if f"TARGET={sys.argv[1]} " in entry]
if len(mine) != 1 or "_netdev" not in mine[0] or "uhelper=" not in mine[0]:
    sys.exit(f"utab has {mine} of {sys.argv[1]} when it is mounted")
HEAR
hears() {  # DIR OPTIONS
  : >"$WORK/heard"  # what the last one said
  python3 "$WORK/hear.py" "$1" >"$WORK/heard" 2>&1 &
  local pid=$!
  BACKGROUND_PIDS+=("$pid")
  within 20 grep -q listening "$WORK/heard" || die "hear.py does not start: $(cat "$WORK/heard")"
  timeout 20 "$BRICKFS" "$SOURCE" "$1" -o "$2"
  wait "$pid" || die "$(cat "$WORK/heard")"
}
umount "$MNT"
hears "$MNT" hard
hears "$A" hard
umount "$A" && umount "$MNT"
hears "$MNT" fsname=other,hard
umount "$MNT" && [ ! -s /run/mount/utab ] || die "left behind: $(cat /run/mount/utab)"
hears "$MNT" hard

say "of a mount that comes to nothing nothing stays"
mkdir "$WORK/empty" && if timeout 20 "$BRICKFS" memory:64M "$WORK/empty" -o max_read=nonsense,x-fails 2>"$WORK/err"; then die "max_read=nonsense is taken"; fi
if grep x-fails /run/mount/utab; then die "left behind: the above"; fi

say "of a mount that was ended otherwise nothing stays for the next"
pid=$(brickfs_pid)
kill "$pid"
within 20 ended "$pid" || die "brickfs outlives SIGTERM"
mount_at "$MNT" x-next,io_uring=off
has_options "$MNT" _netdev,uhelper=fuse.brickfs,x-next
shows "$MNT" "durable,hard,timeo=60,${SHOWN#*,*,*,}"
umount "$MNT"

say "in the background, when the brick comes up"
kill_brickd
mount_at "$MNT" bg,x-late
restart_brickd
within 60 is_mounted || die "not mounted, although the brick is there"
within 10 grep -q uhelper= /run/mount/utab || die "umount will not wait: $(cat /run/mount/utab)"
has_options "$MNT" _netdev,uhelper=fuse.brickfs,x-late
pid=$(brickfs_pid)
umount "$MNT"
[ ! -d "/proc/$pid" ] || [ "$(state_of "$pid")" = Z ] || within 5 ended "$pid" || die "brickfs runs after umount"
[ ! -s /run/mount/utab ] || die "left behind: $(cat /run/mount/utab)"
