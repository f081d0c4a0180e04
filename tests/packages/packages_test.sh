#!/usr/bin/env bash
# The Debian packages in a fresh Debian 12: built, installed, run under systemd as their manual pages say, upgraded under load, purged. In a
# mount namespace of its own: systemd-nspawn keeps directories in /run.
[ -n "${BRICKFS_NAMESPACE:-}" ] || BRICKFS_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
mkdir -p /run/systemd/nspawn
mount -t tmpfs nspawn /run/systemd/nspawn
. "$(dirname "$0")/image.sh"
OUTPUT=$BUILD/packages  # the same path each time, for ccache
NEW=0.1.0+test2
state_of() { inside systemctl show --value -p "$1" "$2"; }
active() { [ "$(state_of ActiveState "$1")" = active ]; }
mounted() { inside grep -q " $1 fuse.brickfs " /proc/self/mounts; }
brickfs_of() { inside pgrep -f "brickfs .* $1( |\$)"; }

make_image

say "build, without errors or warnings of lintian"
before=$(cd "$TESTS/.." && git status --porcelain --ignored 2>/dev/null | sort)
"$TESTS/../tools/package" --no-symbols --version 0.1.0+test1 --output "$OUTPUT" >"$WORK/package.log" 2>&1 || die "tools/package fails"
grep -qx 'no errors, no warnings' "$WORK/package.log" || die "lintian did not run"
[ "$(cd "$TESTS/.." && git status --porcelain --ignored 2>/dev/null | sort)" = "$before" ] || die "the build leaves something in the tree"
mkdir "$IMAGE/packages" "$IMAGE/packages/new" "$IMAGE/packages/library"
cp "$OUTPUT"/brick*.deb "$IMAGE/packages/"
cp "$OUTPUT"/libbrickfs*.deb "$OUTPUT"/python3-brickfs*.deb "$IMAGE/packages/library/"
for package in "$IMAGE"/packages/*.deb; do  # the same as a newer version
  dpkg-deb --raw-extract "$package" "$WORK/raw"
  sed -i "s/^Version: .*/Version: $NEW/" "$WORK/raw/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$WORK/raw" "$IMAGE/packages/new/" >/dev/null
  rm -r "$WORK/raw"
done

# What is on the disk but for logs, caches and the package system's own notes; and who is known.
traces() {
  (cd "$IMAGE" && find . -mindepth 1 \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./packages -o -path ./root \
    -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/lib/systemd -o -path ./var/tmp \
    -o -name 'ld.so.cache' -o -name '*-' -o -name '.updated' -o -name '.pwd.lock' -o -name __pycache__ \) -prune -o -print | LC_ALL=C sort)
  cut -d: -f1 "$IMAGE/etc/passwd" "$IMAGE/etc/group" "$IMAGE/etc/shadow"
}

say "installed with what they depend on, and purged at once: no trace"
in_image apt-get -q update >"$WORK/apt.log" 2>&1 || die "apt-get update in the image fails"
in_image apt-get -q -y install --no-install-recommends procps /packages/brickd_0.1.0+test1_amd64.deb /packages/brickfs_0.1.0+test1_amd64.deb \
  /packages/brickfs-tools_0.1.0+test1_amd64.deb >>"$WORK/apt.log" 2>&1 || die "the packages cannot be installed"
grep -q '^brickd:' "$IMAGE/etc/passwd" || die "there is no user brickd"
[ "$(stat -c '%U %a' --dereference "$IMAGE/var/lib/brickd" | cut -d' ' -f2)" = 750 ] || die "/var/lib/brickd: $(stat "$IMAGE/var/lib/brickd")"
for page in man8/brickd.8 man5/brickd.conf.5 man8/brickfs.8 man8/mount.brickfs.8 man8/umount.fuse.brickfs.8 man8/brickctl.8 man1/brickfs-crash.1; do
  zgrep -q '^\.SH "\?NAME' "$IMAGE/usr/share/man/$page.gz" || die "no manual page $page"
done
for unit in /lib/systemd/system/brickd.service /lib/systemd/system/brickd@one.service /lib/systemd/system/brickfs-coordinator@one.service \
  /usr/share/doc/brickfs/examples/home.mount; do
  [ -e "$IMAGE$unit" ] || cp "${IMAGE}${unit/@one/@}" "$IMAGE$unit"
  in_image systemd-analyze verify --man=no "$unit" >"$WORK/verify" 2>&1 && [ ! -s "$WORK/verify" ] || die "$unit: $(cat "$WORK/verify")"
done
rm "$IMAGE/lib/systemd/system/brickd@one.service" "$IMAGE/lib/systemd/system/brickfs-coordinator@one.service"
in_image sh -c 'apt-get -q -y install --no-install-recommends /packages/library/*.deb' >>"$WORK/apt.log" 2>&1 || die "the library cannot be installed"
in_image python3 -c 'import brickfs
with brickfs.FileSystem("memory:64M") as fs:
    fs.mkdir("dir")
    assert fs.listdir() == ["dir"]' || die "import brickfs fails"
in_image sh -c 'test -e /usr/include/brickfs.h && ls /usr/lib/*/libbrickfs.so /usr/lib/*/pkgconfig/brickfs.pc' >/dev/null || die "libbrickfs-dev lacks something"
in_image dpkg --purge python3-brickfs libbrickfs-dev libbrickfs0 brickfs-tools brickfs brickd >>"$WORK/apt.log" 2>&1 || die "purge fails"
traces >"$WORK/without"
if grep -i brick "$WORK/without"; then die "purge leaves the above"; fi

say "a service that is configured, then started, as brickd(8) says"
boot_image
inside dpkg -i /packages/brickd_0.1.0+test1_amd64.deb /packages/brickfs_0.1.0+test1_amd64.deb /packages/brickfs-tools_0.1.0+test1_amd64.deb \
  >>"$WORK/apt.log" 2>&1 || die "dpkg -i fails under systemd"
if active brickd; then die "a brick that nobody has configured is started"; fi
[ "$(inside systemctl is-enabled brickd 2>&1)" = disabled ] || die "brickd is enabled by itself"
sed -i 's/^#memory = .*/memory = 1K/' "$IMAGE/etc/brickfs/brickd.conf"
inside systemctl start brickd >/dev/null 2>&1 && die "a wrong configuration starts"
inside journalctl -u brickd >"$WORK/journal.log"
grep -q '/etc/brickfs/brickd.conf:5: --memory: at least one block' "$WORK/journal.log" || die "the journal does not say what is wrong"
inside journalctl -u brickd -p err >"$WORK/journal.log"
grep -q '/etc/brickfs/brickd.conf:5' "$WORK/journal.log" || die "for the journal it is no error"
sleep 1.5  # RestartSec is 1
[ "$(state_of ActiveState brickd) $(state_of NRestarts brickd)" = "failed 0" ] || die "a wrong configuration is tried again and again"
sed -i -e 's/^memory = .*/memory = 64M/' -e 's/^#file/file/' -e 's/^#size = .*/size = 1G/' -e 's/^#volume = .*/volume = home/' -e 's/^#secret/secret/' \
  "$IMAGE/etc/brickfs/brickd.conf"
inside install -g brickd -m 640 /dev/null /etc/brickfs/secret
printf 'known to both\n' >>"$IMAGE/etc/brickfs/secret"
inside systemctl enable --now brickd >/dev/null 2>&1 || die "brickd does not start: $(inside journalctl -u brickd -n 5)"
[ "$(state_of StatusText brickd)" = "serving at tcp://127.0.0.1:20470" ] || die "its status is: $(state_of StatusText brickd)"
[ "$(state_of Type brickd)" = notify ] || die "it is no service that notifies"
pid=$(state_of MainPID brickd)
[ "$(inside ps -o user= -p "$pid")" = brickd ] || die "it runs as $(inside ps -o user= -p "$pid")"
[ "$(state_of LimitMEMLOCK brickd)" = infinity ] || die "it may not lock memory"
inside grep -q '^CapEff:[[:space:]]*0*$' "/proc/$pid/status" || die "it has capabilities"
inside grep -q '^Seccomp:[[:space:]]*2$' "/proc/$pid/status" || die "it has no filter of system calls"

say "another one beside it, volatile"
printf 'listen = tcp://127.0.0.1:20471\nmemory = 64M\n' >"$IMAGE/etc/brickfs/other.conf"
inside systemctl start brickd@other || die "brickd@other does not start: $(inside journalctl -u brickd@other -n 5)"
[ "$(state_of StatusText brickd@other)" = "serving at tcp://127.0.0.1:20471" ] || die "its status is: $(state_of StatusText brickd@other)"

say "mounts by fstab and by a unit, as brickfs(8) says"
printf 'tcp://127.0.0.1/default  /mnt  brickfs  durable,secret=/etc/brickfs/secret,_netdev  0 0\n' >"$IMAGE/etc/fstab"
inside mount /mnt || die "mount /mnt fails"
mounted /mnt || die "/mnt is not mounted"
sed 's/192\.0\.2\.1/127.0.0.1/' "$IMAGE/usr/share/doc/brickfs/examples/home.mount" >"$IMAGE/etc/systemd/system/home.mount"
inside systemctl daemon-reload
inside systemctl start home.mount || die "home.mount does not start: $(inside systemctl status home.mount)"
mounted /home || die "/home is not mounted"
inside mkdir /other
inside mount -t brickfs tcp://127.0.0.1:20471/default /other || die "a volatile brick cannot be mounted"
for place in /mnt /home /other; do inside cp -a /usr/share/doc "$place/" || die "$place cannot be written"; done
inside brickctl status tcp://127.0.0.1/home --secret-file /etc/brickfs/secret >"$WORK/status" || die "brickctl status fails"

say "upgraded under load: bricks and mounts go on"
cat >"$IMAGE/packages/load" <<'LOAD'
#!/bin/sh
# Files written and synced, one after the other, in each mount; the last number is kept. Ends at the first error.
number=0
while [ ! -e /packages/stop ]; do
  number=$((number + 1))
  for place in /mnt /home /other; do
    dd if=/dev/zero of=$place/load$((number % 50)) bs=4k count=4 conv=fsync status=none && echo $number >$place/number || exit 1
  done
  echo $number >/packages/number
done
echo fine >/packages/ended
LOAD
chmod +x "$IMAGE/packages/load"
inside sh -c '/packages/load >/packages/load.log 2>&1 &'
moved_on() { [ "$(cat "$IMAGE/packages/number")" -gt "$1" ]; }
goes_on() { local now; now=$(cat "$IMAGE/packages/number"); within 30 moved_on $((now + 3)) || die "the load stands still $1: $(cat "$IMAGE/packages/load.log")"; }
within 30 test -s "$IMAGE/packages/number" || die "the load does not start: $(cat "$IMAGE/packages/load.log")"
other=$(state_of MainPID brickd@other) mnt=$(brickfs_of /mnt)
inside sh -c 'dpkg -i /packages/new/*.deb' >>"$WORK/apt.log" 2>&1 || die "the upgrade fails"
[ "$(inside dpkg-query -W -f '${Version}' brickd)" = "$NEW" ] || die "not upgraded"
[ "$(state_of MainPID brickd) $(state_of MainPID brickd@other) $(brickfs_of /mnt)" = "$pid $other $mnt" ] || die "the upgrade restarts something"
goes_on "after the upgrade"
grep -q '^memory = 64M' "$IMAGE/etc/brickfs/brickd.conf" || die "the upgrade replaces the configuration"
inside systemctl is-enabled brickd >/dev/null || die "the upgrade disables brickd"
inside systemctl restart brickd || die "the new brickd does not start"
[ "$(inside readlink "/proc/$(state_of MainPID brickd)/exe")" = /usr/bin/brickd ] || die "it is not the new program"
goes_on "after the restart of the durable brick"
touch "$IMAGE/packages/stop"
within 30 test -e "$IMAGE/packages/ended" || die "the load fails: $(cat "$IMAGE/packages/load.log")"

say "nothing is lost, by the new programs"
number=$(cat "$IMAGE/packages/number")
inside umount /mnt /other || die "umount fails"
inside systemctl stop home.mount
inside mount /mnt && inside systemctl start home.mount || die "not mounted again"
for place in /mnt /home; do
  [ "$(inside cat $place/number)" = "$number" ] || die "$place: number $(inside cat $place/number), not $number"
  inside diff -r /usr/share/doc/libc6 "$place/doc/libc6" || die "$place has not what was written"
done
inside umount /mnt
inside systemctl stop home.mount
inside brickctl check tcp://127.0.0.1/default --secret-file /etc/brickfs/secret >"$WORK/check.log" 2>&1 || die "brickctl check finds damage"
inside brickfs-crash store --runs 1 --jobs 1 >"$WORK/crash.log" 2>&1 || die "brickfs-crash store fails: $(cat "$WORK/crash.log")"
inside brickfs-crash kill --rounds 1 --seed 1 --loads sync --incidents kill-client --size 256M --output /packages/kill >"$WORK/crash.log" 2>&1 || die "brickfs-crash kill fails: $(cat "$WORK/crash.log")"

say "purged while it serves: users' data stays, and nothing else"
inside dpkg --purge brickfs-tools brickfs brickd >>"$WORK/apt.log" 2>&1 || die "purge fails"
if inside pgrep -x brickd; then die "a brick goes on without its program"; fi
[ -s "$IMAGE/var/lib/brickd/store" ] || die "the store is gone"
grep -q '^brickd:' "$IMAGE/etc/passwd" || die "the store's owner is gone"
[ -s "$IMAGE/etc/brickfs/secret" ] && [ ! -e "$IMAGE/etc/brickfs/brickd.conf" ] || die "/etc/brickfs: $(ls "$IMAGE/etc/brickfs")"
inside rm -r /var/lib/brickd /etc/brickfs /etc/systemd/system/home.mount /other
: >"$IMAGE/etc/fstab"

say "installed again, purged again: no trace"
inside sh -c 'dpkg -i /packages/new/*.deb && dpkg --purge brickfs-tools brickfs brickd' >>"$WORK/apt.log" 2>&1 || die "purge fails"
power_off
traces >"$WORK/after"
diff "$WORK/without" "$WORK/after" || die "the above is new"
