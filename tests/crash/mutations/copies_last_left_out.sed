# transport/volume/mirror_map.cc
# the last replica in sync is left out of the map, too
# explore --bricks 3 --copies 3 --max-ops 1
/^bool Mirror::leave_out_of/,/^}/s/^  if (is_last .*//
/^void Mirror::ask_map_to_leave_out/,/^}/s/ && has_another(\*replica, true)//
