# fs/operations/rename_op.cc
# an exchange writes one of the two names down
s/^  repoint(transaction, at.to, move.new_name, at.moved, time);/  Transaction lost; repoint(lost, at.to, move.new_name, at.moved, time);/
