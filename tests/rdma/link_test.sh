#!/usr/bin/env bash
# The only link goes down and comes back. A hard mount waits and goes on, and everything written is there; a soft one fails in
# time, and works again when the link is back.   link_test.sh device|wire   (the device's link down; or all packets of the wire lost)
. "$(dirname "$0")/lib.sh"
need_guest
case $1 in
  device) address=${ADDRESSES[0]}; cut_link() { set_link 0 down; }; mend_link() { set_link 0 up; } ;;
  wire) need_wire; address=${ADDRESSES[1]}; cut_link() { tc qdisc add dev net0 root netem loss 100%; }; mend_link() { tc qdisc del dev net0 root; } ;;
esac
load=$BUILD/tests/sync_load
start_rdma_brick --memory 256M --file "$WORK/store" --size 256M
SOURCE=$(source_of "$address")

say "hard"
mount_brickfs
mkdir "$WORK/logs" "$MNT/load"
"$load" run "$MNT/load" "$WORK/logs" 20 1 2>"$WORK/load.log" &
pid=$!
BACKGROUND_PIDS+=("$pid")
sleep 3
cut_link
sleep 6
kill -0 "$pid" || die "a hard mount does not wait: $(cat "$WORK/load.log")"
lines=$(cat "$WORK"/logs/* | wc -l)
sleep 2
[ "$(cat "$WORK"/logs/* | wc -l)" -le $((lines + 8)) ] || say "operations go on although the link is cut"
mend_link
goes_on() { [ "$(cat "$WORK"/logs/* | wc -l)" -gt $((lines + 20)) ]; }
within 60 goes_on || die "after 60 s the mount has not gone on"
wait "$pid" || die "an operation failed: $(cat "$WORK/load.log")"
"$load" verify "$MNT/load" "$WORK/logs" live >"$WORK/verify.log" 2>&1 || { cat "$WORK/verify.log" >&2; die "bytes are lost"; }
unmount_brickfs
check_volume

say "soft"
mount_brickfs soft,timeo=3
"$load" verify "$MNT/load" "$WORK/logs" live >"$WORK/verify.log" 2>&1 || { cat "$WORK/verify.log" >&2; die "bytes are lost after a remount"; }
noise 7 4M >"$WORK/blob"
cp "$WORK/blob" "$MNT/blob"
sync "$MNT/blob"
cut_link
began=$(now_ms)
if timeout 60 dd if="$MNT/blob" of=/dev/null bs=64k iflag=direct status=none 2>"$WORK/err"; then die "a read without a link succeeds"; fi
took=$(($(now_ms) - began))
grep -q 'Input/output error' "$WORK/err" || die "the error is: $(cat "$WORK/err")"
say "a read failed after $took ms"
[ "$took" -le $((SMALL ? 45000 : 20000)) ] || die "timeo=3, and it failed after $took ms"
mend_link
reads() { dd if="$MNT/blob" bs=64k iflag=direct status=none 2>/dev/null | cmp -s - "$WORK/blob"; }
within 60 reads || die "the link is back, but the mount is not"
unmount_brickfs
check_volume
