#!/usr/bin/env bash
# The brick listens on RDMA and TCP, and RDMA's packets alone are lost: the mount goes on over TCP, says so and why, and comes
# back to RDMA by itself. No operation fails, and every byte is there.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stall.sh"
need_wire
[ "$SCHEME" = rdma ] || skip "there is no other way around TCP"
modprobe -a sch_prio cls_u32

cut_rdma() {  # RoCE v2 is UDP to port 4791
  local device
  for device in net0 net1; do
    tc qdisc add dev "$device" root handle 1: prio
    tc qdisc add dev "$device" parent 1:3 handle 30: netem loss 100%
    tc filter add dev "$device" parent 1: protocol ip prio 1 u32 match ip protocol 17 0xff match ip dport 4791 0xffff flowid 1:3
  done
}
mend_rdma() { for device in net0 net1; do tc qdisc del dev "$device" root; done; }
link_says() { getfattr --only-values -n brickfs.link "$MNT" 2>/dev/null | tee "$WORK/link.txt" | grep -i "$1" >/dev/null; }

BRICKD_PORT=20470
BRICKD_LISTEN=(rdma://0.0.0.0 tcp://0.0.0.0)
start_brickd --memory 256M --file "$WORK/store" --size 256M
SOURCE=$(source_of "${ADDRESSES[1]}")

say "RDMA is cut under load"
mount_brickfs
link_says '^rdma' || die "the mount is not over RDMA: $(cat "$WORK/link.txt")"
start_load
sleep 3
cut_rdma
within 60 link_says '^tcp.*redirected' || die "60 s after RDMA was cut the link is: $(cat "$WORK/link.txt")"
say "$(cat "$WORK/link.txt")"
status=0
timeout 60 "$BRICKCTL" explain "$MNT" >"$WORK/explained" 2>&1 || status=$?
[ "$status" = 3 ] && grep '^warning: link: tcp, redirected: rdma failed: ' "$WORK/explained" >/dev/null || die "explain: exit $status: $(cat "$WORK/explained")"
sleep 3
say "and comes back"
mend_rdma
within 120 link_says '^rdma' || die "120 s after RDMA was mended the link is: $(cat "$WORK/link.txt")"
sleep 3
stop_load
say "$CALLS calls, the longest took $LONGEST ms"
unmount_brickfs
check_volume

say "a mount while RDMA is cut says that it is redirected"
cut_rdma
mount_brickfs
link_says '^tcp.*redirected' || die "the link is: $(cat "$WORK/link.txt")"
grep -qi 'tcp.*slower, until rdma works again' "$WORK/brickfs.log" || die "the log does not say that the mount is over TCP"
unmount_brickfs
mend_rdma
