# server/store/kept_table.cc
# blocks are freed before the sum is that without them
# kept
/^void KeptTable::remove/,/^}/{
s/^  for (const uint32_t frame : frames) clear_entry(frame);$//
s/^    sum_ ^= entry_checksum(frame);$/&\n    clear_entry(frame);/
}
