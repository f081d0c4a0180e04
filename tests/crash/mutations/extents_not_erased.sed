# fs/operations/file_change.cc
# a truncation leaves the extents in the journal
s/transaction.erase_extents(ino_, units.first, units.count);/;/
