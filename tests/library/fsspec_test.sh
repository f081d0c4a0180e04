#!/usr/bin/env bash
# fsspec's own suite for file systems, on an embedded brick and over TCP. Debian 12's fsspec has none yet: that of the next Debian is fetched.
. "$(dirname "$0")/../mount/lib.sh"
. "$TESTS/library/python_lib.sh"
"$TESTS/../tools/install-packages" +python3-pytest >"$WORK/install.log" 2>&1 || { say "left out: no pytest"; exit 77; }
package=$("$TESTS/../tools/debian_archive" "$CACHE" package python3-fsspec trixie 2>"$WORK/fetch.log") || { say "left out: $(tail -n 1 "$WORK/fetch.log")"; exit 77; }
dpkg -x "$package" "$WORK/later"
export PYTHONPATH=$WORK/later/usr/lib/python3/dist-packages:$PYTHONPATH
suite() {
  timeout 300 "$python" -m pytest -q -p no:cacheprovider "$TESTS/library/fsspec_suite.py" >"$WORK/suite.log" 2>&1 || die "$1: $(grep -E '^(E|FAILED|ERROR) ' "$WORK/suite.log" | tail -n 40)"
  say "$1: $(tail -n 1 "$WORK/suite.log")"
}
suite "an embedded brick"
start_brickd --memory 256M
BRICKFS_TEST_SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default suite "over TCP"
