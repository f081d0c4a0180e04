#!/usr/bin/env bash
# A mount with two addresses of its brick; on the way to the second all goes through but transfers. No operation fails, what was
# under way there is done again by the first, and the second is tried again less and less often. Mended it is used again.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stall.sh"
need_wire
[ "$SCHEME" = rdma ] || skip "TCP has one connection for all"
modprobe -a sch_prio cls_u32

# RoCE v2 is UDP to port 4791; then the operation (InfiniBand specification, 9.2.1): RDMA WRITE from 6 on, READ's request 12.
# Calls, and what fills packets to see whether they pass, are SENDs.
lose_transfers() {
  local operation
  tc qdisc add dev net0 root handle 1: prio
  tc qdisc add dev net0 parent 1:3 handle 30: netem loss 100%
  for operation in 6 7 8 10 12; do
    tc filter add dev net0 parent 1: protocol ip prio 1 u32 match ip protocol 17 0xff match ip dport 4791 0xffff \
      match ip dst "${ADDRESSES[1]}/32" match u8 "$operation" 0xff at 28 flowid 1:3
  done
}

start_rdma_brick --memory 256M --file "$WORK/store" --size 256M
SOURCE=$(source_of "${ADDRESSES[@]}")
mount_brickfs
told() { grep -c "$1" "$WORK/brickfs.log" || true; }
rises() { [ "$(told "$1")" -gt "$2" ]; }
within 60 rises 'is reached through' 0 || die "the second address is not used"

start_load
within 60 load_runs || die "no load"
lose_transfers
within 60 rises 'no transfer came through: it is tried again in 16 s' 0 || die "transfers are lost, and the log says: $(tail -n 3 "$WORK/brickfs.log")"
# Once as it began, twice to be judged anew, once to spare: the load may not have used it at once.
back=$(told 'is reached through')
[ "$back" -le 4 ] || die "it was taken back $back times until then"
tc qdisc del dev net0 root
say "mended"
lost=$(told 'is lost')
within 60 rises 'is reached through' "$back" || die "transfers pass again, and it is not used"
sleep 5
stop_load
[ "$(told 'is lost')" = "$lost" ] || die "it is lost again"
say "$CALLS calls, the longest took $LONGEST ms"
unmount_brickfs
check_volume
