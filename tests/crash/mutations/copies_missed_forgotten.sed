# transport/volume/mirror_missed.cc
# what a replica misses while it is left out is not noted
# explore --bricks 2 --copies 2 --max-ops 2
/^std::shared_ptr<DirtyBitmap> Mirror::add_missed/,/^}/s/for (const BlockRange& range : blocks) replica->missed.insert(range);//
