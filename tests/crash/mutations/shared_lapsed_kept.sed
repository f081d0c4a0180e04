# fs/shared/held.cc
# a member whose leases have lapsed goes on with what it held
# shared
/^void Held::renew(/,/^}/s/^  drop_all();//
