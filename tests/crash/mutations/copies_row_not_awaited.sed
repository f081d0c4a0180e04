# transport/volume/active_blocks.cc
# a second write to a block does not wait for the row that the first one writes
# explore --bricks 2 --copies 2 --max-ops 2
s/entries_\[block\] = {row.index, false};/entries_[block] = {row.index, true};/
