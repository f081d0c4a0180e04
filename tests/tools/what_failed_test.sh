#!/usr/bin/env bash
# What tests/what_failed says of tests that end in each way they can, of CTest's own words about them.
set -euo pipefail
tests=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/brickfs-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

# says NAME [COMMAND...] <OUTPUT : a test that prints it and ends so
says() {
  local name=$1; shift
  cat >"$name"
  printf 'add_test(%s sh -c "cat %s; %s")\n' "$name" "$name" "${*:-exit 1}" >>CTestTestfile.cmake
}
# What is said of all tests that there are, which are then no more.
answer() {
  ctest --output-on-failure -j 1 >log 2>&1 && { echo "FAILED: ctest saw nothing fail"; exit 1; }
  "$tests/what_failed" log >answer
  rm CTestTestfile.cmake
}
is() { diff - answer || { echo "FAILED: $1"; exit 1; }; }

says assertions <<'END'
[ RUN      ] Unit.Holds
/elsewhere/source/tests/fs/unit_test.cc:7: Failure
of a test that is tried again
[       OK ] Unit.Holds (0 ms)
[ RUN      ] Each/Unit.DoesNotHold/first
/elsewhere/source/tests/fs/unit_test.cc:12: Failure
Expected equality of these values:
  1
[2026-01-01 00:00:00.000] [info] a log goes on meanwhile
  2
../../tests/fs/unit_test.cc:13: Failure
Expected: it goes on
[  FAILED  ] Each/Unit.DoesNotHold/first, where GetParam() = 4-byte object <01-00 00-00> (17 ms)
[ RUN      ] Unit.IsSkipped
[  SKIPPED ] Unit.IsSkipped (0 ms)
[ RUN      ] Unit.OfABatch
../../tests/fs/unit_test.cc:20: Failure
Failed
[  FAILED  ] Unit.OfABatch (0 ms)
[  PASSED  ] 1 test.
[  FAILED  ] 2 tests, listed below:
[  FAILED  ] Each/Unit.DoesNotHold/first, where GetParam() = 4-byte object <01-00 00-00>
[  FAILED  ] Another.SuiteWithoutATime
 2 FAILED TESTS
END
says fine exit 0 <<'END'
FAILED: to fail
END
says race exit 66 <<'END'
[ RUN      ] Unit.Races
WARNING: ThreadSanitizer: data race (pid=1)
SUMMARY: ThreadSanitizer: data race fs/unit.cc:3:1 in race()
[       OK ] Unit.Races (0 ms)
[  PASSED  ] 1 test.
END
says crash 'kill -SEGV \$\$' <<'END'
[ RUN      ] Unit.Dies
brickfs: internal error: it does not hold (fs/unit.cc:3)
END
says script <<'END'
-- a step
FAILED: the file is not there
-- cleaning up
END
says silent exit 3 <<'END'
the last

END
answer
is "what each of them says" <<'END'
  assertions: Each/Unit.DoesNotHold/first tests/fs/unit_test.cc:12: Expected equality of these values: 1 2
  assertions: Unit.OfABatch tests/fs/unit_test.cc:20: Failed
  assertions: Another.SuiteWithoutATime
  race: Unit.Races: SUMMARY: ThreadSanitizer: data race fs/unit.cc:3:1 in race()
  crash: Unit.Dies: brickfs: internal error: it does not hold (fs/unit.cc:3)
  crash: ended in Unit.Dies (Exception: SegFault)
  script: FAILED: the file is not there
  silent: Failed; the last
END

says slow <<<"[ RUN      ] Unit.Hangs"
printf 'add_test(sleeps sh -c "echo \\"[ RUN      ] Unit.Hangs\\"; exec sleep 60")\nset_tests_properties(sleeps PROPERTIES TIMEOUT 1)\n' >>CTestTestfile.cmake
printf '#!/bin/sh\n[ "$GTEST_SHARD_INDEX" = 0 ] || exit 0\nseq 1000\necho "[ RUN      ] Unit.Early"\necho "[  FAILED  ] Unit.Early (1 ms)"\nseq 1000\necho "[ RUN      ] Unit.Ends"; exit 1\n' >program
chmod +x program
printf 'add_test(shards "%s" 2 60 "%s")\n' "$tests/in_shards" "$PWD/program" >>CTestTestfile.cmake
answer
is "of what has not come to its end" <<'END'
  slow: ended in Unit.Hangs (Failed)
  sleeps: ended in Unit.Hangs (Timeout)
  shards: Unit.Early
  shards: ended in Unit.Ends (Failed)
END

for ((test = 0; test < 20; test++)); do says "test$test" < <(printf 'FAILED: %s\n' one two); done
answer
[ "$(wc -l <answer)" = 12 ] || { echo "FAILED: of many tests there are $(wc -l <answer) lines"; exit 1; }
tail -n 1 answer | grep -x "  and 29 lines more in log" >/dev/null || { echo "FAILED: $(tail -n 1 answer)"; exit 1; }
