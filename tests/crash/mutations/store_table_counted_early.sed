# server/store/store_file.cc
# a sync that began before an entry was written counts for it
# store
s/^  const Status written = write_at(kStoreEntriesAt/  sync_.table_written();\n&/
s/^  sync_.table_written();$//
