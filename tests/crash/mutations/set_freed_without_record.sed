# fs/recovery/recovery.cc
# blocks are freed on the word of a journal that the commit record does not cover yet
# explore --bricks 2 --seeds 40 --sequence "allocate b 0 600000; sync; truncate b 50"
/^  volume.set_commit_position/,/^}/ s/return volume.commit();/return {};/
