#!/usr/bin/env bash
# brickctl handover: the machines of a shared volume coordinate it in turn, while programs on three of them go on: no error, nothing lost, nothing done twice, short pauses. Also with one side killed in the middle, and what is refused.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/shared_lib.sh"
. "$TESTS/mount/json_lib.sh"
HANDOVERS=${1:-10}
start_shared_brick 1G
chmod 755 "$WORK"
MACHINES="b c d"
handover() { timeout 90 "$BRICKCTL" handover --secret-file "$SHARED_SECRET" "$SOURCE" "$@"; }
refused() {  # WHAT ARGUMENT...
  local said
  said=$(handover "${@:2}" 2>&1) && die "handed over: $said"
  [[ $said == *"$1"* ]] && [ "$(wc -l <<<"$said")" = 1 ] || die "not in one line '$1': $said"
}
name_of() { echo "$(hostname) (pid $(machine_pid "$1"))"; }

start_none() {
  setsid "$BRICKFS" "$SOURCE" none -f -o "shared,secret=$SHARED_SECRET" </dev/null >>"$WORK/none.log" 2>&1 &
  NONE=$!
  disown
  within 30 grep -q "is shared" "$WORK/none.log" || die "nobody coordinates: $(cat "$WORK/none.log")"
}

say "refusals: one line each"
refused "nobody has the volume"
start_none
refused "no other member"
join_machine r ro
refused "read-only"
refused "nowhere is no member" nowhere
leave_machine r

say "a coordinator without a mount hands over, and ends"
for machine in $MACHINES; do join_machine "$machine"; done
handover "$(name_of c)" || die "c does not take it: $(tail -n 2 "$WORK"/*.log)"
within 30 test ! -d "/proc/$NONE" || die "it does not end"
grep -q "umount\|error" "$WORK/none.log" && die "it complains: $(cat "$WORK/none.log")"

say "$HANDOVERS handovers, around"
refused "coordinates it" "$(name_of c)"
start_work turns
turn=(d b c)
for ((i = 0; i < HANDOVERS; ++i)); do
  to=${turn[i % 3]}
  handover "$(name_of "$to")" --json >"$WORK/handover.log" 2>&1 || die "$to does not take it: $(cat "$WORK/handover.log"; tail -n 3 "$WORK"/?.log)"
  within 30 coordinates "$to" || die "$to does not say so"
  fields_are_documented handover "$WORK/handover.log" || die "handover --json"
  wait_for_rounds
done
check_work turns "$HANDOVERS handovers"
grep -h "has taken its place" "$WORK"/[b-d].log | grep -c "handed the volume over" >"$WORK/count"
[ "$(cat "$WORK/count")" -ge "$HANDOVERS" ] || die "only $(cat "$WORK/count") say that it was handed over to them"

say "one side is killed in the middle"
for when in 0.2 0.9 1.2 1.4; do
  for side in former next; do
    start_work "killed.$when.$side"
    wait_for_rounds
    former=$(coordinator)
    for next in $MACHINES; do [ "$next" = "$former" ] || break; done
    killed=$former
    [ "$side" = former ] || killed=$next
    end_work "before anything"  # its programs would die with it
    (sleep "$when"; kill -9 "$(machine_pid "$killed")") &
    killer=$!
    handover "$(name_of "$next")" >"$WORK/handover.log" 2>&1 || true  # another has it, or has it still
    wait "$killer"
    for machine in $MACHINES; do
      [ "$machine" = "$killed" ] || timeout 60 sh -c "echo $machine >>'$WORK/$machine/after.$when.$side'" || die "$machine does not go on: $(tail -n 3 "$WORK"/?.log)"
    done
    umount -l "$WORK/$killed"
    join_machine "$killed"
    [ "$(timeout 20 wc -l <"$WORK/$killed/after.$when.$side")" = 2 ] || die "something is lost"
    echo "$side killed after $when s: $(tail -n 1 "$WORK/handover.log")"
  done
done

for machine in $MACHINES; do leave_machine "$machine"; done
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }
