# transport/volume/mirror.cc
# a replica that is being brought up to date is read
# explore --bricks 2 --copies 2 --max-ops 2
/^Mirror::Replica\* Mirror::first_in_sync/,/^}/s/!has_everything(\*replica)/!is_written(*replica)/
