# server/store/block_commit.cc
# a block that is written while it is committed counts as clean
# store
s/written.ok() \&\& settles \&\& block.write_mappings_ever == write_mappings/written.ok() \&\& length_bytes == kBlockBytes/
