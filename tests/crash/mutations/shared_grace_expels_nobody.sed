# fs/shared/coordinator.cc
# who has not come in grace is a member yet
# shared
/^void Coordinator::look_at_grace/,/^}/s/^  expel(lost);//
