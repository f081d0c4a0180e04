# transport/volume/volume_set_replicated.cc
# a replica whose brick has restarted without its client is taken for one that has everything
# explore --bricks 2 --copies 2 --max-ops 2
s/^    leave_out(\*candidate);//
