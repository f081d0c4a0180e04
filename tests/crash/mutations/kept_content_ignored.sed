# server/store/kept_table_open.cc
# a block counts as blank or not whatever its word says
# kept
s/ || !(blank || filled)//
