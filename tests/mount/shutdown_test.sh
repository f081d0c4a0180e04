#!/usr/bin/env bash
# Each way in which a mount is ended while its brick is away, beside umount(8) by root (umount_test.sh): everything is gone in time, whoever waits.
. "$(dirname "$0")/umount_lib.sh"
NS=brickfs-$$
end_all() {
  local status=$?
  set +e
  ip link del "v$$" 2>/dev/null
  (exit "$status")
  clean_up
}
trap end_all EXIT
start_brick tcp 512M

# Programs that wait for the brick, one of them deaf to SIGTERM. WAITING.
start_waiting() {
  dd if=/dev/zero of="$MNT/direct" bs=4K count=1 oflag=direct conv=notrunc status=none 2>/dev/null &
  WAITING=($!)
  (trap '' TERM; exec dd if=/dev/zero of="$MNT/deaf" bs=4K count=1 oflag=direct conv=notrunc status=none 2>/dev/null) &
  WAITING+=($!)
  sync "$MNT/synced" 2>/dev/null &
  WAITING+=($!)
  disown "${WAITING[@]}"
  sleep 0.3
}
all_ended() { local pid; for pid in "$@"; do ended "$pid" || return 1; done; }
write_synced() { dd if=/dev/zero of="$MNT/synced" bs=64K count=1 conv=fsync status=none; }

say "fusermount3 -u with a dead brick: it returns at once, brickfs ends after its linger"
mount_logged linger=2
kill_brickd
touch "$MNT/lost"
timeout 10 fusermount3 -u "$MNT" || die "fusermount3 -u: exit $?"
is_mounted && die "still mounted"
within 15 ended "$PID" || die "brickfs outlives fusermount3 -u"
log_says 'not committed, and lost.*[0-9]+ operation'

say "... and at once, if everything is committed"
restart_brickd
mount_logged
chmod 777 "$MNT"
write_synced
kill_brickd
timeout 10 fusermount3 -u "$MNT" || die "fusermount3 -u: exit $?"
within 5 ended "$PID" || die "brickfs outlives fusermount3 -u with nothing to commit"

say "a shutdown as systemd does it: umount; SIGTERM to everything that is left; SIGKILL to what is left then"
restart_brickd
mount_logged
write_synced
kill_brickd
touch "$MNT/lost"
start_waiting
umount "$MNT" >"$WORK/said" 2>&1 &
WAITING+=($!)
sleep 2
kill -TERM "$PID" "${WAITING[@]}" 2>/dev/null || true
within 10 ended "$PID" || die "brickfs outlives the SIGTERM"
is_mounted && die "SIGTERM leaves the mount"
kill -KILL "${WAITING[@]}" 2>/dev/null || true
within 3 all_ended "${WAITING[@]}" || die "something is left: $(ps -o pid,stat,wchan,args -p "$(IFS=,; echo "${WAITING[*]}")")"
log_says 'not committed, and lost.*[0-9]+ operation'

say "... what waits is killed first, brickfs goes with the rest"
restart_brickd
mount_logged
write_synced
kill_brickd
start_waiting
kill -KILL "${WAITING[@]}"
within 3 all_ended "${WAITING[@]}" || die "something is left: $(ps -o pid,stat,wchan,args -p "$(IFS=,; echo "${WAITING[*]}")")"
kill -TERM "$PID"
within 10 ended "$PID" || die "brickfs outlives the SIGTERM"
is_mounted && die "SIGTERM leaves the mount"

say "a user's mount: fusermount3 -u, where the brick is well, where it is dead; SIGTERM"
AS_USER=(setpriv --reuid 65534 --regid 65534 --clear-groups)
requests=${BRICKFS_IO_URING:-auto}
BRICKFS_IO_URING=auto  # a user takes io_uring where it is on, and cannot turn it on
if [ -u "$(command -v fusermount3)" ] && "${AS_USER[@]}" test -r /dev/fuse -a -w /dev/fuse; then
  chmod 711 "$WORK" && chown 65534:65534 "$MNT"
  restart_brickd
  mount_logged
  "${AS_USER[@]}" sh -c "echo mine >$MNT/user" || die "the user cannot write to his own mount"
  unmount_as_user "$MNT" "${AS_USER[@]}" || die "the user cannot unmount"
  within 20 ended "$PID" || die "brickfs does not end"
  check_volume
  for way in umount TERM; do
    mount_logged linger=2
    kill_brickd
    "${AS_USER[@]}" touch "$MNT/lost"
    case $way in
      umount) unmount_as_user "$MNT" "${AS_USER[@]}" || die "fusermount3 -u: exit $?" ;;
      TERM) kill -TERM "$PID" ;;
    esac
    within 15 ended "$PID" || die "brickfs outlives its end by $way"
    is_mounted && die "$way leaves the mount"
    log_says 'not committed, and lost.*[0-9]+ operation'
    restart_brickd
  done
else
  echo "   no users' mounts here: left out"
  restart_brickd
fi
AS_USER=()
BRICKFS_IO_URING=$requests
kill_brickd

# The network goes with the namespace, and that with brickd, which alone is in it.
if ! ip netns add "$NS" 2>/dev/null; then
  echo "   no network namespaces here: a network that is cut is left out"
  exit 0
fi
ip link add "v$$" type veth peer name inside netns "$NS"
address=10.198.$((RANDOM % 250))
ip addr add "$address.1/24" dev "v$$" && ip link set "v$$" up
ip -n "$NS" addr add "$address.2/24" dev inside && ip -n "$NS" link set inside up
rm -f "$WORK/port"
ip netns exec "$NS" "$BRICKD" --listen "tcp://$address.2:0" --port-file "$WORK/port" --foreground "${BRICKD_ARGS[@]}" 2>>"$WORK/brickd.log" &
BRICKD_PID=$!
within 60 test -s "$WORK/port" || die "brickd does not start: $(tail -n 1 "$WORK/brickd.log")"
ip netns del "$NS"
SOURCE=tcp://$address.2:$(head -n 1 "$WORK/port")/default

say "the network is cut, everything is committed: umount succeeds"
mount_logged
write_synced
ip link set "v$$" down
timed_umount "$MNT"
[ "$CODE" = 0 ] || die "umount: exit $CODE: $(cat "$WORK/said")"
echo "   after $TOOK_MS ms"
within 20 ended "$PID" || die "brickfs outlives its umount with nothing to commit"

say "the network is cut during an umount: it says what is not committed, brickfs ends after its linger"
ip link set "v$$" up
mount_logged linger=3
python3 -c 'import os, sys
for i in range(int(sys.argv[2])): os.mknod(f"{sys.argv[1]}/cut{i}")' "$MNT" "$(scaled 3000)"
ip link set "v$$" down
touch "$MNT/lost"
timed_umount "$MNT"
[ "$CODE" = 32 ] || die "umount: exit $CODE: $(cat "$WORK/said")"
says 'not committed'
echo "   after $TOOK_MS ms"
is_mounted && die "still mounted"
within 30 ended "$PID" || die "brickfs outlives its umount"
ip link set "v$$" up
check_volume
