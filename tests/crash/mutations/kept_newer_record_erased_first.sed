# server/store/kept_table.cc
# of a volume that is erased the older record holds for a moment
# kept
s/clear_volume(2 \* id + (now.generation + 1) % 2);/clear_volume(2 * id + now.generation % 2);/
t
s/clear_volume(2 \* id + now.generation % 2);/clear_volume(2 * id + (now.generation + 1) % 2);/
