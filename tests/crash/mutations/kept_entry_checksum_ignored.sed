# server/store/kept_table_open.cc
# an entry of the table is believed whatever its checksum says
# kept
s/if (entry.checksum != kept_checksum(entry, table_.header().uuid\[1\] + frame) ||/if (/
