# server/store/kept_table.cc
# the word that makes a record one is written first
# kept
s/^  store(kWords - 1, 0);$/  store(kWords - 1, words[kWords - 1]);/
