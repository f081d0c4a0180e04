# transport/volume/volume_set.cc
# what the former holder left uncommitted on other bricks is not settled before the journal
# explore --bricks 2 --max-ops 2
s/TRY(members_\[place\]->settle(parts\[place\], {}, {}));//
