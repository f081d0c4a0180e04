# server/store/kept_table.cc
# a record is not taken back before another is written over it
# kept
s/^  store(kWords - 1, 0);$//
