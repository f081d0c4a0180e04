# transport/membership/claim.cc
# that a tail is lost is forgotten when the mount crashes, too
# explore --bricks 3 --copies 2 --max-ops 2
s/map.tail_lost = lost_tail_;//
