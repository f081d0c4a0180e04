#!/usr/bin/env bash
# Signals end what waits for a brick that is stopped, dead or cut off (interrupt_table.py); a hard mount goes on for the others. A soft one
# gives up in its time, and says so.
. "$(dirname "$0")/lib.sh"
TABLE=$(dirname "$0")/interrupt_table.py
NS=brickfs-$$
link() { getfattr --only-values -n brickfs.link "$MNT" 2>/dev/null; }
link_is() { case $(link) in $1) ;; *) return 1 ;; esac; }
end_all() {
  local status=$?
  set +e
  [ -n "$BRICKD_PID" ] && kill -CONT "$BRICKD_PID" 2>/dev/null
  ip link set "v$$" up 2>/dev/null
  (exit "$status")
  clean_up
}
trap end_all EXIT

round() {  # HOW BREAK MEND
  say "$1"
  python3 "$TABLE" prepare "$MNT"
  $2
  local status=0
  timeout 120 python3 "$TABLE" table "$MNT" || status=$?
  [ "$status" = 0 ] || link >&2
  $3
  within 30 link_is 'tcp' || die "the brick is back, and the mount does not see it: $(link)"
  timeout 60 python3 "$TABLE" check "$MNT"
  [ "$status" = 0 ] || die "with a brick that is $1"
}
stop_brickd() { kill -STOP "$BRICKD_PID"; }
continue_brickd() { kill -CONT "$BRICKD_PID"; }
cut_off() { ip link set "v$$" down; }
connect() { ip link set "v$$" up; }

start_brick tcp 512M
mount_brickfs
round "stopped" stop_brickd continue_brickd
round "dead" kill_brickd restart_brickd

say "many small requests under way"
timeout 60 python3 "$TABLE" under_way "$MNT" "$BRICKD_PID"
within 10 link_is tcp || die "the brick speaks again: $(link)"

say "one of a few small requests under way"
timeout 100 python3 "$TABLE" one_by_one "$MNT" "$BRICKD_PID"
within 10 link_is tcp || die "the brick speaks again: $(link)"

say "more requests than threads, and others behind them"
stop_brickd
timeout 60 python3 "$TABLE" crowd "$MNT"
continue_brickd
within 30 link_is tcp || die "the brick speaks again: $(link)"

say "loads are killed in a row while the brick is well"
pid=$(brickfs_pid)
timeout 60 python3 "$TABLE" kills "$MNT" 6 2>/dev/null || die "the mount does not outlive it"
[ "$(brickfs_pid)" = "$pid" ] || die "brickfs has died"

say "the kernel's own writeback: not to be killed, not to be lost"
timeout 60 python3 "$TABLE" writeback "$MNT" "$BRICKD_PID"
within 30 link_is tcp || die "the brick speaks again: $(link)"

say "silence is told in time"
stop_brickd
within 3 link_is 'silent: *' || within 0.1 link_is 'waiting: *' || die "the brick is silent, and the mount says: $(link)"
continue_brickd
within 10 link_is tcp || die "it speaks again: $(link)"
unmount_brickfs
check_volume

say "soft: timeo is what it says"
mount_brickfs soft,timeo=5
head -c 100000 /dev/urandom >"$MNT/file"
sync "$MNT/file"
stop_brickd
began=$(now_ms)
if timeout 30 dd if="$MNT/file" of=/dev/null bs=64k iflag=direct status=none 2>"$WORK/err"; then die "a read without a brick succeeds"; fi
took=$(($(now_ms) - began))
[ "$took" -ge 4500 ] && [ "$took" -le 6000 ] || die "timeo=5: EIO after $took ms"
echo "   timeo=5: EIO after $took ms"
link_is '*fail after 5 s' || die "the link: $(link)"
continue_brickd
within 10 link_is tcp || die "it speaks again: $(link)"
unmount_brickfs
kill_brickd

# The network goes with the namespace, and that with brickd, which alone is in it.
if ! ip netns add "$NS" 2>/dev/null; then
  echo "   no network namespaces here: bricks that are cut off are left out"
  exit 0
fi
ip link add "v$$" type veth peer name inside netns "$NS"
address=10.197.$((RANDOM % 250))
ip addr add "$address.1/24" dev "v$$" && ip link set "v$$" up
ip -n "$NS" addr add "$address.2/24" dev inside && ip -n "$NS" link set inside up
rm -f "$WORK/port"
ip netns exec "$NS" "$BRICKD" --listen "tcp://$address.2:0" --port-file "$WORK/port" --foreground "${BRICKD_ARGS[@]}" 2>>"$WORK/brickd.log" &
BRICKD_PID=$!
within 60 test -s "$WORK/port" || die "brickd does not start: $(tail -n 1 "$WORK/brickd.log")"
ip netns del "$NS"
SOURCE=tcp://$address.2:$(head -n 1 "$WORK/port")/default
mount_brickfs
round "cut off" cut_off connect
unmount_brickfs
check_volume
