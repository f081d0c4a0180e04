# fs/inode/member_register.cc
# members are not in checkpoints
# shared
/^void MemberRegister::put_all/,/^}/s/{$/{ return;/
