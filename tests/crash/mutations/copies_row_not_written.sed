# transport/volume/activity_log.cc
# a block is written to without a row
# explore --bricks 2 --copies 2 --max-ops 2
s/const Status status = write_(rows, by);/const Status status;/
