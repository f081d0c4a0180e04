# server/store/kept_table.cc
# memory that is served again still says that it was left in order
# kept
/^void KeptTable::undo/,/^}/s/^  settle();//
