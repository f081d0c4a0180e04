# server/store/block_store.cc
# a freed block stays in the table
# store
s/const Status cleared = store_->clear_entry(doomed\[i\]->slot);/const Status cleared;/
