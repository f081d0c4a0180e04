# shellcheck shell=bash disable=SC2034  # its variables are for those that source it
# Sourced by the tests over RDMA, which run where tests/rdma/with_device puts them. What cannot be tried there ends with 77.
#
# ADDRESSES: one of each device. BRICKFS_RDMA_SCHEME=tcp runs the same over TCP, to tell whether the transport is at fault.
# shellcheck source=tests/mount/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../mount/lib.sh"
SCHEME=${BRICKFS_RDMA_SCHEME:-rdma}
IFS=, read -ra ADDRESSES <<<"${BRICKFS_RDMA_ADDRESSES:?run this by tests/rdma/with_device}"

skip() { say "$*"; exit 77; }
need_guest() { [ "${BRICKFS_RDMA_GUEST:-0}" = 1 ] || skip "cuts links, so it runs in the guest only"; }
need_two_addresses() { [ "${#ADDRESSES[@]}" -ge 2 ] || skip "needs two RDMA devices with addresses"; }
need_wire() { need_guest; [ "${BRICKFS_RDMA_WIRE:-0}" = 1 ] || skip "needs the guest's --wire"; }

# brickd on all devices, with brickd's arguments for its memory and its store. Names for SOURCE: source_of ADDRESS...
start_rdma_brick() {
  BRICKD_LISTEN=("$SCHEME://0.0.0.0")
  start_brickd "$@"
}
source_of() { local IFS=,; printf '%s://%s/default\n' "$SCHEME" "$(printf "%s:$BRICKD_PORT\n" "$@" | paste -sd,)"; }

set_link() { ip link set "net$1" "$2"; }  # NUMBER up|down
# Whatever a failed test has cut is whole for the next.
mend_links() {
  local status=$? device
  set +e
  if [ "${BRICKFS_RDMA_GUEST:-0}" = 1 ]; then
    for device in /sys/class/net/net*; do
      tc qdisc del dev "${device##*/}" root 2>/dev/null
      ip link set "${device##*/}" up
    done
  fi
  return "$status"
}
trap 'mend_links; clean_up' EXIT

cpu_ms() {  # PID: user and system time so far, with the threads that have ended
  awk -v tick="$(getconf CLK_TCK)" '{ sub(/^.*\) /, ""); print int(($12 + $13) * 1000 / tick) }' "/proc/$1/stat"
}

# Bytes that nobody else writes, and always the same for one SEED: noise SEED BYTES
noise() { head -c "$2" /dev/zero | openssl enc -aes-128-ctr -nosalt -K "$(printf "%032x" "$1")" -iv 0 2>/dev/null; }
