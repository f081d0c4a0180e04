# server/store/kept_table.cc
# blocks are made without a word that they are being made
# kept
s/^  write_summary({KeptChange::kBlocks, volume, blocks});$/  if (sum_ == 1) &/
