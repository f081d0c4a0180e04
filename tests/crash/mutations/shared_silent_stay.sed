# fs/shared/coordinator.cc
# a member that is not heard of is not expelled
# shared
/^void Coordinator::look_at_members/,/^}/s/^    expel(lost);//
