# fs/shared/member_session.cc
# a call that comes again to the same coordinator is done again
# shared
s/number == slot.last \&\& slot.kept/false/; s/number < slot.last ||/false ||/
