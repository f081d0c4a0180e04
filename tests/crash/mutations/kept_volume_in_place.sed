# server/store/kept_table.cc
# a volume's record is written over the one that holds
# kept
s/kept.generation = ++now.generation;/kept.generation = now.generation += 2;/
