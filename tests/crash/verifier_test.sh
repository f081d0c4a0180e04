#!/usr/bin/env bash
# The load's own verifier sees what it must: a changed byte, a missing file, a short one, an old version.
. "$(dirname "$0")/../mount/lib.sh"
load=$BUILD/tests/sync_load
mkdir "$WORK/dir" "$WORK/logs"
"$load" run "$WORK/dir" "$WORK/logs" 1 7 2
verify() { "$load" verify "$WORK/dir" "$WORK/logs" live >/dev/null 2>&1; }
verify || die "an intact tree is called wrong"
victim=$(find "$WORK/dir" -name "f*" -not -name "*.tmp" -size +8k | sort | awk "NR == 1")
cp -a "$victim" "$WORK/saved"
damaged() { if verify; then die "not seen: $1"; fi; cp -a "$WORK/saved" "$victim"; verify || die "restored, and still wrong"; }
printf 'x' | dd of="$victim" bs=1 seek=5000 conv=notrunc status=none; damaged "a changed byte"
truncate -s -4096 "$victim"; damaged "a short file"
rm "$victim"; damaged "a missing file"

say "records: a call that was under way when the load was killed was done, or not; one that had returned was"
load=$TESTS/../tools/crash/kill/loads/records
mkdir -p "$WORK/live/w0" "$WORK/live-logs"
line() { python3 -c 'import sys; sys.stdout.write((f"w0-0 record 0 version {sys.argv[1]}".ljust(63) + "\n") * 64)' "$1"; }
printf '%s\n' 'create w0-0 1' 'write w0-0 0 1 1' 'wrote w0-0 0 1 1' 'write w0-0 0 1 2' 'wrote w0-0 0 1 2' 'renaming w0-0 w0-0.1' 'renamed w0-0' \
  'write w0-0 0 1 3' >"$WORK/live-logs/w0"
is_fine() { "$load" verify "$WORK/live" "$WORK/live-logs" live >"$WORK/out" 2>&1; }
line 2 >"$WORK/live/w0/w0-0.1"; is_fine || die "not done: $(cat "$WORK/out")"
line 3 >"$WORK/live/w0/w0-0.1"; is_fine || die "done: $(cat "$WORK/out")"
line 1 >"$WORK/live/w0/w0-0.1"; ! is_fine || die "an older version is not seen"
line 3 >"$WORK/live/w0/w0-0.1"; mv "$WORK/live/w0/w0-0.1" "$WORK/live/w0/w0-0"; ! is_fine || die "a former name is not seen"
sed -i '/^renamed/,$d' "$WORK/live-logs/w0"
line 2 >"$WORK/live/w0/w0-0"; is_fine || die "not renamed: $(cat "$WORK/out")"
mv "$WORK/live/w0/w0-0" "$WORK/live/w0/w0-0.1"; is_fine || die "renamed: $(cat "$WORK/out")"

say "a load whose program is missing: one line, before anything begins"
for driver in __main__.py cluster.py; do
  said=0
  python3 "$TESTS/../tools/crash/kill/$driver" --build "$WORK" --loads sync --output "$WORK/none" >"$WORK/out" 2>"$WORK/said" || said=$?
  [ "$said" != 77 ] || continue  # no etcd
  [ "$said" = 1 ] && [ "$(wc -l <"$WORK/said")" = 1 ] && grep -q '^brickfs-crash: there is no sync_load in ' "$WORK/said" || die "$driver: exit $said: $(cat "$WORK/out" "$WORK/said")"
done
[ ! -e "$WORK/none" ] || die "something has begun"
say "passed"
