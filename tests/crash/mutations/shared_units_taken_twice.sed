# fs/shared/unit_lender.cc
# units of a member become a file's twice
# shared
/^bool UnitLender::take_from/,/^}/s/file->second.lent.reset(unit)/(void)0/; /^bool UnitLender::take_from/,/^}/s/found->second.lent.reset(unit);/(void)0;/
