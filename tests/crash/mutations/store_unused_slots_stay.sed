# server/store/store_open.cc
# bytes in slots that nobody uses stay when the brick starts
# store
s/cleared = punch(free_from, end - free_from);/cleared = Status();/
