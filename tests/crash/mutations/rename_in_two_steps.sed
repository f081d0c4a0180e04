# fs/operations/rename_op.cc
# a rename is two transactions
s/^    remove_name(transaction, at.from, move.name, time);/&\n  journal->append(transaction); transaction.clear();/
