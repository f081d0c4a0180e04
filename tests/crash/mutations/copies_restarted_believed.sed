# transport/membership/claim.cc
# a replica whose brick has restarted without its client is taken for one that has everything
# explore --bricks 2 --copies 2 --max-ops 2
s/^  for (FoundReplica\* replica : restarted) leave_out(\*replica);//
