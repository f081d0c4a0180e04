# fs/shared/member_session.cc
# locks are not taken over
# shared
s/^    (void)files_.set_lock(request, false);//
