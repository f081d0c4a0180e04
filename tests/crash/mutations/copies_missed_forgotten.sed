# transport/volume/mirror_calls.cc
# what a replica misses while it is left out is not noted
# explore --bricks 2 --copies 2 --max-ops 2
/^void Mirror::note_missed(std::span/,/^}/s/if (all_there) return;/if (!pieces.empty() || all_there) return;/
