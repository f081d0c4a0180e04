# transport/volume/active_blocks.cc
# a block is written to without a row
# explore --bricks 2 --copies 2 --max-ops 2
s/const Status status = write_(std::span(&row, 1), by);/const Status status;/
