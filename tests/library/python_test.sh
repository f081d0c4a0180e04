#!/usr/bin/env bash
# The Python module, on an embedded brick and over TCP.
#   python_test.sh BYTES     of the arrays that are saved and loaded
. "$(dirname "$0")/../mount/lib.sh"
. "$TESTS/library/python_lib.sh"
"$python" -c 'import fsspec, numpy' 2>/dev/null || { say "left out: no NumPy or fsspec"; exit 77; }
timeout 600 "$python" "$TESTS/library/python_test.py" "$1" 2>"$WORK/memory.log" || die "$(cat "$WORK/memory.log")"
timeout 300 "$python" "$TESTS/library/spec_test.py" 2>"$WORK/spec.log" || die "$(cat "$WORK/spec.log")"
size=$(($1 / 1048576 * 2 + 512))M
start_brickd --memory "$size" --file "$WORK/store" --size "$size" --volume blocks --volume other
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
BRICKFS_TEST_SOURCE=$SOURCE timeout 600 "$python" "$TESTS/library/python_test.py" "$1" 2>"$WORK/tcp.log" || die "$(cat "$WORK/tcp.log")"
BRICKFS_TEST_SOURCE=$SOURCE BRICKFS_TEST_OTHER_SOURCE=${SOURCE%default}other BRICKFS_TEST_BRICK_PID=$BRICKD_PID timeout 100 "$python" "$TESTS/library/python_test.py" 1 Away 2>"$WORK/away.log" || die "$(cat "$WORK/away.log")"
