#!/usr/bin/env bash
# A path that loses large packets, one way or both, while small ones pass: a brick behind it answers calls, and takes or gives no bytes. A set goes on
# without it, takes it back when the path carries again, and says what is the matter meanwhile; so does a volume on one brick, which has to wait.
[ -n "${IN_NETWORK:-}" ] || IN_NETWORK=1 exec unshare --net "$0" "$@"
. "$(dirname "$0")/lib.sh"
command -v nft >/dev/null || { echo "left out: there is no nft here (tools/install-packages test)"; exit 77; }
ip link set lo mtu 1500 up
nft 'add table inet paths; add chain inet paths lose { type filter hook prerouting priority 0; }' || { echo "left out: this kernel has no packet filter"; exit 77; }
to=dport from=sport
lose_large() { local way; for way in "${@:2}"; do nft add rule inet paths lose tcp "$way" "${BRICK_PORT[$1]}" meta length gt 1000 drop; done; }  # BRICK WAY...
heal() { nft flush chain inet paths lose; }

bricks=(a b)
for name in "${bricks[@]}"; do start_brick_of_set "$name" --volume home; done
start_etcd only
SOURCE=etcd://127.0.0.1:$ETCD_PORT/home
exits 0 set create "$SOURCE" --replicas 2 "$(brick a)" "$(brick b)"

status() { timeout 20 "$BRICKCTL" set status "$SOURCE" >"$WORK/status" 2>&1; }
is_out() { ! status && grep -qE "$(brick "$1")/home: stale since" "$WORK/status"; }
explains() { timeout 30 "$BRICKCTL" explain "$1" >"$WORK/explained" 2>&1; grep -qE -- "$2" "$WORK/explained"; }  # SUBJECT PATTERN
MTU='small packets pass, large ones do not: look at the MTU'
# Writes and reads, synced, one after the other, and how long the longest took.
cat >"$WORK/work.py" <<'P'
import os, sys, time
longest, fd = 0, os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
page = memoryview(__import__("mmap").mmap(-1, 1 << 20))
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    began = time.monotonic()
    page[:8] = int(began * 1e6).to_bytes(8, "little")
    os.pwritev(fd, [page], 0)
    os.fdatasync(fd)
    os.preadv(fd, [page], 0)
    longest = max(longest, time.monotonic() - began)
print(int(longest * 1000))
P

mount_brickfs
# Reads ask the first copy, so only that one has much to say.
for path in "b $to" "a $from" "b $to $from"; do
  read -r brick ways <<<"$path"
  say "brick $brick loses large packets ($ways)"
  python3 "$WORK/work.py" "$MNT/file" 8 >"$WORK/longest" 2>"$WORK/load.log" &
  load=$!
  BACKGROUND_PIDS+=("$load")
  sleep 1
  lose_large "$brick" $ways
  within 30 is_out "$brick" || die "brick $brick is not left out: $(cat "$WORK/status")"
  wait "$load" || die "the load: $(cat "$WORK/load.log")"
  say "the longest operation took $(cat "$WORK/longest") ms"
  [ "$(cat "$WORK/longest")" -lt 15000 ] || die "an operation took $(cat "$WORK/longest") ms"  # 2.7 s where the machine has time
  is_out "$brick" || die "it was taken back over a path that carries nothing: $(cat "$WORK/status")"
  for subject in "$SOURCE"; do
    within 20 explains "$subject" "$MTU" || die "explain $subject does not name the path: $(cat "$WORK/explained")"
  done
  grep -q "$MTU" "$WORK/status" || die "set status does not name the path: $(cat "$WORK/status")"
  heal
  within 60 status || die "it is not taken back: $(cat "$WORK/status")"
done
unmount_brickfs
exits 0 set scrub "$SOURCE"

say "a volume on one brick waits, and says for what"
start_brick_of_set alone
SOURCE=$(brick alone)/default
mount_brickfs
python3 "$WORK/work.py" "$MNT/file" 1 >/dev/null
lose_large alone "$to"
python3 "$WORK/work.py" "$MNT/file" 0.1 >"$WORK/longest" 2>"$WORK/load.log" &
load=$!
BACKGROUND_PIDS+=("$load")
within 10 explains "$MNT" "broken: link: .*$MTU" || die "explain says: $(cat "$WORK/explained")"
# also when the connection has been given up, and again and again another was begun
within 30 grep -q "brick unreachable: $MTU" "$WORK/brickfs.log" || die "the log does not name the path"
explains "$MNT" "broken: link: .*$MTU" || die "explain says: $(cat "$WORK/explained")"
explains "$SOURCE" "$MTU" || die "explain $SOURCE says: $(cat "$WORK/explained")"
heal
within 30 test ! -d "/proc/$load" || die "it does not go on"
wait "$load" || die "the load: $(cat "$WORK/load.log")"
unmount_brickfs
say "passed"
