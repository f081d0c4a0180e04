# Sourced by the tests with real applications: all of tests/mount/lib.sh, and packages that are installed when they are missing.
. "$(dirname "${BASH_SOURCE[0]}")/../mount/lib.sh"
chmod 755 "$WORK"  # applications run as users of their own

need() {  # PACKAGE...
  "$TESTS/../tools/install-packages" "${@/#/+}" >"$WORK/packages.log" 2>&1 || die "$(tail -n 1 "$WORK/packages.log")"
}

if [ "${#BY_RING[@]}" -gt 0 ]; then  # where those users find it
  cp "$BUILD"/fs/run/{brickfs-run,libbrickfs-run.so} "$WORK"
  BY_RING=("$WORK/brickfs-run")
fi

as() {  # USER COMMAND...
  local user=$1; shift
  setpriv --reuid "$user" --regid "$user" --init-groups env HOME="$WORK" PGOPTIONS=--client-min-messages=warning "${BY_RING[@]}" "$@"
}

# Takes away a mount whose server was killed, with whatever still holds it.
detach_dead_mount() { umount -l "$MNT" 2>/dev/null || true; }

kill_brickfs() {
  local pid; pid=$(brickfs_pid)
  kill -9 "$pid"
  within 10 test ! -d "/proc/$pid" || die "brickfs outlives SIGKILL"
}
