#!/usr/bin/env bash
# A brick at an IPv6 address, and at all of them: ping, a mount, and its bytes.
. "$(dirname "$0")/lib.sh"
need_guest
address=fd77::1
ip -6 addr add "$address/64" dev net0 nodad
has_gid() { grep -qs fd77:0000:0000:0000:0000:0000:0000:0001 /sys/class/infiniband/rxe0/ports/1/gids/*; }
[ "$SCHEME" != rdma ] || within 30 has_gid || die "rxe0 has no GID for $address"

for host in "[$address]" "[::]"; do
  say "brickd at $host"
  BRICKD_PORT=0
  BRICKD_LISTEN=("$SCHEME://$host")
  start_brickd --memory 64M
  SOURCE="$SCHEME://[$address]:$BRICKD_PORT/default"
  timeout 60 "$BRICKCTL" ping -c 1 "$SOURCE" >"$WORK/ping.log" 2>&1 || die "no ping: $(cat "$WORK/ping.log")"
  mount_brickfs
  noise 1 3M >"$MNT/file"
  unmount_brickfs
  mount_brickfs
  [ "$(sha256sum <"$MNT/file")" = "$(noise 1 3M | sha256sum)" ] || die "the file reads something else"
  unmount_brickfs
  check_volume
  kill_brickd TERM
done
