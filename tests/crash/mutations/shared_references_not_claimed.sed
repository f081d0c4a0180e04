# fs/shared/member_session.cc
# references to inodes are not taken over
# shared
s/while (held < one.references/while (false/
