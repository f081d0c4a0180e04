# fs/persistence/journal_reader.cc
# bytes of a torn write in the next journal block go unnoticed
s/end_.fresh_dirty = !is_zero(block_);/end_.fresh_dirty = false;/
