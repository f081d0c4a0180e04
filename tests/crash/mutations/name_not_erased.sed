# fs/operations/namespace_ops.cc
# unlinking leaves the name in the journal
s/transaction.erase_dirent([^;]*);//
