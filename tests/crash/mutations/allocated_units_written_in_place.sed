# fs/operations/file_write.cc
# a write over units that were allocated and never written leaves them marked as that
s/^    if (extent.unwritten || extent.file_unit != unit) return false;/    if (extent.file_unit != unit) return false;/
