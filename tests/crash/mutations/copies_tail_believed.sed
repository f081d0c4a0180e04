# transport/membership/claim.cc
# all of the journal is believed though the bricks of a place have lost what was not committed
# explore --bricks 3 --copies 2 --max-ops 2
s/lost_tail_ = restarted.front()->lost_tail = true;/restarted.front()->lost_tail = true;/
