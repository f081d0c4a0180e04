# Sourced by the tests that prepare troubles: what explain, the mount's log, brickctl status and the metrics of the mount say of each.
FROM=1          # of the mount's log, from here on
mark() { FROM=$(($(wc -l <"$WORK/brickfs.log") + 1)); }
MOUNT_OPTIONS=  # besides what a test says, of all its mounts
WITH=()         # what brickctl has to show to a brick: --secret-file PATH
mount_with() { mount_brickfs "metrics=127.0.0.1:0${MOUNT_OPTIONS:+,$MOUNT_OPTIONS}${1:+,$1}"; mark; }
explain() { timeout 30 "$BRICKCTL" explain "$@" >"$WORK/explained" 2>&1; }
# EXIT WHAT CURE SUBJECT...: it ends with that, and says that and, in the line below, what to do about it.
explains() {
  local want=$1 what=$2 cure=$3 status=0; shift 3
  explain "$@" || status=$?
  [[ $status = $want ]] && grep -A 1 -E -- "$what" "$WORK/explained" | grep -E -- "$cure" >/dev/null
}
must_explain() { local seconds=$1; shift; within "$seconds" explains "$@" || die "explain says: $(cat "$WORK/explained")"; say "$(grep -E -- "$2" "$WORK/explained" | head -n 1)"; }
# That the link comes and goes, as in a test like this, is said for a minute.
is_well() { explain "$MNT" || [ $? = 3 ] || return; ! grep -E '^(broken|warning)' "$WORK/explained" | grep -vE '^warning: link: it was lost [0-9]+ times' >/dev/null; }
metric() {  # NAME with its labels
  local address
  address=$(sed -n 's/.*metrics at \(http:[^ ]*\).*/\1/p' "$WORK/brickfs.log" | tail -n 1)
  python3 -c 'import sys, urllib.request
for line in urllib.request.urlopen(sys.argv[1], timeout=10).read().decode().splitlines():
    if line.startswith(sys.argv[2] + " "): print(line.split()[-1])' "$address" "$1"
}
metric_is() { [ "$(metric "$1")" = "$2" ]; }
soon_metric_is() { within 15 metric_is "$1" "$2" || die "$1 is $(metric "$1"), not $2"; }
link_is() { soon_metric_is "brickfs_link_state{state=\"$1\"}" 1; }
must_be_well() {
  within "${1:-30}" is_well || die "explain says: $(cat "$WORK/explained")"
  link_is connected
  [ "$(metric brickfs_store_healthy)" = 1 ] && [ "$(metric brickfs_damaged)" = 0 ] || die "the metrics speak of a trouble that is over"
  mark
}
has_logged() { tail -n "+$FROM" "$WORK/brickfs.log" | grep -E -- "$1" >/dev/null; }
must_have_logged() { within 15 has_logged "$1" || die "the log does not say $1: $(tail -n "+$FROM" "$WORK/brickfs.log")"; }
must_have_logged_nothing_bad() { ! tail -n "+$FROM" "$WORK/brickfs.log" | grep -iE 'warn|error' || die "a well mount complains"; }
status_says() { local status=0; timeout 30 "$BRICKCTL" status "$SOURCE" "${WITH[@]}" >"$WORK/status" 2>&1 || status=$?; [ "$status" = "$1" ] && grep -E -- "$2" "$WORK/status" >/dev/null; }
must_say() { within 15 status_says "$@" || die "status says: $(cat "$WORK/status")"; }
