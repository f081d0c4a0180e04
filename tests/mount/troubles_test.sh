#!/usr/bin/env bash
# Troubles of a mount and of its brick, each made for real (docs/operations.md has them in a table). Of each, `brickctl explain` names the cause and the
# cure, and log, `brickctl status` and metrics say the same; then the cure is applied, and all of them are well again.
#   troubles_test.sh
[ -n "${BRICKFS_NAMESPACE:-}" ] || BRICKFS_NAMESPACE=1 exec unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private "$0" "$@"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/disk_lib.sh"
. "$(dirname "$0")/trouble_lib.sh"

# The brick is on a network of its own, at the other end of a cable.
ip link set lo up
unshare --net sleep infinity &
THERE=$!
BACKGROUND_PIDS+=("$THERE")
within 10 test ! "/proc/$THERE/ns/net" -ef /proc/self/ns/net || die "no second network"
there() { nsenter --net="/proc/$THERE/ns/net" "$@"; }
ip link add here type veth peer name there netns "$THERE"
ip address add 192.0.2.1/24 dev here
ip link set here up
there ip address add 192.0.2.2/24 dev there
there ip link set there up
there ip link set lo up
printf '#!/bin/sh\nexec nsenter --net=/proc/%s/ns/net %s "$@"\n' "$THERE" "$BRICKD" >"$WORK/brickd_there"
chmod 755 "$WORK/brickd_there"

for name in clients admin; do head -c 24 /dev/urandom | base64 >"$WORK/$name"; done
cp "$WORK/clients" "$WORK/mine"
chmod 600 "$WORK"/{clients,admin,mine}
BRICKD_HERE=$BRICKD
BRICKD=$WORK/brickd_there
BRICKD_LISTEN=(tcp://192.0.2.2)
store=(--memory 128M --file "$DISK/store" --size 256M --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin")

MOUNT_OPTIONS=secret=$WORK/mine
WITH=(--secret-file "$WORK/mine")
start_brickd "${store[@]}" --volume home:32M
SOURCE=tcp://192.0.2.2:$BRICKD_PORT/home
mount_with durable
echo kept >"$MNT/kept"
sync -f "$MNT"

say "-- nothing"
must_be_well
must_say 0 '^holder: '
must_have_logged_nothing_bad

say "-- the brick is dead"
kill_brickd
must_explain 10 4 '^broken: link: brick unreachable: .*operations wait' 'does the brick.s host run, and brickd on it' "$MNT"
explains 4 '^broken: link: asked now: no brickd listens there' 'start brickd there' "$MNT" || die "explain: $(cat "$WORK/explained")"
must_have_logged 'brick unreachable: '
must_say 1 'no brickd listens there'
link_is waiting
restart_brickd
must_be_well

say "-- the brick is stopped"
kill -STOP "$BRICKD_PID"
must_explain 15 4 '^broken: link: (tcp: the brick has not answered for|brick unreachable: )' 'is brickd stopped|does the brick.s host run' "$MNT"
explains 4 '^broken: link: asked now: no answer' 'or brickd is stopped' "$MNT" || die "explain: $(cat "$WORK/explained")"
must_say 1 'no answer'
metric_is 'brickfs_link_state{state="connected"}' 0 || die "the metrics say connected"
kill -CONT "$BRICKD_PID"
must_be_well

say "-- the network is cut off"
there ip link set there down
must_explain 20 4 '^broken: link: (tcp: the brick has not answered for|brick unreachable: )' 'overloaded or cut off|can it be reached from here' "$MNT"
explains 4 '^broken: link: asked now: (no answer|that host cannot be reached)' 'a firewall drops|the route' "$MNT" || die "explain: $(cat "$WORK/explained")"
must_say 1 'no answer|cannot be reached'
metric_is 'brickfs_link_state{state="connected"}' 0 || die "the metrics say connected"
there ip link set there up
must_be_well

say "-- the secret differs"
kill_brickd
head -c 24 /dev/urandom | base64 >"$WORK/clients"
restart_brickd
must_explain 20 4 '^broken: link: the brick refuses this client: the secret differs; it is tried again' "$WORK/mine needs the line .* read again by itself" "$MNT"
must_have_logged 'the brick refuses this client: the secret differs'
grep -q 'was refused.*its secret is wrong or missing' "$WORK/brickd.log" || die "the brick's log says: $(tail -n 3 "$WORK/brickd.log")"
must_say 1 'the secret is wrong or missing'
link_is waiting
cat "$WORK/clients" >"$WORK/mine"
must_be_well

say "-- another program has its address"
kill_brickd
nsenter --net="/proc/$THERE/ns/net" python3 -c 'import socketserver, sys
class Web(socketserver.StreamRequestHandler):
    def handle(self): self.wfile.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 99)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("192.0.2.2", int(sys.argv[1])), Web).serve_forever()' "$BRICKD_PORT" 2>/dev/null &
other=$!
BACKGROUND_PIDS+=("$other")
must_explain 20 4 '^broken: link: the brick refuses this client: what answers there is not a brick' 'another program has the brick.s address' "$MNT"
explains 4 '^broken: link: asked now: what answers there is not a brickd of this version' 'another program has the port, or one side is older' "$MNT" || die "explain: $(cat "$WORK/explained")"
must_have_logged 'the brick refuses this client: |brick unreachable: '
must_say 1 'is not a brickd of this version'
link_is waiting
kill "$other"
wait "$other" 2>/dev/null || true
restart_brickd
must_be_well

say "-- the brick has no such volume any more"
kill_brickd
mv "$DISK/store" "$DISK/store.away"
start_brickd "${store[@]}"
must_explain 20 4 '^broken: link: the brick refuses this client: no such volume' 'bring the former store back' "$MNT"
explains 4 '^broken: link: asked now: the brick has no volume home' 'name one that it has' "$MNT" || die "explain: $(cat "$WORK/explained")"
must_have_logged 'the brick refuses this client: no such volume'
must_say 1 'the brick has no volume home'
link_is waiting
kill_brickd
mv "$DISK/store.away" "$DISK/store"
start_brickd "${store[@]}" --volume home:32M
must_be_well

say "-- the volume is full"
dd if=/dev/zero of="$MNT/fill" bs=1M status=none 2>/dev/null || true
dd if=/dev/zero of="$MNT/fill2" bs=4k status=none 2>/dev/null || true
must_explain 15 '[34]' '^(broken: space: the volume is full|warning: space: the volume is nearly full)' 'brickctl volume resize tcp://192.0.2.2:[0-9]* home:SIZE' "$MNT"
must_explain 15 '[03]' '^warning: space: the volume has allocated all of its 32M' 'brickctl volume resize tcp://192.0.2.2:[0-9]* home:SIZE' "$SOURCE" "${WITH[@]}"
must_say 0 '^available: +0 blocks'
[ "$(metric brickfs_free_bytes)" -lt $((1 << 20)) ] || die "brickfs_free_bytes: $(metric brickfs_free_bytes)"
timeout 30 "$BRICKCTL" volume resize "${SOURCE%/*}" home:96M --admin-secret-file "$WORK/admin"
must_be_well
rm "$MNT"/fill*
sync -f "$MNT"

say "-- the disk under the brick is full"
dd if=/dev/zero of="$DISK/of_others" bs=1M status=none 2>/dev/null || dd if=/dev/zero of="$DISK/of_others2" bs=4k status=none 2>/dev/null || true
timeout 30 "$BRICKCTL" volume resize "${SOURCE%/*}" home:240M --admin-secret-file "$WORK/admin"
dd if=/dev/urandom of="$MNT/fill" bs=1M status=none 2>/dev/null || true
must_explain 15 4 "^broken: store: the brick's store: its disk is full" 'make room on the disk' "$MNT"
must_say 0 'medium:.*its disk is full'
soon_metric_is brickfs_store_healthy 0
rm "$DISK"/of_others* "$MNT/fill"
must_be_well 60

say "-- the disk under the brick is slow"
FROZEN=1
fsfreeze -f "$DISK"
echo late >"$MNT/late" &
late=$!
BACKGROUND_PIDS+=("$late")
must_explain 30 '[34]' '^(warning: commit: nothing was committed for|broken: store: the brick answers others: a call of this mount is stuck)' "the disk under the brick's store is slow or stuck" "$MNT"
fsfreeze -u "$DISK"
FROZEN=
wait "$late"
must_be_well

say "-- brickfs is stopped"
pid=$(brickfs_pid)
kill -STOP "$pid"
must_explain 10 4 "^broken: mount: brickfs \\(pid $pid\\) is stopped" "kill -CONT $pid" "$MNT"
must_say 0 '^holder: '
kill -CONT "$pid"
must_be_well

say "-- another client has taken the volume"
mkdir "$WORK/other"
as_another_host "$BRICKFS" "$SOURCE" "$WORK/other" -f -o "steal,secret=$WORK/mine" >>"$WORK/other.log" 2>&1 &
BACKGROUND_PIDS+=("$!")
must_explain 20 4 '^broken: link: .*taken over' 'unmount, and mount again' "$MNT"
explains 4 '^note: volume: held by ' 'unmount it there, or mount with steal' "$MNT" || die "explain: $(cat "$WORK/explained")"
must_have_logged 'was taken over by another client'
must_say 0 '^holder: '
link_is failed
kill -TERM "$(brickfs_pid "$WORK/other")"
within 30 test ! -s "/proc/$!/cmdline" || die "the thief does not end"
umount "$MNT"
mount_with durable
must_be_well

say "-- the volume was removed"
timeout 30 "$BRICKCTL" volume create "${SOURCE%/*}" passing:16M --admin-secret-file "$WORK/admin"
unmount_brickfs
home=$SOURCE
SOURCE=${SOURCE%/*}/passing
mount_with
timeout 30 "$BRICKCTL" volume remove "${SOURCE%/*}" passing --force --admin-secret-file "$WORK/admin"
must_explain 20 4 "^broken: link: volume 'passing' was removed from the brick" 'it is over for good: unmount' "$MNT"
must_have_logged "volume 'passing' was removed"
must_say 1 'no volume passing|was removed'
link_is failed
umount "$MNT"
SOURCE=$home

say "-- max_metadata is reached"
mount_with max_metadata=1M
for i in $(seq 20000); do : 2>/dev/null >"$MNT/a-name-that-is-rather-long-$i" || break; done 2>/dev/null
must_explain 10 4 '^broken: memory: inodes and names take .*ENOSPC' 'remove files, or mount with a larger max_metadata=' "$MNT"
must_have_logged 'max_metadata'
[ "$(metric brickfs_free_inodes)" = 0 ] || die "brickfs_free_inodes: $(metric brickfs_free_inodes)"
find "$MNT" -name 'a-name-*' -delete
must_be_well
unmount_brickfs

say "-- a soft mount whose brick is dead"
mount_with soft,timeo=2
kill_brickd
must_explain 10 4 '^broken: link: brick unreachable: .*operations fail after 2 s' 'does the brick.s host run' "$MNT"
must_have_logged 'operations fail after 2 s'
! timeout 20 cat "$MNT/kept" >/dev/null 2>&1 || ! timeout 20 touch "$MNT/kept" 2>/dev/null || die "a soft mount waits"
link_is waiting
restart_brickd
must_be_well
unmount_brickfs

say "-- the file system is damaged"
mount_with
for directory in $(seq 20); do mkdir "$MNT/$directory"; (cd "$MNT/$directory" && seq 400 | xargs touch); done
unmount_brickfs
kill_brickd TERM
python3 - "$DISK/store" <<'END'
import mmap, struct, sys
with open(sys.argv[1], "r+b") as store, mmap.mmap(store.fileno(), 0) as bytes:
    at, damaged = bytes.find(b"BRCKCHK1"), 0
    while at >= 0:
        if struct.unpack_from("<Q", bytes, at + 16) == (2,):  # not the first, which has the root directory
            bytes[at + 4096 : at + 8192], damaged = bytearray(4096), damaged + 1
        at = bytes.find(b"BRCKCHK1", at + 1)
    assert damaged > 0
END
restart_brickd
mount_with
FROM=1 must_have_logged 'the file system is damaged, it is mounted read-only'
must_explain 10 4 '^broken: mount: .*damaged' 'copy what you need, unmount, then brickctl check SOURCE --repair' "$MNT"
must_say 0 '^holder: '
soon_metric_is brickfs_damaged 1
soon_metric_is brickfs_read_only 1
unmount_brickfs
timeout 60 "$BRICKCTL" check "$SOURCE" --repair "${WITH[@]}" >"$WORK/out" 2>&1 && die "nothing to repair" || [ $? = 1 ] || die "repair: $(cat "$WORK/out")"
mount_with
must_be_well

say "-- brickfs is dead"
kill -9 "$(brickfs_pid)"
must_explain 5 4 '^broken: mount: it is dead' 'umount .*, and mount again' "$MNT"
must_say 0 '^holder: .*not connected'
umount -l "$MNT"
mount_with
must_be_well
unmount_brickfs
kill_brickd TERM

say "-- the brick's memory is gone"
start_brickd --memory 64M --secret-file "$WORK/clients"
SOURCE=tcp://192.0.2.2:$BRICKD_PORT/default
mount_with
echo lost >"$MNT/lost"
kill_brickd
restart_brickd
must_explain 20 4 '^broken: link: the brick restarted and its memory is gone' 'it is over for good: unmount' "$MNT"
must_have_logged 'the brick restarted and its memory is gone'
must_say 0 '^durability: +volatile'
link_is failed
umount "$MNT"
mount_with
must_be_well
unmount_brickfs
kill_brickd TERM

say "-- the disk under the brick fails"
# The store is on a disk that says EIO from some moment on: a soft mount, whose own brick is gone.
"$BRICKD_HERE" --listen tcp://127.0.0.1:0 --port-file "$WORK/under.port" --memory 256M --foreground 2>>"$WORK/under.log" &
under=$!
BACKGROUND_PIDS+=("$under")
within 10 test -s "$WORK/under.port" || die "no brick for the disk"
mkdir "$WORK/under"
"$BRICKFS" "tcp://127.0.0.1:$(cat "$WORK/under.port")/default" "$WORK/under" -f -o soft,timeo=1,writeback=off >>"$WORK/under.log" 2>&1 &
BACKGROUND_PIDS+=("$!")
within 10 is_mounted "$WORK/under" || die "no disk to fail: $(tail -n 1 "$WORK/under.log")"
start_brickd --memory 64M --file "$WORK/under/store" --size 64M --secret-file "$WORK/clients"
SOURCE=tcp://192.0.2.2:$BRICKD_PORT/default
mount_with durable
kill -9 "$under"
head -c 100000 /dev/urandom >"$MNT/late" &
late=$!
BACKGROUND_PIDS+=("$late")
must_explain 60 4 "^broken: store: the brick's store: its disk failed: nothing is committed any more" 'repair that disk .*restart brickd' "$MNT"
must_say 0 'medium:.*its disk failed'
soon_metric_is brickfs_store_healthy 0
grep -q 'nothing is committed any more' "$WORK/brickd.log" || die "the brick's log says: $(tail -n 3 "$WORK/brickd.log")"
umount -f "$MNT" 2>/dev/null || umount -l "$MNT" 2>/dev/null || true
kill_brickd
umount -l "$WORK/under"
