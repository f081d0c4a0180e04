# fs/shared/unit_lender.cc
# units of a member that has gone are used again though it may write to them
# shared
s/^  if (returned.expels \&\& !units_.expel_client(\*returned.expels).ok()) return false;//
