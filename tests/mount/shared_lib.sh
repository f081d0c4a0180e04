# Sourced by the tests of shared volumes, after lib.sh: machines that mount one volume. They are mounts of this host, each with a brickfs of its own.
SHARED_SECRET=$WORK/secret

# A brick with a secret; SOURCE.
start_shared_brick() {  # [SIZE [ARGUMENT...]]
  (umask 077; printf 'known to all machines of the test\n' >"$SHARED_SECRET")
  start_brickd --memory "${1:-1G}" --file "$WORK/store" --size "${1:-1G}" --secret-file "$SHARED_SECRET" ${BRICKFS_TLS:+--tls require} "${@:2}"
  SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
}

# Machine NAME mounts the volume at $WORK/NAME: says what it says to $WORK/NAME.log.
join_machine() {  # NAME [OPTIONS]
  local dir=$WORK/$1 log=$WORK/$1.log
  mkdir -p "$dir"
  setsid "$BRICKFS" "$SOURCE" "$dir" -f -o "shared,allow_other,secret=$SHARED_SECRET${BRICKFS_TLS:+,tls=require}${2:+,$2}" </dev/null >>"$log" 2>&1 &
  disown $!
  within 60 serves "$dir" "$!" || die "$1 does not mount: $(tail -n 1 "$log")"
}
serves() { [ ! -d "/proc/$2" ] || is_mounted "$1"; }
leave_machine() { unmount_brickfs "$WORK/$1"; }
machine_pid() { brickfs_pid "$WORK/$1"; }

# Programs on the machines that MACHINES names, at work on the volume beside each other until end_work (shared_work.py).
start_work() {  # NAME
  local machine
  rm -f "$WORK/stop"
  WORKERS=()
  for machine in $MACHINES; do
    timeout 300 "$TESTS/mount/shared_work.py" work "$WORK/$machine" "$1" "$WORK/stop" >"$WORK/$machine.work" 2>&1 &
    WORKERS+=("$!")
  done
  within 60 has_lines 1 || die "no program begins: $(tail -n 3 "$WORK"/?.work "$WORK"/?.log)"
}
# None of them may have seen an error.
end_work() {  # WHAT
  local pid
  : >"$WORK/stop"
  for pid in "${WORKERS[@]}"; do wait "$pid" || die "$1: a program sees an error: $(tail -n 3 "$WORK"/?.work)"; done
}
# Ends them, and looks whether all that they were answered is there, once.
check_work() {  # NAME WHAT [MOST_SECONDS]
  local said
  end_work "$2"
  # shellcheck disable=SC2086  # machines are words
  said=$("$TESTS/mount/shared_work.py" check "$WORK" "$1" "${3:-15}" $MACHINES) || die "$2: what was answered is not there, or is there twice: $said"
  echo "$2: $said"
}
# The programs have done some rounds more.
wait_for_rounds() {
  within 60 has_lines $(($(lines_of_log) + 20)) || die "nothing goes on: $(tail -n 3 "$WORK"/?.work "$WORK"/?.log)"
}
lines_of_log() { timeout 20 wc -l <"$WORK/${MACHINES%% *}/log"; }
has_lines() { [ "$(lines_of_log)" -ge "$1" ]; }

# Also one of which explain says that it waits for a member.
coordinates() { { "$BRICKCTL" explain --json "$WORK/$1" 2>/dev/null || true; } | grep '"sharing": *"coordinator"' >/dev/null; }
# Which of MACHINES coordinates.
coordinator() {
  local machine
  for machine in $MACHINES; do coordinates "$machine" && echo "$machine" && return; done
  die "nobody coordinates"
}

# Machines a, b, c and d with a brick of that SIZE, at $A to $D; programs on them that begin together, and all have to end well.
start_four_machines() {
  local machine
  start_shared_brick "$1"
  for machine in a b c d; do join_machine "$machine"; done
  A=$WORK/a B=$WORK/b C=$WORK/c D=$WORK/d
  pids=()
}
begin() { "$@" & pids+=("$!"); BACKGROUND_PIDS+=("$!"); }
all_end() { local pid; for pid in "${pids[@]}"; do wait "$pid" || die "$1"; done; pids=(); }  # WHAT-IF-NOT
