# transport/volume/mirror_copy.cc
# a row is on the first replica only
# explore --bricks 3 --copies 3 --max-ops 2
s/return write_claimed(written(), pieces, Stage::kData, by);/return write_claimed(Targets{written().front()}, pieces, Stage::kData, by);/
