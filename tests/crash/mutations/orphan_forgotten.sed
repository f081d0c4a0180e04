# fs/operations/filesystem_state.cc
# an unlinked file in use is not written down as an orphan
s/transaction.put_orphan(inode.ino);//
