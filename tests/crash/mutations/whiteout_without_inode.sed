# fs/operations/rename_op.cc
# the inode of a whiteout is not written down
s/^  put_new_inode(transaction, inode);/  Transaction lost; put_new_inode(lost, inode);/
