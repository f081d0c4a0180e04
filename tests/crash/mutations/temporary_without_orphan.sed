# fs/operations/namespace_ops.cc
# a temporary file is not written down as an orphan
s/transaction.put_orphan(number);//
