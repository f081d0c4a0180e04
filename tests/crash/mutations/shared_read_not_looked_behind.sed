# fs/shared/member_data.cc
# what was read from the bricks counts though the lease has gone meanwhile
# shared
/^bool MemberData::counts/,/^}/{s/    if (found == .*//; s/  return held_.*/  return true;/}
