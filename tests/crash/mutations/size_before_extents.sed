# fs/operations/file_change.cc
# size and extents of a write are two transactions
s/^  fs_.put_inode(transaction, inode);/  if (!transaction.empty()) fs_.journal->append(transaction);\n  transaction.clear();\n&/
