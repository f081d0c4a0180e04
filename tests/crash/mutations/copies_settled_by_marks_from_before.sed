# transport/volume/mirror_map.cc
# copies are settled although one was left out since the others were marked
# explore --bricks 2 --copies 2 --max-ops 2
/^void Mirror::raise/,/^}/s/^    if (is_out(now.next) && !is_out(before)) .*//
