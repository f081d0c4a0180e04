#!/usr/bin/env bash
# Where a resource is short, one line says which and what to do: locked memory, huge pages, devices, permission, a brick that is
# not there.
. "$(dirname "$0")/lib.sh"
need_guest
[ "$SCHEME" = rdma ] || skip "only rdma has these limits"
address=${ADDRESSES[0]}
# As a user without CAP_IPC_LOCK, whom RLIMIT_MEMLOCK binds.
bound=(prlimit --memlock=65536:65536 setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock)
one_line() {  # LOG PATTERN: the last line says it, and there are few
  tail -n 3 "$1" | grep -iE "$2" >/dev/null || die "no line says /$2/: $(cat "$1")"
}

say "locked memory: brickd"
"${bound[@]}" "$BRICKD" --listen "rdma://$address:0" --port-file "$WORK/port" --memory 64M --foreground 2>"$WORK/memlock.log" &
brickd=$!
BACKGROUND_PIDS+=("$brickd")
if within 60 test -s "$WORK/port"; then  # it serves; then the first client meets the limit
  if timeout 100 "$BRICKCTL" alloc "rdma://$address:$(head -n 1 "$WORK/port")/default" 0 1 2>"$WORK/client.log" &&
    timeout 100 "$BRICKCTL" map "rdma://$address:$(head -n 1 "$WORK/port")/default" 0 1 2>>"$WORK/client.log"; then
    die "mapping works although 64 KiB may be locked"
  fi
fi
one_line "$WORK/memlock.log" 'memlock|ulimit -l|locked memory'
kill "$brickd" 2>/dev/null || true
wait "$brickd" 2>/dev/null || true

say "no huge pages"
pages=$(cat /proc/sys/vm/nr_hugepages)
echo 0 >/proc/sys/vm/nr_hugepages
start_rdma_brick --memory 64M
grep -qi 'huge page' "$WORK/brickd.log" || die "brickd does not say that there are no huge pages"
SOURCE=$(source_of "$address")
mount_brickfs writeback=auto
noise 1 1M >"$MNT/file"
[ "$(sha256sum <"$MNT/file")" = "$(noise 1 1M | sha256sum)" ] || die "the file reads something else"
explains() {  # EXIT PATTERN MOUNTPOINT|SOURCE
  local status=0
  timeout 100 "$BRICKCTL" explain "$3" >"$WORK/explained" 2>&1 || status=$?
  [ "$status" = "$1" ] && grep -E -- "$2" "$WORK/explained" >/dev/null || die "explain: exit $status: $(cat "$WORK/explained")"
}
explains 0 "^note: memory: the brick's memory is of normal pages" "$MNT"
explains 0 "^note: memory: the brick's memory is of normal pages" "$SOURCE"
explains 0 '^ *this kernel.s FUSE has no io_uring \(Linux 6.14 has\)' "$MNT"  # the guest's is 6.1
explains 0 '^ *this kernel does not say how much it has not written back \(Linux 6.2 does\)' "$MNT"
explains 0 "^note: memory: " "$SOURCE"
grep -q 'vm.nr_hugepages' "$WORK/explained" || die "explain does not say what to do: $(cat "$WORK/explained")"
unmount_brickfs
echo "$pages" >/proc/sys/vm/nr_hugepages

say "locked memory: the client"
if "${bound[@]}" timeout 100 "$BRICKFS" "$SOURCE" "$MNT" 2>"$WORK/client.log"; then die "a client mounts although 64 KiB may be locked"; fi
one_line "$WORK/client.log" 'memlock|ulimit -l|locked memory'

say "locked memory: a mount that goes on over TCP, and why"
kill_brickd TERM
BRICKD_LISTEN=(rdma://0.0.0.0 tcp://0.0.0.0) BRICKD_PORT=20470
start_brickd --memory 64M
SOURCE=$(source_of "$address")
"${bound[@]}" timeout 100 "$BRICKFS" "$SOURCE" "$MNT" 2>"$WORK/client.log" || die "no mount: $(cat "$WORK/client.log")"
explains 3 '^warning: link: tcp, redirected: rdma failed: memory cannot be registered' "$MNT"
grep -q 'limit of locked memory is too low.*ulimit -l, LimitMEMLOCK=' "$WORK/explained" || die "explain does not say what to do: $(cat "$WORK/explained")"
unmount_brickfs
BRICKD_LISTEN=() BRICKD_PORT=0

say "no brick at the port"
kill_brickd TERM
if timeout 100 "$BRICKCTL" status "$SOURCE" 2>"$WORK/err"; then die "there is a brick"; fi
[ "$(wc -l <"$WORK/err")" = 1 ] || die "not one line: $(cat "$WORK/err")"

say "no permission on the device"
start_rdma_brick --memory 64M
chmod 600 /dev/infiniband/*
SOURCE=$(source_of "$address")
if setpriv --reuid 1234 --regid 1234 --clear-groups timeout 100 "$BRICKCTL" status "$SOURCE" 2>"$WORK/err"; then die "a user without permission is let in"; fi
chmod 666 /dev/infiniband/*
grep -q '/dev/infiniband' "$WORK/err" || die "permission: $(cat "$WORK/err")"
kill_brickd TERM

say "no device"
rdma link del rxe0
for ((i = 1; i < ${#ADDRESSES[@]}; i++)); do rdma link del "rxe$i"; done
if timeout 100 "$BRICKCTL" status "$SOURCE" 2>"$WORK/err"; then die "there is no device, but a brick answers"; fi
grep -qi 'no RDMA device' "$WORK/err" || die "without a device: $(cat "$WORK/err")"
if timeout 100 "$BRICKD" --listen "rdma://$address:0" --memory 64M --foreground 2>"$WORK/err"; then die "brickd listens without a device"; fi
grep -qi 'no RDMA device' "$WORK/err" || die "brickd without a device: $(cat "$WORK/err")"
for ((i = 0; i < ${#ADDRESSES[@]}; i++)); do rdma link add "rxe$i" type rxe netdev "net$i"; done
