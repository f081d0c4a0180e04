# Sourced by the tests of shared volumes, after lib.sh: machines that mount one volume. They are mounts of this host, each with a brickfs of its own.
SHARED_SECRET=$WORK/secret

# A brick with a secret; SOURCE.
start_shared_brick() {  # [SIZE]
  (umask 077; printf 'known to all machines of the test\n' >"$SHARED_SECRET")
  start_brickd --memory "${1:-1G}" --file "$WORK/store" --size "${1:-1G}" --secret-file "$SHARED_SECRET"
  SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
}

# Machine NAME mounts the volume at $WORK/NAME: says what it says to $WORK/NAME.log.
join_machine() {  # NAME [OPTIONS]
  local dir=$WORK/$1 log=$WORK/$1.log
  mkdir -p "$dir"
  setsid "$BRICKFS" "$SOURCE" "$dir" -f -o "shared,allow_other,secret=$SHARED_SECRET${2:+,$2}" </dev/null >>"$log" 2>&1 &
  disown $!
  within 60 serves "$dir" "$!" || die "$1 does not mount: $(tail -n 1 "$log")"
}
serves() { [ ! -d "/proc/$2" ] || is_mounted "$1"; }
leave_machine() { unmount_brickfs "$WORK/$1"; }
machine_pid() { brickfs_pid "$WORK/$1"; }
