#!/usr/bin/env bash
# The contract of a brick (tests/support/brick_contract.h) over verbs, and what only verbs can break.
#   contract_test.sh file|others     a brick with a store in a file; those without, or with memory that outlives them
. "$(dirname "$0")/lib.sh"
tests=$BUILD/tests/transport_tests
case $1 in
  file) filter='*verbs_file:Verbs.*' ;;
  others) filter='*verbs*:-*verbs_file' ;;
esac
count=$("$tests" --gtest_list_tests --gtest_filter="$filter" | grep -c '^  ' || true)
[ "$count" -ge 20 ] || die "only $count tests over verbs"
cd "$WORK"
"$tests" --gtest_filter="$filter" --gtest_brief=1 || die "the contract is broken over verbs"
# As a user whom RLIMIT_MEMLOCK binds: what depends on that is left out above.
setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock "$tests" --gtest_filter='Verbs.MemoryThatOneDevice*' --gtest_brief=1 ||
  die "memory that one of two devices could not register"
say "$count tests"
