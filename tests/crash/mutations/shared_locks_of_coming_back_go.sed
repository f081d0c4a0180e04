# fs/shared/member_session.cc
# a coordinator that ends lets go of its members' locks
# shared
s/^  if (!comes_back) (void)files_.release/  (void)files_.release/
