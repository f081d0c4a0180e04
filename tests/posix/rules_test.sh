#!/usr/bin/env bash
# Errors, permissions and stamps of the calls, on every kind of file, as several users, are those of another file system.
#   rules_test.sh [PART...]        parts: see rules.py
. "$(dirname "$0")/reference.sh"
chmod 755 "$WORK"
make_reference
start_brick file 512M
mount_brickfs allow_other
parts=("$@")
# tmpfs has no unwritten ranges and other stamps.
[ "$REFERENCE_TYPE" = ext4 ] || parts=(one_path sticky search_permission renames long_and_odd_paths set_id_bits creation acls_checked)
python3 "$TESTS/posix/rules.py" "$MNT" "$REFERENCE" "${parts[@]}" || die "a difference"
unmount_brickfs
check_volume
