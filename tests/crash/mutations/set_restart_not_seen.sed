# transport/volume/volume_set_open.cc
# a brick that has restarted is taken for one that has lived on
# explore --bricks 2 --max-ops 2
s/if (members_\[place\]->session().boot == record->boots\[place\]) continue;/continue;/
