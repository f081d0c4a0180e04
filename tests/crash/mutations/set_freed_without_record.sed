# fs/recovery/recovery.cc
# blocks are freed on the word of a journal that the commit record does not cover yet
# explore --bricks 3 --copies 2 --sequence 'allocate b 0 600000; truncate b 50' --seed 1
/^  volume.set_commit_position/,/^}/ s/return volume.commit();/return {};/
