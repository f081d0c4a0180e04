# fs/shared/member_session.cc
# a call that a former coordinator has done is done again
# shared
s/was_done ? &\*slot.before : nullptr/nullptr/
