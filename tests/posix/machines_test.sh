#!/usr/bin/env bash
# Two machines that have one volume make random system calls in turns, as one machine does on another file system: the same answers, the same trees.
# And one file in every way there is, every second time by the other machine, against its image in memory. In peace, and under load from both.
#   machines_test.sh [SEED [SECONDS]]
. "$(dirname "$0")/reference.sh"
. "$TESTS/mount/shared_lib.sh"
seed=${1:-1} seconds=${2:-15}
make_reference
without=()
[ "$REFERENCE_TYPE" = ext4 ] || without=(--without zero_range,setxattr,lsetxattr,fsetxattr,listxattr,set_capability)
start_shared_brick 1G
for machine in coordinator member other; do join_machine "$machine"; done

in_turns() {  # MACHINE OTHER [ARGUMENTS]
  local one=$WORK/$1 other=$WORK/$2; shift 2
  timeout $((seconds + 240)) "$BUILD/tests/posix_diff" "$one" "$REFERENCE" --also "$other" "${without[@]}" "$@"
}
one_file() {  # MACHINE OTHER SEED
  timeout 300 "$BUILD/tests/posix_exerciser" "$WORK/$1/file$3" --also "$WORK/$2/file$3" --seed "$3" --operations 3000
}

for pair in "coordinator member" "member coordinator" "member other"; do
  say "in turns: $pair"
  in_turns $pair --seed "$seed" --calls 1500 || die "a difference"
  one_file $pair "$seed" || die "not as in the image"
done

say "under load from both"
goes_on() { [ -d "$WORK" ] && [ ! -e "$WORK/enough" ]; }
(while goes_on; do "$BUILD/tests/posix_exerciser" "$WORK/other/load" --operations 1000 || exit; done) >"$WORK/load.log" 2>&1 &
loads=("$!")
(while goes_on; do in_turns coordinator other --seed "$RANDOM" --calls 300 || exit; done) >"$WORK/turns.log" 2>&1 &
loads+=("$!"); BACKGROUND_PIDS+=("${loads[@]}")
in_turns member coordinator --seed $((seed + 1000)) --seconds "$seconds" --processes 2 || die "a difference under load"
one_file other member $((seed + 1)) || die "not as in the image, under load"
touch "$WORK/enough"
for load in "${loads[@]}"; do wait "$load" || die "the load has found something"; done
for machine in other member coordinator; do leave_machine "$machine"; done
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }
