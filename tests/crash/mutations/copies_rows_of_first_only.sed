# transport/volume/mirror_repair.cc
# only the first replica's rows are looked at
# explore --bricks 2 --copies 2 --max-ops 2
/^Status Mirror::settle/,/^}/s/if (!unclean || /if (!unclean || replica->client.get() != \&source || /
