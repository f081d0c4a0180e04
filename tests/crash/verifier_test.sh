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
