#!/usr/bin/env bash
# bash completion: words, verbs and options of the programs as they are, by the files that are installed.
#   completion_test.sh [crash]     with `crash`: of brickfs-crash, which is not built every day
. "$(dirname "$0")/../mount/lib.sh"
FILES=$TESTS/../tools/completion
for name in brickd brickfs brickctl brickfs-crash; do . "$FILES/$name"; done
PATH=$BUILD/server:$BUILD/fs:$BUILD/tools:$PATH

completed() {  # WORD... : what the last one may become, on lines
  local function; function=$(complete -p "$1" | sed 's/.*-F \([^ ]*\) .*/\1/')
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  "$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  printf '%s\n' "${COMPREPLY[@]}"
}
one_line() { LC_ALL=C sort | paste -s -d ' '; }
is() { [ "$(completed "${@:2}" | one_line)" = "$1" ] || die "${*:2}: $(completed "${@:2}" | one_line), not: $1"; }
has() { completed "${@:2}" | grep -xF -- "$1" >/dev/null || die "${*:2}: $(completed "${@:2}" | one_line), without $1"; }

if [ "${1:-}" = crash ]; then
  is "explore" brickfs-crash e
  is "--pairs" brickfs-crash faults --p
  has "--workload" brickfs-crash kill --
  has "--copies" brickfs-crash cluster --co
  say "passed"
  exit
fi
is "--secret-file" brickd --se
is "--secret-file --size" brickd --s
is "trace" brickd --log t
is "" brickd --memory ""
touch "$WORK/store"
is "$WORK/store" brickd --file "$WORK/st"
is "--version" brickfs --v
has "tcp://" brickfs t
is "durable" brickfs tcp://host/home /home -o dur
is "ro,durable" brickfs tcp://host/home /home -o ro,dur
is "secret=/etc/secret,durable" brickfs tcp://host/home /home -o secret=/etc/secret,dur
for option in $(completed brickfs tcp://host/home /home -o ""); do  # no other word of the help
  brickfs memory:64M "$WORK/none" -o "$option" >"$WORK/said" 2>&1 && die "mounted nowhere"
  if grep "unknown option" "$WORK/said"; then die "$option is offered, and unknown"; fi
done
is "timeo=" brickfs tcp://host/home /home -o timeo
is "stats status" brickctl st
is "--seconds --secret-file --size --span --steal" brickctl bench --s
is "--repair" brickctl check --r
is "create" brickctl volume c
has "--force" brickctl volume remove --f
is "$WORK/store" brickctl volume list --admin-secret-file "$WORK/st"
is "scrub status" brickctl set s
has "--etcd-password-file" brickctl set status --etcd
is "$WORK/store" brickctl set create --etcd-ca "$WORK/st"
