# transport/volume/set_membership.cc
# a mark is written over the one in force
# explore --bricks 2 --copies 2 --max-ops 2
s/newest ? 1 - newest->slot : 0/newest ? newest->slot : 0/
