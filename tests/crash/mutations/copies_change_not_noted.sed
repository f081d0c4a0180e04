# transport/volume/mirror_missed.cc
# what a replica misses is noted for the next client only as far as it was known when the bitmap began
# explore --bricks 2 --copies 2 --seeds 400 --sequence 'create c; write a 0 100; write a 100 50'
/^Status Mirror::note_missed(std::span<const BlockRange>/,/^}/s/if (bitmap == nullptr) return {};/return {};/
